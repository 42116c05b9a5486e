"""Guards that what the program has written to, or drawn from, is nothing else that it has used under another name."""

from __future__ import annotations

from onegraph.capture.guards.source import DictOf, Source
from onegraph.capture.heap.type_rules import Record
from onegraph.capture.heap.world import World
from onegraph.capture.pyobject.exact_types import isinstance


def guard_distinct(world: World) -> None:
    """Guard that what the program has written to is nothing else that it has used under another name."""
    groups: dict[type, list[tuple[Source, bool]]] = {}
    dicts: list[tuple[Source, bool]] = []
    slots = {id(shadow) for shadow, _, _ in world.changed_slots()}
    written = {id(entry) for entry in world.changed()}
    written |= {id(world.records.get(shadow)) for shadow in world.touched | slots}
    for entry in world.records.values():
        if entry.guarded:
            member = (entry.source, id(entry) in written)
            if isinstance(entry.source, DictOf):
                owner = world.type_at.get(entry.source.base, object)
                groups.setdefault(owner, []).append(member)
            elif type(entry.real) is dict:  # it may be the dictionary of an object of any class
                dicts.append(member)
            else:
                groups.setdefault(type(entry.real), []).append(member)
    for owner, members in groups.items():
        if owner.__dictoffset__:
            members += dicts
    groups[dict] = dicts
    for number, shadow in {id(shadow): shadow for shadow, _ in world.slots.values()}.items():
        if number not in world.records:  # else it is among them: containers have slots, too
            groups.setdefault(type(shadow), []).append((world.origin[number], number in slots))
    for iterator in world.draws.iterators:
        groups.setdefault(type(iterator.real), []).append((iterator.source, world.draws.has_drawn(iterator)))
    guard_containers(world, [entry for entry in world.records.values() if id(entry) in written])
    for members in groups.values():
        for index, (source, is_written) in enumerate(members):
            if is_written:
                unread = [other for other, other_is_written in members[:index] if not other_is_written]
                guard_apart(world, source, unread + [other for other, _ in members[index + 1 :]])


def guard_apart(world: World, source: Source, others: list[Source]) -> None:
    if others:
        world.guard(source, "different", tuple(others))


def guard_containers(world: World, written: list[Record]) -> None:
    """Guard which of the containers that the program has written to is one that it has drawn from."""
    for source, container in filter(None, (iterator.watched() for iterator in world.draws.iterators)):
        for entry in written:
            if entry.guarded and type(entry.real) is type(container):
                if entry.real is container:
                    world.guard(source, "same", entry.source)
                else:
                    guard_apart(world, source, [entry.source])
