"""Lists: a shadow of the same length, whose items are read one by one."""

from __future__ import annotations

import operator
from typing import Any

from onegraph.capture.guards.source import Source
from onegraph.capture.heap.type_rules import Rebuilding, Record, TypeRule, rule_for
from onegraph.capture.heap.types.objects import begin_shadow, contains, rebuild_object
from onegraph.capture.heap.world import World
from onegraph.capture.pyobject.contents import UNFILLED


@rule_for(list)
class Lists(TypeRule):
    admits_subclasses = is_looked_into = compares_members = True

    def admit(self, world: World, real: list[Any], source: Source, guarded: bool) -> Any:
        shadow = list.__new__(type(real))
        begin_shadow(world, real, shadow, source, guarded)
        unfilled = [UNFILLED] * list.__len__(real)
        list.extend(shadow, unfilled)
        world.record(shadow, real, source, guarded, unfilled)
        return shadow

    def rebuild(self, rebuild: Rebuilding, value: list[Any]) -> str:
        if type(value) is not list or contains(value, value):
            return rebuild_object(rebuild, value)
        return rebuild.assign(f"[{rebuild.values(value)}]")

    def blank_of(self, cls: type) -> type:
        return list

    def refill(self, rebuild: Rebuilding, name: str, value: Any) -> None:
        rebuild.lines.append(f"{rebuild.const(list.extend)}({name}, [{rebuild.values(self.members(value))}])")

    def members(self, value: Any) -> list[Any]:
        return list(list.__iter__(value))

    def guard_length(self, world: World, entry: Record) -> None:
        world.guard(entry.source, "length", list.__len__(entry.real))

    def fill(self, world: World, entry: Record) -> None:
        for index, slot in enumerate(list.__iter__(entry.shadow)):
            if slot is UNFILLED:
                world.element(entry.shadow, index)

    def differs(self, entry: Record) -> bool:
        if list.__len__(entry.shadow) != len(entry.snapshot):
            return True
        return any(map(operator.is_not, list.__iter__(entry.shadow), entry.snapshot))

    def write(self, rebuild: Rebuilding, entry: Record) -> list[str]:
        """What was added at the end, or all items anew."""
        shadow, target, before = entry.shadow, rebuild.source(entry.source), entry.snapshot
        if all(map(operator.is_, list.__iter__(shadow), before)) and list.__len__(shadow) >= len(before):
            added = list.__getitem__(shadow, slice(len(before), None))
            return [f"{rebuild.const(list.extend)}({target}, [{rebuild.values(added)}])"]
        rebuild.world.realize(shadow)
        function, place = rebuild.const(list.__setitem__), rebuild.const(slice(None))
        return [f"{function}({target}, {place}, [{rebuild.values(self.members(shadow))}])"]
