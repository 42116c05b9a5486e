"""Functions that give messages: warnings and loggers, and what the program has told to move behind the graph."""

from __future__ import annotations

import functools
import logging
import sys
import warnings
from collections.abc import Iterable
from types import FunctionType
from typing import Any

import torch

from onegraph.base.config import Config
from onegraph.capture.breaks import CHANGED_TEXT, PRINT, GraphBreak
from onegraph.capture.breaks.hints import public_name
from onegraph.capture.calls.registry import policy
from onegraph.capture.calls.tracing import Tracing
from onegraph.capture.interp.functions import Row
from onegraph.capture.interp.rests import Rest
from onegraph.capture.interp.tracebacks import speaking
from onegraph.capture.pyobject.contents import ATOMS
from onegraph.capture.pyobject.exact_types import isinstance
from onegraph.capture.symbolic.arithmetic import SYMBOLIC
from onegraph.torchlib.histories import version_of

#: What is shown as it is, whatever the program does afterwards.
UNCHANGING = (
    type,
    BaseException,
    torch.dtype,
    torch.device,
    torch.layout,
    torch.memory_format,
    torch.Size,
    range,
    slice,
)


def move(tracer: Tracing, rest: Rest | None, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """`reorderable_logging_functions`: the call is made behind the graph, in its turn, with what it would show here."""
    given = tuple(shown(tracer, function, value) for value in args)
    named = {name: shown(tracer, function, value) for name, value in kwargs.items()}
    tracer.effects.append((function, given, named))


@policy(warnings.warn)
def warn(tracer: Tracing, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Warned behind the graph, of the same line."""
    if any(rule[0] == "error" for rule in warnings.filters) or "skip_file_prefixes" in kwargs:
        raise GraphBreak(PRINT, name="warnings.warn", what="call of warnings.warn")
    named = {**dict(zip(("message", "category", "stacklevel", "source"), args, strict=False)), **kwargs}
    say(tracer, warnings.warn, (), named)


def _logs(function: Any) -> None:
    @policy(function)
    def log(tracer: Tracing, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Logged behind the graph, as from the same line."""
        about = kwargs.get("exc_info", function is logging.Logger.exception)
        if about is not False and about is not None or kwargs.get("stack_info"):
            raise GraphBreak(PRINT, name=public_name(function), what=f"call of {public_name(function)}")
        say(tracer, function, args[1:], kwargs, args[:1])


for _function in (
    logging.Logger.debug, logging.Logger.info, logging.Logger.warning, logging.Logger.error, logging.Logger.log,
    logging.Logger.critical, logging.Logger.exception,
):  # fmt: skip
    _logs(_function)


def say(
    tracer: Tracing, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any], receiver: tuple[Any, ...] = ()
) -> None:
    """Call the function behind the graph, with frames around it that stand for the program's: it may look at them."""
    level = kwargs.get("stacklevel", 1)
    if type(level) is int and level > len(tracer.frames):  # beyond the frame of the residual code
        kwargs = {**kwargs, "stacklevel": level + 1}
    given = tuple(shown(tracer, function, value) for value in args)
    named = {name: shown(tracer, function, value) for name, value in kwargs.items()}
    tracer.effects.append((called_from(tracer, function), (*receiver, *given), named))


def called_from(tracer: Tracing, function: Any) -> Any:
    """The function, with frames around its calls that stand for the program's."""
    calling = function
    for frame in reversed(tracer.frames):
        code = speaking(frame.bytecode.code, frame.bytecode.code.co_filename, frame.position)
        calling = functools.partial(FunctionType(code, frame.globals), calling)
    return calling


def leave_out(tracer: Tracing, rest: Rest | None, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """`ignore_logging_functions`"""


def shown(tracer: Tracing, function: Any, value: Any) -> Any:
    """A copy of the containers of an argument. What can be changed and not be copied is shown in its place: a break."""
    if id(value) in tracer.world.opaque:  # a stream, a logger
        return value
    tracer.world.realize(value)
    match value:
        case torch.Tensor():
            tracer.logged.append((value, version_of(value)))
            return value
        case _ if type(value) in ATOMS or isinstance(value, UNCHANGING) or isinstance(value, SYMBOLIC):
            return value
        case tuple() | list() | set() | frozenset() if type(value) in (tuple, list, set, frozenset):
            return type(value)([shown(tracer, function, item) for item in value])
        case dict() if type(value) is dict:
            return {key: shown(tracer, function, item) for key, item in value.items()}
    raise GraphBreak(PRINT, name=public_name(function), what=f"call of {public_name(function)}")


def check_logged(tracer: Tracing) -> None:
    """The messages are given when the graph has run: no tensor in them may have been written to since."""
    if any(version_of(tensor) != version for tensor, version in tracer.logged):
        raise GraphBreak(CHANGED_TEXT)


MOVED, LEFT_OUT = Row(mark=move), Row(mark=leave_out)


def message_rows(config: Config) -> dict[int, Row]:
    """The functions that the configuration names, ours and that of torch's compiler."""
    theirs = sys.modules.get("torch._dynamo.config")
    moved: Iterable[Any] = getattr(theirs, "reorderable_logging_functions", ())
    ignored: Iterable[Any] = getattr(theirs, "ignore_logging_functions", ())
    found = {id(function): MOVED for function in (*config.reorderable_logging_functions, *moved)}
    return found | {id(function): LEFT_OUT for function in (*config.ignore_logging_functions, *ignored)}
