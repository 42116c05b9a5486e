"""Objects of Python classes: a blank one of the same class, with a lazy `__dict__`; slots are read on demand.

What all shadows share, and how any object is made again, is here, too.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import torch

from onegraph.capture.breaks import CANNOT_REBUILD, GraphBreak
from onegraph.capture.guards.source import Const, Source
from onegraph.capture.heap.type_rules import Rebuilding, TypeRule, admit_opaque, rule_for, rule_of
from onegraph.capture.heap.world import World
from onegraph.capture.pyobject.contents import ATOMS, members_of
from onegraph.capture.pyobject.exact_types import defines, once_for_each_class, plain
from onegraph.capture.pyobject.layout import HEAP_TYPE, filled_slots, hides_slots, instance_dict
from onegraph.capture.pyobject.value_text import short

#: How deep a container is searched for itself.
LOOKED_INTO = 3


@rule_for(object)
class Objects(TypeRule):
    """Every class that has no rule of its own."""

    admits_subclasses = True

    def admit(self, world: World, real: Any, source: Source, guarded: bool) -> Any:
        if type(real) is object:
            return admit_sentinel(world, real, source, guarded)
        if not has_python_layout(type(real)) or world.is_stateful(type(real)):
            return admit_opaque(world, real, source, guarded)
        shadow = object.__new__(type(real))
        begin_shadow(world, real, shadow, source, guarded)
        return shadow

    def rebuild(self, rebuild: Rebuilding, value: Any) -> str:
        return rebuild_object(rebuild, value)


@rule_for(SimpleNamespace)
class SimpleNamespaces(Objects):
    is_looked_into = True
    admits_subclasses = False

    def admit(self, world: World, real: SimpleNamespace, source: Source, guarded: bool) -> Any:
        shadow = SimpleNamespace()
        begin_shadow(world, real, shadow, source, guarded)
        return shadow

    def blank_of(self, cls: type) -> type:
        return SimpleNamespace

    def members(self, value: SimpleNamespace) -> list[Any]:
        return [*(instance_dict(value) or {}).values()]


@once_for_each_class
def has_python_layout(cls: type) -> bool:
    """Whether all state of the instances is in `__dict__` and slots: a blank object of the class can be made.

    Native classes refuse `object.__new__`. Classes with a finalizer are left out: the shadow's end must not run it.
    """
    if cls.__flags__ & HEAP_TYPE == 0 or defines(cls, "__del__"):
        return False
    try:
        object.__new__(cls)
    except TypeError:
        return False
    return True


# ---- admission -------------------------------------------------------------------------------------------------------


def admit_sentinel(world: World, real: Any, source: Source, guarded: bool) -> Any:
    """It has nothing but its identity, and may be made anew each call."""
    if guarded:
        world.guard(source, "type", object)
    world.unpinned.add(id(real))
    world.adopt(real, real, source)
    return real


def begin_shadow(world: World, real: Any, shadow: Any, source: Source, guarded: bool) -> None:
    """What all shadows share: type guard, identity, and the lazy attributes of a Python subclass."""
    if guarded:
        world.guard(source, "type", type(real))
    world.adopt(real, shadow, source)
    if has_instance_dict(shadow):
        world.attributes_record(shadow, real, source, guarded)


def has_instance_dict(value: Any) -> bool:
    return type(value).__dictoffset__ != 0


def admit_member(world: World, member: Any, guarded: bool) -> Any:
    """A key of a dict or an element of a set: the guard on the container says which object it is."""
    if type(member) in ATOMS:
        return member
    shadow = world.admit(member, Const(id(member), short(member), member), guarded)
    world.settled(shadow)
    if world.runs_code(shadow):  # the shadow of the container asks for the hash again, outside of the trace
        world.natively(hash, shadow)
    return shadow


# ---- rebuilding ------------------------------------------------------------------------------------------------------


def rebuild_object(rebuild: Rebuilding, value: Any) -> str:
    """An object of a Python class: a blank one, its contents as a native type's, then its attributes."""
    cls = type(value)
    rule = rule_of(cls)
    base: Any = rule.blank_of(cls)
    if cls.__flags__ & HEAP_TYPE == 0 and base is object:
        raise GraphBreak(CANNOT_REBUILD, what=f"{cls.__module__}.{cls.__qualname__}")
    try:
        base.__new__(cls)
    except TypeError:
        raise GraphBreak(CANNOT_REBUILD, what=f"{cls.__module__}.{cls.__qualname__}") from None
    name = rebuild.assign(f"{rebuild.const(base.__new__)}({rebuild.value(cls)})")
    rebuild.remember(value, name)
    rule.refill(rebuild, name, value)
    fill_attributes(rebuild, value, name)
    return name


def with_attributes(rebuild: Rebuilding, value: Any, name: str) -> str:
    """The object with the contents of its instance dictionary and slots, which may refer to it."""
    rebuild.remember(value, name)
    fill_attributes(rebuild, value, name)
    return name


def fill_attributes(rebuild: Rebuilding, value: Any, name: str) -> None:
    """Fill the instance dictionary, one by one: so it shares its keys with those of the other objects of the class.

    Raises:
        GraphBreak: there is more in the object than what its class shows.
    """
    if hides_slots(cls := type(value)):
        raise GraphBreak(CANNOT_REBUILD, what=f"{cls.__module__}.{cls.__qualname__}")
    attributes = rebuild.world.attributes(value)
    if attributes:
        items = [(rebuild.value(key), rebuild.value(item)) for key, item in attributes.items()]
        filled = rebuild.assign(rebuild.instance_dict(name, type(value)))
        rebuild.lines += [f"{filled}[{key}] = {item}" for key, item in items]
    for slot, held in filled_slots(value):
        rebuild.lines.append(f"{rebuild.const(slot)}.__set__({name}, {rebuild.value(held)})")


def contains(value: Any, wanted: Any, depth: int = 0) -> bool:
    """Whether a container of the trace is found in its own contents, or is too deep to tell."""
    match plain(value):
        case dict():
            items = list(dict.values(value))
        case list() | tuple():
            items = members_of(value)
        case torch.Tensor():
            items = []
        case _:
            items = [*(instance_dict(value) or {}).values()] if type(value).__flags__ & HEAP_TYPE else []
    return any(item is wanted or depth > LOOKED_INTO or contains(item, wanted, depth + 1) for item in items)
