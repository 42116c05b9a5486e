"""Sets: admitted whole, with the order of their elements, which the program may see."""

from __future__ import annotations

import operator
import random
from collections.abc import Callable
from typing import Any

from onegraph.capture.breaks import CANNOT_REBUILD, SET_ORDER, GraphBreak
from onegraph.capture.guards.predicates import SameMembers
from onegraph.capture.guards.source import Source
from onegraph.capture.heap.keys import made_quietly
from onegraph.capture.heap.type_rules import Rebuilding, Record, TypeRule, admit_opaque, rule_for
from onegraph.capture.heap.types.objects import admit_member, begin_shadow, has_instance_dict, rebuild_object
from onegraph.capture.heap.world import World
from onegraph.capture.pyobject.contents import ATOMS, members_of
from onegraph.capture.pyobject.exact_types import isinstance

#: How often an order is drawn in which the elements come to a set.
TRIALS = 1000


@rule_for(set, frozenset)
class Sets(TypeRule):
    """The elements are known by identity or, for atoms, by value."""

    admits_subclasses = is_looked_into = True

    def admit(self, world: World, real: Any, source: Source, guarded: bool) -> Any:
        base = set if isinstance(real, set) else frozenset
        items = [admit_member(world, item, guarded) for item in base.__iter__(real)]
        themselves = all(map(operator.is_, base.__iter__(real), items))
        if isinstance(real, frozenset) and not has_instance_dict(real) and themselves:
            if guarded:
                world.guard(source, "type", type(real))
                world.guard(source, "check", SameMembers(tuple(items)))
            world.adopt_value(real, source)
            return real
        plain = type(real) in (set, frozenset)
        copied = real if themselves else items  # a copy of a set has its order, for the most part
        shadow = made_quietly(world, lambda: type(real)(copied) if plain else blank(type(real), items), items)
        if shadow is None:
            return admit_opaque(world, real, source, guarded)
        if plain and not have_order(shadow, items) and not any(map(world.runs_code, items)):
            order = in_order_of_entry(items, type(real))
            shadow = shadow if order is None else type(real)(order)
        if not have_order(shadow, items):
            raise GraphBreak(SET_ORDER)
        begin_shadow(world, real, shadow, source, guarded)
        if guarded:
            world.guard(source, "check", SameMembers(tuple(base.__iter__(real))))
        if isinstance(real, set):
            world.record(shadow, real, source, guarded, items)
        return shadow

    def rebuild(self, rebuild: Rebuilding, value: set[Any] | frozenset[Any]) -> str:
        if type(value) not in (set, frozenset):
            return rebuild_object(rebuild, value)
        kind = rebuild.const(type(value))
        items = list(value)
        if not all(map(hashes_by_value, items)):
            return rebuild.assign(f"{kind}([{rebuild.values(items)}])")
        order = in_order_of_entry(items, type(value))
        if order is not None:
            return rebuild.assign(f"{kind}([{rebuild.values(order)}])")
        order = in_order_of_entry(items, lambda items: set(frozenset(items)))  # as a display of constants is made
        if order is None or type(value) is frozenset:
            raise GraphBreak(CANNOT_REBUILD, what="set whose order depends on its past")
        return rebuild.assign(f"{kind}({rebuild.const(frozenset)}([{rebuild.values(order)}]))")

    def blank_of(self, cls: type) -> type:
        return set if issubclass(cls, set) else object

    def refill(self, rebuild: Rebuilding, name: str, value: Any) -> None:
        rebuild.lines.append(f"{rebuild.const(set.update)}({name}, [{rebuild.values(self.members(value))}])")

    def members(self, value: Any) -> list[Any]:
        return members_of(value)

    def differs(self, entry: Record) -> bool:
        changed = set.__len__(entry.shadow) != len(entry.snapshot)
        return changed or any(map(operator.is_not, set.__iter__(entry.shadow), entry.snapshot))

    def write(self, rebuild: Rebuilding, entry: Record) -> list[str]:
        """Element by element, or all of them anew: what gives the order that the program has seen."""
        target = rebuild.source(entry.source)
        kept = {id(item) for item in set.__iter__(entry.shadow)}
        known = {id(item) for item in entry.snapshot}
        gone = [item for item in entry.snapshot if id(item) not in kept]
        new = [item for item in set.__iter__(entry.shadow) if id(item) not in known]
        atoms = all(type(item) in ATOMS for item in (*entry.snapshot, *new))
        if atoms and not keeps_order(entry.snapshot, gone, new, entry.shadow):
            items = rebuild.values(self.members(entry.shadow))
            return [f"{rebuild.const(set.clear)}({target})", f"{rebuild.const(set.update)}({target}, [{items}])"]
        return [f"{rebuild.const(set.discard)}({target}, {rebuild.value(item)})" for item in gone] + [
            f"{rebuild.const(set.add)}({target}, {rebuild.value(item)})" for item in new
        ]


def blank(cls: Any, items: list[Any]) -> Any:
    shadow = cls.__new__(cls) if issubclass(cls, set) else frozenset.__new__(cls, items)
    if isinstance(shadow, set):
        set.update(shadow, items)
    return shadow


def have_order(made: Any, items: list[Any]) -> bool:
    """Whether a set has these very elements, in this order."""
    base = set if isinstance(made, set) else frozenset
    return base.__len__(made) == len(items) and all(map(operator.is_, base.__iter__(made), items))


def in_order_of_entry(items: list[Any], make: Callable[[list[Any]], Any]) -> list[Any] | None:
    """In which order the elements must come so that the set that is made of them has them in the order of `items`.

    Where two elements want one place in the table, the one that comes later goes elsewhere, to the front perhaps.
    """
    order, draw = list(items), random.Random(0)
    for _ in range(TRIALS):
        wrong = [item for found, item in zip(make(order), items, strict=True) if found is not item]
        if not wrong:
            return order
        moved = draw.choice(wrong)
        order.remove(moved)
        order.insert(draw.choice((0, len(order))), moved)
    return None


def hashes_by_value(value: Any) -> bool:
    return all(map(hashes_by_value, value)) if type(value) is tuple else type(value) in ATOMS


def keeps_order(before: list[Any], gone: list[Any], new: list[Any], after: set[Any]) -> bool:
    """Whether a set with these elements has those of `after`, in their order, when some are gone and some are new."""
    made = set(before)
    made.difference_update(gone)
    for item in new:
        made.add(item)
    return len(made) == set.__len__(after) and all(map(operator.is_, made, set.__iter__(after)))
