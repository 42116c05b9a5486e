"""What the program has said about single functions: how the tracer is to take their calls.

A mark is a handler that the tracer asks first, by the identity of the function. The public functions that set marks
are in `onegraph.capture.directives.hatches`; what the handlers do is in `onegraph.capture.directives.handlers`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from onegraph.base.gone import when_gone
from onegraph.capture.calls.tracing import Tracing
from onegraph.capture.interp.rests import Rest

#: handler(tracer, rest, function, args, kwargs) -> the result of the call; `rest` as in `Tracer.call`
Mark = Callable[[Tracing, Rest | None, Any, tuple[Any, ...], dict[str, Any]], Any]

MARKS: dict[int, Mark] = {}
_kept_alive: dict[int, Any] = {}


@dataclass(slots=True)
class Said:
    """How often the program has said something of a function."""

    times: int = 0


SAID = Said()


def mark(function: Any, handler: Mark) -> None:
    """Calls of this function go to the handler. A function that dies takes its mark along."""
    identity = id(function)
    if identity not in MARKS:
        try:
            when_gone(function, MARKS.pop, identity, None)
        except TypeError:  # no weak references to it
            _kept_alive[identity] = function
    MARKS[identity] = handler


def say(function: Any, handler: Mark) -> None:
    """Mark a function because the program wants it: what was compiled before may have looked at it in another way."""
    SAID.times += 1
    mark(function, handler)


def unmark(function: Any) -> None:
    """Calls of this function are taken as if nothing had been said of it."""
    SAID.times += 1
    MARKS.pop(id(function), None)
    _kept_alive.pop(id(function), None)
