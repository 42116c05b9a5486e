"""What traced backward passes assume of the world: it is asked again when they run, which may be long after the call.

That are the guards on what is found without the arguments of the call. What the program itself has written is not among
them if no backward pass has read it: it holds something else from then on.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import torch

from onegraph.base.dataclass import dataclass
from onegraph.base.late import late_module
from onegraph.capture.guards.guard import Guard, GuardSet
from onegraph.capture.guards.program import assemble
from onegraph.capture.guards.source import Arg, FreeCell, Item, Source, base_of, root_of
from onegraph.capture.pyobject.exact_types import isinstance

if TYPE_CHECKING:
    from onegraph.capture.heap.world import World
    from onegraph.torchlib.custom_function import applied_in
else:
    applied_in = late_module("onegraph.torchlib.custom_function").applied_in


class Noted(dict[Any, Any]):
    """A table that notes what it is asked for."""

    def __init__(self, table: dict[Any, Any]) -> None:
        super().__init__(table)
        self.asked: set[Any] = set()

    def __contains__(self, key: Any) -> bool:
        self.asked.add(key)
        return super().__contains__(key)

    def __getitem__(self, key: Any) -> Any:
        self.asked.add(key)
        return super().__getitem__(key)

    def get(self, key: Any, default: Any = None) -> Any:
        self.asked.add(key)
        return super().get(key, default)


class LateReads:
    """What the backward passes of custom functions have read, while they were traced, of what was there before.

    `records` are the identities of shadows; names are those of globals, with the identity of their module's.
    """

    def __init__(self) -> None:
        self.active = False
        self.records: set[int] = set()
        self.names: set[tuple[int, str]] = set()

    @contextmanager
    def noted(self, world: World) -> Iterator[list[str]]:
        """Note what is read in here. Gives a list, which then says what of it cannot be asked when the pass runs."""
        records, slots = world.records, world.slots
        written = {key: space.written for key, space in world.namespaces.items()}
        noted, noted_slots = Noted(records), Noted(slots)
        world.records, world.slots = noted, noted_slots
        for space in world.namespaces.values():
            space.written = Noted(space.written)
        problems: list[str] = []
        self.active = True
        try:
            yield problems
        finally:
            self.active = False
            records.update(world.records)
            slots.update(world.slots)
            world.records, world.slots = records, slots
            for key, names in written.items():
                space = world.namespaces[key]
                assert isinstance(space.written, Noted)
                self.names |= {(key, name) for name in space.written.asked}
                names.update(space.written)
                space.written = names
        self.records |= noted.asked
        entries = [records[key] for key in noted.asked if key in records]
        changed = {(id(shadow), member) for shadow, member, _ in world.changed_slots()}
        in_spaces = {(key, name) for key, names in written.items() for name in names}
        if (
            any(entry.differs() for entry in entries)
            or not changed.isdisjoint(noted_slots.asked)
            or not in_spaces.isdisjoint(self.names)
        ):
            problems.append("whose backward reads or writes what the program has changed")
        if any(entry.guarded and is_of_call(entry.source) for entry in entries):
            problems.append("whose backward takes what forward has not kept")


def is_of_call(source: Source) -> bool:
    """Whether a value is found only where a call begins."""
    return isinstance(root_of(source), Arg | FreeCell)


def relates_to_call(guard: Guard) -> bool:
    """Whether a guard can only be asked where a call begins."""
    other = guard.kind == "same" and is_of_call(guard.arg)
    return other or guard.kind in ("together", "memory") or is_of_call(guard.source)


@dataclass(frozen=True, slots=True)
class Backwards:
    """The custom functions of a graph, and what the program has written that their backward passes have not read."""

    functions: tuple[Any, ...]
    written: frozenset[Source]

    def guard(self, guards: GuardSet, facts: Sequence[Guard]) -> None:
        """Let the functions know what is assumed."""
        if not self.functions:
            return
        lasting = GuardSet()
        for guard in guards:
            if guard.kind == "different":
                guard = replace(guard, arg=tuple(other for other in guard.arg if not is_of_call(other)))
            if not relates_to_call(guard) and self.written.isdisjoint(path_to(guard.source)):
                lasting.add(guard)
        program = assemble(lasting, (), None, {}, facts)
        for function in self.functions:
            function.unchanged = partial(program.native.check, no_arguments, ())


def backwards_of(graph: torch.fx.Graph, world: World, reads: LateReads) -> Backwards:
    written: set[Source] = {
        Item(space.source, name)
        for key, space in world.namespaces.items()
        for name in space.written
        if (key, name) not in reads.names
    }
    written |= {entry.source for entry in world.changed() if id(entry.shadow) not in reads.records}
    return Backwards(tuple(applied_in(graph)), frozenset(written))


def no_arguments() -> None:
    """The function in whose place guards are checked that read nothing of the call."""


def path_to(source: Source | None) -> Iterator[Source]:
    while source is not None:
        yield source
        source = base_of(source)
