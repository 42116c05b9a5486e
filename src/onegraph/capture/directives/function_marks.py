"""What the program has said about single functions: how the tracer is to take their calls.

A mark is a handler that the tracer asks first, by the identity of the function. The public functions that set marks
are in `onegraph.capture.directives.hatches`; what the handlers do is in `onegraph.capture.directives.handlers`.
"""

from __future__ import annotations

from dataclasses import field
from typing import Any

from onegraph.base.dataclass import dataclass
from onegraph.capture.interp import functions
from onegraph.capture.interp.functions import Mark


@dataclass(slots=True)
class Said:
    """How often the program has said something of a function, and what it says of each, by their names."""

    times: int = 0
    marks: dict[str, str] = field(default_factory=dict)

    def texts(self) -> list[str]:
        return sorted(f"{name} {mark}" for name, mark in self.marks.items())


SAID = Said()


def mark(function: Any, handler: Mark) -> None:
    """Calls of this function go to the handler. A function that dies takes its mark along."""
    if str(getattr(function, "__module__", "")).partition(".")[0] not in ("onegraph", "torch"):
        SAID.marks[_name(function)] = getattr(handler, "__qualname__", "")
    functions.passing_row_for(function).mark = handler


def say(function: Any, handler: Mark) -> None:
    """Mark a function because the program wants it: what was compiled before may have looked at it in another way."""
    SAID.times += 1
    SAID.marks[_name(function)] = getattr(handler, "__qualname__", "")
    mark(function, handler)


def unmark(function: Any) -> None:
    """Calls of this function are taken as if nothing had been said of it."""
    SAID.times += 1
    SAID.marks.pop(_name(function), None)
    functions.unmark(function)


def _name(function: Any) -> str:
    owner = getattr(function, "__objclass__", None) or getattr(function, "__module__", None)
    return f"{getattr(owner, '__qualname__', owner)}.{getattr(function, '__qualname__', type(function).__qualname__)}"
