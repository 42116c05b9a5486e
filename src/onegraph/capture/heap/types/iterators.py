"""Native iterators that the trace has made: made again over the same container, at the same place.

One from outside tells nothing of its state: it is opaque here, and drawn from in `onegraph.capture.residual.iterators`.
"""

from __future__ import annotations

import operator
from typing import Any

from onegraph.capture.breaks import CANNOT_REBUILD, GraphBreak
from onegraph.capture.heap.type_rules import Rebuilding, TypeRule, rule_for
from onegraph.capture.pyobject.exact_types import isinstance
from onegraph.capture.pyobject.native_iterators import EMPTY, OVER_TABLES, REDUCED, behind

#: Iterators over lists -> how far before the end of its list the last place is where one can be put.
OVER_LISTS: dict[type, int] = {type(iter([])): 0, type(reversed([])): 1}


@rule_for(*REDUCED)
class Iterators(TypeRule):
    def rebuild(self, rebuild: Rebuilding, value: Any) -> str:
        cls = type(value)
        if cls not in REDUCED:
            return super().rebuild(rebuild, value)
        function, args, *state = value.__reduce__()
        if cls in EMPTY and function is iter and not state and len(args) == 1:  # at its end it reduces to another type
            return rebuild.assign(f"{rebuild.const(ended)}({rebuild.const(type(value))})")
        name = rebuild.assign(f"{rebuild.const(function)}({rebuild.values(args)})")
        if state and state[0] is not None:
            write_place(rebuild, name, value, state[0])
        return name


@rule_for(*OVER_TABLES)
class TableIterators(TypeRule):
    """An iterator over a dict, a view of one or a set: one that has gone as far over the same container."""

    def rebuild(self, rebuild: Rebuilding, value: Any) -> str:
        left = operator.length_hint(value)
        table = behind(value)
        if isinstance(table, set | frozenset) and list(set(list(table))) != list(table):
            raise GraphBreak(CANNOT_REBUILD, what="iterator over a set whose order depends on its past")
        if table is None:  # it has come to its end
            return rebuild.assign(f"{rebuild.const(ended)}({rebuild.const(type(value))})")
        try:
            value.__reduce__()
        except RuntimeError as error:
            raise GraphBreak(CANNOT_REBUILD, what=f"iterator that fails: {error}") from None
        over, container = rebuild.const(OVER_TABLES[type(value)]), rebuild.value(table)
        rebuild.settle(table)
        return rebuild.assign(f"{rebuild.const(advanced)}({over}({container}), {left})")


def write_place(rebuild: Rebuilding, name: str, iterator: Any, state: Any) -> None:
    """Put the iterator in a variable where the one of the trace is, behind the writes."""
    if type(iterator) in OVER_LISTS and state > list.__len__(behind(iterator)) - OVER_LISTS[type(iterator)]:
        raise GraphBreak(CANNOT_REBUILD, what="iterator behind the end of its list")
    rebuild.late.append(f"{name}.__setstate__({rebuild.value(state)})")


def ended(kind: type) -> Any:
    """An iterator of this type that has come to its end."""
    iterator = EMPTY[kind]()
    while next(iterator, ended) is not ended:
        pass
    return iterator


def advanced(iterator: Any, left: int) -> Any:
    """The iterator with so many items left."""
    while operator.length_hint(iterator) > left:
        next(iterator)
    return iterator
