"""Dicts, ordered ones, those with a default and counters: the keys are there from the start, values are read by key."""

from __future__ import annotations

import collections
import itertools
from typing import Any

from onegraph.capture.guards.predicates import SameMembers
from onegraph.capture.guards.source import Source, member_at
from onegraph.capture.heap.keys import made_quietly
from onegraph.capture.heap.type_rules import Rebuilding, Record, TypeRule, admit_opaque, rule_for
from onegraph.capture.heap.types.objects import admit_member, begin_shadow, contains, rebuild_object
from onegraph.capture.heap.world import World
from onegraph.capture.pyobject.contents import ATOMS, UNFILLED, keys_of, same_key
from onegraph.capture.pyobject.exact_types import compares_by_identity, isinstance
from onegraph.capture.pyobject.native_members import FACTORY_OF
from onegraph.capture.pyobject.weakly_known import passes_away


@rule_for(dict, collections.OrderedDict, collections.defaultdict, collections.Counter)
class Dicts(TypeRule):
    admits_subclasses = is_looked_into = True

    def admit(self, world: World, real: dict[Any, Any], source: Source, guarded: bool) -> Any:
        found = keys_of(real)  # once: another thread may change it
        members = [admit_member(world, key, guarded) for key in found]
        keys = made_quietly(world, lambda: dict(zip(members, found, strict=True)), members)
        if keys is None:
            return admit_opaque(world, real, source, guarded)
        space = world.known_namespace(real) if type(real) is dict else None
        if space is not None and source != space.source:
            world.guard(source, "is", real)
            source = space.source
        shadow: Any = self.blank_of(type(real)).__new__(type(real))
        if isinstance(real, collections.defaultdict):
            factory = world.admit(FACTORY_OF(real), member_at(source, type(real), FACTORY_OF), guarded)
            collections.defaultdict.__init__(shadow, factory)
        begin_shadow(world, real, shadow, source, guarded)
        setter = self.blank_of(type(real)).__setitem__
        for key in keys:
            setter(shadow, key, UNFILLED)
        entry = world.record(shadow, real, source, guarded, {})
        entry.keys = keys
        world.go_on_as(entry)
        return shadow

    def rebuild(self, rebuild: Rebuilding, value: dict[Any, Any]) -> str:
        if type(value) is not dict or contains(value, value):
            return rebuild_object(rebuild, value)
        entries = (f"{rebuild.value(key)}: {rebuild.value(item)}" for key, item in value.items())
        return rebuild.assign("{" + ", ".join(entries) + "}")

    def blank_of(self, cls: type) -> type[dict[Any, Any]]:
        return collections.OrderedDict if issubclass(cls, collections.OrderedDict) else dict

    def refill(self, rebuild: Rebuilding, name: str, value: Any) -> None:
        if isinstance(value, collections.defaultdict):
            made, factory = rebuild.const(collections.defaultdict.__init__), rebuild.value(FACTORY_OF(value))
            rebuild.lines.append(f"{made}({name}, {factory})")
        setter = rebuild.const(self.blank_of(type(value)).__setitem__)
        for key in keys_of(value):
            item = dict.__getitem__(value, key)
            rebuild.lines.append(f"{setter}({name}, {rebuild.value(key)}, {rebuild.value(item)})")

    def members(self, value: Any) -> list[Any]:
        return [*dict.keys(value), *dict.values(value)]

    def guard_length(self, world: World, entry: Record) -> None:
        keys = tuple(keys_of(entry.real))
        exact = all(type(key) in ATOMS or is_exact(key) for key in keys)
        world.guard(entry.source, *(("keys", keys) if exact else ("check", SameMembers(keys))))

    def fill(self, world: World, entry: Record) -> None:
        for key, slot in list(dict.items(entry.shadow)):
            if slot is UNFILLED:
                world.fill_key(entry, key)

    def differs(self, entry: Record) -> bool:
        after, before = keys_of(entry.shadow), entry.original_keys()
        if len(after) != len(before) or not all(map(same_key, after, before)):
            return True
        snapshot = entry.snapshot
        return any(
            value is not UNFILLED and (key not in snapshot or snapshot[key] is not value)
            for key, value in dict.items(entry.shadow)
        )

    def write(self, rebuild: Rebuilding, entry: Record) -> list[str]:
        """Key by key; keys that have another place in the order are put behind the others, as the program has done."""
        shadow, before = entry.shadow, entry.original_keys()
        target = rebuild.source(entry.source)
        kind = self.blank_of(type(shadow))
        setter, deleter = rebuild.const(kind.__setitem__), rebuild.const(kind.__delitem__)
        after = keys_of(shadow)
        kept = in_order(after, before)
        last = after[len(kept) :]
        if any(dict.__getitem__(shadow, key) is UNFILLED for key in last):
            rebuild.world.realize(shadow)
        gone, popped = taken_out(before, kept, entry.popped if kind is dict else [])
        statements = [f"{deleter}({target}, {rebuild.key(entry.original_key(key))})" for key in gone]
        statements += [f"{rebuild.const(dict.popitem)}({target})"] * popped
        written = [(key, rebuild.key(entry.original_key(key))) for key in kept if has_changed(entry, key)]
        for key, _ in written if len(written) + len(last) > 1 else ():
            rebuild.world.guard_presence(entry, key)  # a dict without it would get its keys in the program's order
        for key, text in [*written, *((key, rebuild.value(key)) for key in last)]:
            value = rebuild.value(dict.__getitem__(shadow, key))
            plain = type(entry.real) is dict
            statements.append(f"{target}[{text}] = {value}" if plain else f"{setter}({target}, {text}, {value})")
        return statements


def is_exact(key: Any) -> bool:
    """Whether a key equals nothing but itself, and may be kept alive."""
    return compares_by_identity(type(key)) and not passes_away(key)


def has_changed(entry: Record, key: Any) -> bool:
    value = dict.__getitem__(entry.shadow, key)
    return value is not UNFILLED and (key not in entry.snapshot or entry.snapshot[key] is not value)


def in_order(after: list[Any], before: list[Any]) -> list[Any]:
    """The keys of before that have kept their order, up to the first that has not: the others are put behind them."""
    rest = iter(before)
    found = (next((each for each in rest if same_key(key, each)), UNFILLED) for key in after)
    return list(itertools.takewhile(lambda each: each is not UNFILLED, found))


def taken_out(before: list[Any], kept: list[Any], popped: list[Any]) -> tuple[list[Any], int]:
    """The keys that are deleted, and how many of the last that are left then `popitem` takes out, as it has done."""
    stays, by_popitem = set(map(id, kept)), set(map(id, popped))
    last = itertools.takewhile(lambda key: id(key) not in stays, reversed(before))
    ended = {id(key) for key in last if id(key) in by_popitem}
    return [key for key in before if id(key) not in stays | ended], len(ended)
