"""Cells of closures: the variable of a function around, read when it is asked for."""

from __future__ import annotations

from types import CellType
from typing import Any

from onegraph.capture.guards.source import FreeCell, Source
from onegraph.capture.heap.type_rules import Rebuilding, Record, TypeRule, rule_for
from onegraph.capture.heap.world import World
from onegraph.capture.pyobject.contents import DELETED, UNFILLED, cell_value


@rule_for(CellType)
class Cells(TypeRule):
    def admit(self, world: World, real: CellType, source: Source, guarded: bool) -> Any:
        shadow = CellType() if is_empty(real) else CellType(UNFILLED)
        world.adopt(real, shadow, source)
        world.record(shadow, real, source, guarded, [cell_value(shadow)])
        if is_empty(real) and guarded:
            world.guard(source, "check", is_empty)
        return shadow

    def rebuild(self, rebuild: Rebuilding, value: CellType) -> str:
        contents = cell_value(value)
        name = rebuild.assign(f"{rebuild.const(CellType)}()")
        rebuild.remember(value, name)
        if contents is not DELETED:
            rebuild.lines.append(f"{name}.cell_contents = {rebuild.value(contents)}")
        return str(name)

    def fill(self, world: World, entry: Record) -> None:
        if cell_value(entry.shadow) is UNFILLED:
            world.contents(entry.shadow)

    def differs(self, entry: Record) -> bool:
        value = cell_value(entry.shadow)
        return value is not UNFILLED and value is not entry.snapshot[0]

    def write(self, rebuild: Rebuilding, entry: Record) -> list[str]:
        value = cell_value(entry.shadow)
        match entry.source:
            case FreeCell(_, name):
                if name not in rebuild.nonlocals:
                    rebuild.nonlocals.append(name)
                target = name
            case source:
                target = f"{rebuild.source(source)}.cell_contents"
        return [f"del {target}" if value is DELETED else f"{target} = {rebuild.value(value)}"]


def is_empty(cell: CellType) -> bool:
    """Whether the variable of the cell has no value (yet)."""
    return cell_value(cell) is DELETED
