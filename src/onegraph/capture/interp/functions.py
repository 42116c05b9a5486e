"""The table of functions: what is known of each, in one row, and found by the function's identity.

Each layer fills the fields that it knows of: the interpreter what it does itself, the rules of calls what tracing does,
the program what it has said.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, NoReturn

from onegraph.base.dataclass import dataclass
from onegraph.base.gone import when_gone

if TYPE_CHECKING:
    from onegraph.capture.interp.rests import Rest

Args = tuple[Any, ...]
Kwargs = dict[str, Any]
#: (machine, args, kwargs) -> the result of the call
Substitute = Callable[[Any, Args, Kwargs], Any]
#: (tracer, rest, function, args, kwargs) -> the result of the call; `rest` as in `Calls.call`
Mark = Callable[[Any, "Rest | None", Any, Args, Kwargs], Any]
#: raises what a call of the function is while tracing
Refusal = Callable[[], NoReturn]
Depth = Literal["identity", "level", "pairs", "deep"]


@dataclass(slots=True)
class Row:
    """What a call of a function does.

    Fields, in the order in which they are asked:
        mark: what the program has said of the function, or `by_name` of all functions of its name.
        handler: while tracing, a version that knows the shadow world; it `passes_rest` if it takes what is done behind
            the call.
        refuse: while tracing, raises the graph break that a call is.
        substitute: what the interpreter does, traced or not: the function depends on the frame that calls it, or runs
            Python code.
        depth: how far the function, run natively, looks into its arguments: not at all ("identity"), at one level, at
            the pairs in lists of them, or deep. None is deep, of functions of modules that have no effects.
        hands_on: whether it passes on the items that it is given, without looking at them.
        calls_given: of a native class, whether its instances call what they are made with.
        quiet: of a native class, whether the methods of its instances call nothing of the program.
    """

    function: Any = None
    mark: Mark | None = None
    by_name: bool = False
    handler: Callable[..., Any] | None = None
    passes_rest: bool = False
    refuse: Refusal | None = None
    substitute: Substitute | None = None
    depth: Depth | None = None
    hands_on: bool = False
    calls_given: bool = False
    quiet: bool = False


NOTHING_KNOWN = Row()
_ROWS: dict[int, Row] = {}


def row_of(function: Any) -> Row:
    """What is known of a function."""
    return _ROWS.get(id(function), NOTHING_KNOWN)


def row_for(function: Any) -> Row:
    """The row of a function, to be filled. The table keeps the function alive."""
    row = _ROWS.setdefault(id(function), Row())
    row.function = function
    return row


def passing_row_for(function: Any) -> Row:
    """The row of a function that takes it along when it dies; if it has no weak references, it stays."""
    identity = id(function)
    if identity not in _ROWS:
        try:
            when_gone(function, _ROWS.pop, identity, None)
        except TypeError:
            return row_for(function)
        _ROWS[identity] = Row()
    return _ROWS[identity]


def unmark(function: Any) -> None:
    """Nothing is said of the function any more. A row that says nothing else goes."""
    row = row_of(function)
    if row is not NOTHING_KNOWN:
        row.mark = None
        if replace(row, function=None) == NOTHING_KNOWN:
            del _ROWS[id(function)]


def substitute(*functions: Any) -> Callable[[Substitute], Substitute]:
    """Register what the machine does instead of calling `functions`."""

    def register(made: Substitute) -> Substitute:
        for function in functions:
            row_for(function).substitute = made
        return made

    return register
