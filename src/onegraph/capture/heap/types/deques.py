"""Deques: a shadow of the same length, whose items are read when the program looks at it.

What only appends to one is noted, and done again behind the graph: a history that grows is not looked at.
"""

from __future__ import annotations

import operator
from collections import deque
from typing import Any

from onegraph.base.dataclass import dataclass
from onegraph.capture.calls.registry import policy
from onegraph.capture.calls.tracing import Tracing
from onegraph.capture.guards.source import Item, Source, Through, member_at
from onegraph.capture.heap.type_rules import Rebuilding, Record, rule_for
from onegraph.capture.heap.types.objects import Objects, begin_shadow
from onegraph.capture.heap.world import World
from onegraph.capture.pyobject.native_members import MAXLEN_OF


@dataclass(frozen=True, slots=True, eq=False)
class Slot:
    """An item that nobody has read yet."""

    index: int


def items_of(real: deque[Any]) -> list[Any]:
    return list(deque.__iter__(real))


@rule_for(deque)
class Deques(Objects):
    is_looked_into = compares_members = True

    def admit(self, world: World, real: deque[Any], source: Source, guarded: bool) -> Any:
        shadow, longest = deque.__new__(type(real)), MAXLEN_OF(real)
        deque.__init__(shadow, map(Slot, range(deque.__len__(real))), longest)
        if guarded:
            length = member_at(source, type(real), MAXLEN_OF)
            world.guard(length, "is" if longest is None else "equal", longest)
        begin_shadow(world, real, shadow, source, guarded)
        world.record(shadow, real, source, guarded, [])
        return shadow

    def blank_of(self, cls: type) -> type:
        return deque

    def refill(self, rebuild: Rebuilding, name: str, value: Any) -> None:
        made, items = rebuild.const(deque.__init__), rebuild.values(items_of(value))
        rebuild.lines.append(f"{made}({name}, [{items}], {MAXLEN_OF(value)})")

    def members(self, value: Any) -> list[Any]:
        return items_of(value)

    def guard_length(self, world: World, entry: Record) -> None:
        world.guard(Through(entry.source, items_of), "length", deque.__len__(entry.real))

    def fill(self, world: World, entry: Record) -> None:
        """Read all items: what the deque holds matters from here on."""
        source = Through(entry.source, items_of)
        entry.snapshot = [
            world.admit(item, Item(source, index), entry.guarded) for index, item in enumerate(items_of(entry.real))
        ]
        for place, item in enumerate(items_of(entry.shadow)):
            if type(item) is Slot:
                deque.__setitem__(entry.shadow, place, entry.snapshot[item.index])

    def differs(self, entry: Record) -> bool:
        if not entry.complete:  # the snapshot holds what was appended
            return bool(entry.snapshot)
        items = items_of(entry.shadow)
        return len(items) != len(entry.snapshot) or any(map(operator.is_not, items, entry.snapshot))

    def write(self, rebuild: Rebuilding, entry: Record) -> list[str]:
        """The statements that do again what was appended; where the program has looked, all items anew."""
        target = rebuild.source(entry.source)
        if not entry.complete:
            return [f"{rebuild.const(method)}({target}, {rebuild.value(item)})" for method, item in entry.snapshot]
        items = rebuild.values(items_of(entry.shadow))
        clear, extend = rebuild.const(deque.clear), rebuild.const(deque.extend)
        return [f"{clear}({target})", f"{extend}({target}, [{items}])"]


def _adding(method: Any, single: Any) -> None:
    @policy(method)
    def add(tracer: Tracing, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        shadow, *values = args
        tracer.world.refuse_opaque(shadow)
        tracer.world.touch(shadow)
        entry = tracer.world.records.get(id(shadow))
        if entry is None or entry.complete or len(values) != 1:
            tracer.run_native(method, args, kwargs)
            return
        for value in values if method is single else list(tracer.iterate(values[0])):
            single(shadow, value)
            entry.snapshot.append((single, tracer.world.keep(value)))


_adding(deque.append, deque.append)
_adding(deque.appendleft, deque.appendleft)
_adding(deque.extend, deque.append)
_adding(deque.extendleft, deque.appendleft)
