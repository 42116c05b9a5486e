"""Tuples, named tuples and sizes: immutable, so they are admitted whole."""

from __future__ import annotations

import operator
from typing import Any

import torch

from onegraph.capture.guards.source import Item, Source
from onegraph.capture.heap.type_rules import Rebuilding, TypeRule, admit_opaque, rule_for
from onegraph.capture.heap.types.objects import has_instance_dict, with_attributes
from onegraph.capture.heap.world import World
from onegraph.capture.pyobject.contents import members_of
from onegraph.capture.pyobject.exact_types import once_for_each_class
from onegraph.capture.pyobject.layout import makes_itself


@rule_for(tuple, torch.Size)
class Tuples(TypeRule):
    """A named tuple keeps its class."""

    admits_subclasses = is_looked_into = compares_members = True

    def admit(self, world: World, real: tuple[Any, ...], source: Source, guarded: bool) -> Any:
        if has_hidden_fields(type(real)):
            return admit_opaque(world, real, source, guarded)
        if guarded:
            world.guard(source, "type", type(real))
            world.guard(source, "length", tuple.__len__(real))
        items = [world.admit(item, Item(source, index), guarded) for index, item in enumerate(tuple.__iter__(real))]
        if all(map(operator.is_, tuple.__iter__(real), items)) and not has_instance_dict(real):
            world.adopt_value(real, source)
            return real
        shadow = type(real)(items) if makes_itself(type(real)) else tuple.__new__(type(real), items)
        world.adopt(real, world.keep(shadow), source)
        if has_instance_dict(shadow):
            world.attributes_record(shadow, real, source, guarded)
        return shadow

    def rebuild(self, rebuild: Rebuilding, value: tuple[Any, ...]) -> str:
        items = "(" + "".join(f"{rebuild.value(item)}, " for item in tuple.__iter__(value)) + ")"
        if type(value) is tuple:
            return rebuild.assign(items)
        if makes_itself(type(value)):
            return rebuild.assign(f"{rebuild.const(type(value))}({items})")
        made, cls = rebuild.const(tuple.__new__), rebuild.value(type(value))
        return with_attributes(rebuild, value, rebuild.assign(f"{made}({cls}, {items})"))

    def members(self, value: Any) -> list[Any]:
        return members_of(value)


@once_for_each_class
def has_hidden_fields(cls: type[tuple[Any, ...]]) -> bool:
    """Whether a class of native records (`os.stat_result`) has fields that are no items of the tuple."""
    return getattr(cls, "n_fields", 0) > getattr(cls, "n_sequence_fields", 0)
