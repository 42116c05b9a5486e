"""Deques from outside: a shadow of the same length, whose items are read when the program looks at it.

What only appends to one is noted, and done again behind the graph: a history that grows is not looked at.
"""

from __future__ import annotations

import collections
from dataclasses import dataclass
from typing import Any

from onegraph.capture.guards.source import Item, Through
from onegraph.capture.heap.shadows import Record
from onegraph.capture.pyobject.exact_types import isinstance


@dataclass(frozen=True, slots=True, eq=False)
class Slot:
    """An item that nobody has read yet."""

    index: int


def items_of(real: collections.deque[Any]) -> list[Any]:
    return list(collections.deque.__iter__(real))


def fill_deque(world: Any, entry: Record) -> None:
    """Read all items: what the deque holds matters from here on."""
    source = Through(entry.source, items_of)
    entry.snapshot = [
        world.admit(item, Item(source, index), entry.guarded) for index, item in enumerate(items_of(entry.real))
    ]
    for place, item in enumerate(items_of(entry.shadow)):
        if isinstance(item, Slot):
            collections.deque.__setitem__(entry.shadow, place, entry.snapshot[item.index])


def write_deque(rebuild: Any, entry: Record) -> list[str]:
    """The statements that do again what was appended; where the program has looked, all items anew."""
    target = rebuild.source(entry.source)
    if not entry.complete:
        return [f"{rebuild.const(method)}({target}, {rebuild.value(item)})" for method, item in entry.snapshot]
    items = rebuild.values(items_of(entry.shadow))
    clear, extend = rebuild.const(collections.deque.clear), rebuild.const(collections.deque.extend)
    return [f"{clear}({target})", f"{extend}({target}, [{items}])"]
