"""Functions that give messages and that the program has told to move behind the graph, or to leave out."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Any

import torch

from onegraph.base.config import Config
from onegraph.capture.breaks import CHANGED_TEXT, PRINT, GraphBreak
from onegraph.capture.interp.rests import Rest
from onegraph.capture.marks import Mark
from onegraph.capture.policy.reasons import public_name
from onegraph.capture.shadows import ATOMS
from onegraph.capture.texts import version_of

#: What is shown as it is, whatever the program does afterwards.
UNCHANGING = (type, torch.dtype, torch.device, torch.layout, torch.memory_format, torch.Size, range, slice)
SYMBOLIC = (torch.SymInt, torch.SymFloat, torch.SymBool)


def move(tracer: Any, rest: Rest | None, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """`reorderable_logging_functions`: the call is made behind the graph, in its turn, with what it would show here."""
    given = tuple(shown(tracer, function, value) for value in args)
    named = {name: shown(tracer, function, value) for name, value in kwargs.items()}
    tracer.effects.append((function, given, named))


def leave_out(tracer: Any, rest: Rest | None, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """`ignore_logging_functions`"""


def shown(tracer: Any, function: Any, value: Any) -> Any:
    """A copy of the containers of an argument. What can be changed and not be copied is shown in its place: a break."""
    if id(value) in tracer.world.opaque:  # a stream, a logger
        return value
    tracer.world.realize(value)
    match value:
        case torch.Tensor():
            tracer.logged.append((value, version_of(value)))
            return value
        case _ if type(value) in ATOMS or isinstance(value, (*UNCHANGING, *SYMBOLIC)):
            return value
        case tuple() | list() | set() | frozenset() if type(value) in (tuple, list, set, frozenset):
            return type(value)([shown(tracer, function, item) for item in value])
        case dict() if type(value) is dict:
            return {key: shown(tracer, function, item) for key, item in value.items()}
    raise GraphBreak(PRINT, name=public_name(function), what=f"call of {public_name(function)}")


def check_logged(tracer: Any) -> None:
    """The messages are given when the graph has run: no tensor in them may have been written to since."""
    if any(version_of(tensor) != version for tensor, version in tracer.logged):
        raise GraphBreak(CHANGED_TEXT)


def message_marks(config: Config) -> dict[int, Mark]:
    """The functions that the configuration names, ours and that of torch's compiler."""
    theirs = sys.modules.get("torch._dynamo.config")
    moved: Iterable[Any] = getattr(theirs, "reorderable_logging_functions", ())
    ignored: Iterable[Any] = getattr(theirs, "ignore_logging_functions", ())
    found = {id(function): move for function in (*config.reorderable_logging_functions, *moved)}
    return found | {id(function): leave_out for function in (*config.ignore_logging_functions, *ignored)}
