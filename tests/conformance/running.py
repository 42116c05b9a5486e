"""Makes the programs of the matrix, and tells all that can be seen of a run."""

from __future__ import annotations

import contextlib
import gc
import io
import itertools
import linecache
import sys
import traceback
import types
from collections.abc import Callable, Iterator
from typing import Any

import torch

import onegraph


class Noting:
    """A context manager that notes when it is entered and left."""

    def __init__(self, log: list[Any], name: str) -> None:
        self.log, self.name = log, name

    def __enter__(self) -> Noting:
        self.log.append(("enter", self.name))
        return self

    def __exit__(self, kind: Any, value: Any, tb: Any) -> None:
        self.log.append(("exit", self.name, kind and kind.__name__, str(value)))


@contextlib.contextmanager
def noting(log: list[Any], name: str) -> Iterator[str]:
    log.append(("enter", name))
    try:
        yield name
    finally:
        log.append(("exit", name))


@onegraph.disable
def eagerly(x: Any) -> None:
    print("eagerly", tuple(x.shape))


def log_number(number: float) -> None:
    assert type(number) is float


_SERIAL = itertools.count()


def make(source: str, kind: str) -> Callable[..., Any]:
    """The function `f` of a shape with a kind of break."""
    text = source.replace("BREAK", kind)
    name = f"<program {next(_SERIAL)}>"
    linecache.cache[name] = (len(text), None, text.splitlines(True), name)
    space: dict[str, Any] = {
        "torch": torch, "onegraph": onegraph, "contextlib": contextlib, "itertools": itertools, "sys": sys, "gc": gc,
        "types": types, "Noting": Noting, "noting": noting, "eagerly": eagerly, "log_number": log_number,
        "__name__": "program", "__file__": name,
    }  # fmt: skip
    exec(compile(text, name, "exec"), space)
    return space["f"]


def told(error: BaseException | None, filename: str) -> Any:
    """An exception with its arguments, the user's function that has raised it, and what it is chained to."""
    if error is None:
        return None
    steps = [step.name for step in traceback.extract_tb(error.__traceback__) if step.filename == filename][-1:]
    return (
        type(error), repr(error.args), steps, told(error.__cause__, filename), told(error.__context__, filename),
        error.__suppress_context__,
    )  # fmt: skip


def state() -> tuple[Any, ...]:
    """The state of torch that a program may change."""
    return (
        torch.is_grad_enabled(), torch.is_autocast_enabled("cpu"), torch.get_autocast_dtype("cpu"),
        torch.get_default_dtype(), torch.are_deterministic_algorithms_enabled(), torch.is_inference_mode_enabled(),
    )  # fmt: skip


def settled(value: Any) -> Any:
    """A value that can be compared: a generator by what it gives."""
    match value:
        case types.GeneratorType():
            return "generator", list(value)
        case tuple() | list():
            return type(value)(settled(item) for item in value)
    return value


def outcome(function: Callable[..., Any], x: torch.Tensor, filename: str) -> tuple[Any, ...]:
    """What a call gives or raises, what it notes and prints, and the state that it leaves."""
    log: list[Any] = []
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        try:
            result = settled(function(x.clone(), log))
        except Exception as error:
            result = told(error, filename)
    return result, log, output.getvalue(), state()
