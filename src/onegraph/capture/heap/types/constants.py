"""What is used as it is: what nobody changes, guarded by identity or by value, and numbers and texts of own classes."""

from __future__ import annotations

import dataclasses
import datetime
import types
from collections.abc import Callable
from typing import Any

import torch

from onegraph import _C
from onegraph.capture.breaks import CANNOT_REBUILD, ESCAPING_CLASS, GraphBreak
from onegraph.capture.calls.libraries import NATIVE_ENUMS
from onegraph.capture.calls.registry import IMMUTABLE
from onegraph.capture.directives.hatches import rebuild_disabled
from onegraph.capture.guards.source import Source, Through
from onegraph.capture.heap.type_rules import Rebuilding, TypeRule, admit_opaque, rule_for
from onegraph.capture.heap.types.objects import rebuild_object
from onegraph.capture.heap.world import World
from onegraph.capture.pyobject.exact_types import defined, defines, isinstance, once_for_each_class
from onegraph.capture.pyobject.layout import HEAP_TYPE
from onegraph.capture.pyobject.type_forms import TYPE_FORMS
from onegraph.torchlib.aten import OpOverload, OpOverloadPacket
from onegraph.torchlib.private import CONTROL_FLOW

#: What is asked of a number or a text of an own class for the plain one that it holds.
PLAIN: dict[Any, Callable[[Any], Any]] = {
    int: int.__int__,
    float: float.__float__,
    complex: complex.__complex__,
    str: str.__str__,
    bytes: bytes.__bytes__,
}


@rule_for(
    types.GetSetDescriptorType,
    types.MemberDescriptorType,
    *set(IMMUTABLE) - {types.CodeType},
    classmethod,
    staticmethod,
    property,
    type(dataclasses.MISSING),
    type(dataclasses._FIELD),  # type: ignore[attr-defined]
    type(dataclasses._HAS_DEFAULT_FACTORY),  # type: ignore[attr-defined]
    type(dataclasses.KW_ONLY),
    *TYPE_FORMS,
    OpOverload,
    OpOverloadPacket,
    torch.library.CustomOpDef,  # type: ignore[attr-defined]
    _C.Region,
    *CONTROL_FLOW,
)
class Identities(TypeRule):
    """Immutable, or changed by nobody: the object itself, guarded by identity."""

    def admit(self, world: World, real: Any, source: Source, guarded: bool) -> Any:
        return admit_identity(world, real, source, guarded)

    def rebuild(self, rebuild: Rebuilding, value: Any) -> str:
        return rebuild_object(rebuild, value)


@rule_for(
    type,
    types.ModuleType,
    types.WrapperDescriptorType,
    types.MethodDescriptorType,
    types.ClassMethodDescriptorType,
    types.CodeType,
    torch.dtype,
    torch.layout,
    torch.memory_format,
    datetime.timezone,
    type(...),
)
class Constants(Identities):
    """The program may make them, but they are the same in each call."""

    def rebuild(self, rebuild: Rebuilding, value: Any) -> str:
        return rebuild_constant(rebuild, value)


@rule_for(types.GenericAlias)
class Aliases(Identities):
    """`list[int]`, of the same parts."""

    def rebuild(self, rebuild: Rebuilding, value: Any) -> str:
        if value.__unpacked__:
            return rebuild_object(rebuild, value)
        return rebuild.assign(
            f"{rebuild.const(types.GenericAlias)}({rebuild.values((value.__origin__, value.__args__))})"
        )


@rule_for(types.UnionType)
class Unions(Identities):
    """`int | str`, and from Python 3.14 on what `typing.Union` and `typing.Optional` make."""

    def rebuild(self, rebuild: Rebuilding, value: Any) -> str:
        parts = value.__args__
        if hasattr(types.UnionType, "__class_getitem__"):
            return rebuild.assign(f"{rebuild.const(types.UnionType)}[{rebuild.values(parts)}]")
        if any(isinstance(part, type) and defined(type(part), "__or__") is not type.__or__ for part in parts):
            return rebuild_object(rebuild, value)  # a metaclass that has another use for the sign
        return rebuild.assign(" | ".join(map(rebuild.value, parts)))


@rule_for(_C.disabled)
class DisabledFunctions(Identities):
    def rebuild(self, rebuild: Rebuilding, value: Any) -> str:
        return rebuild_disabled(rebuild, value)


@rule_for(*NATIVE_ENUMS)
class Values(TypeRule):
    """Immutable with an exact equality: the object itself, guarded by value."""

    def admit(self, world: World, real: Any, source: Source, guarded: bool) -> Any:
        if guarded:
            world.guard(source, "equal", real)
        world.adopt_value(real, source)
        return real

    def rebuild(self, rebuild: Rebuilding, value: Any) -> str:
        return rebuild_object(rebuild, value)


@rule_for(torch.device, datetime.date, datetime.timedelta)
class ConstantValues(Values):
    """They hold nothing that another call may have in its place."""

    def rebuild(self, rebuild: Rebuilding, value: Any) -> str:
        return rebuild.const(value)


@rule_for(range, slice)
class Spans(Values):
    def rebuild(self, rebuild: Rebuilding, value: range | slice) -> str:
        parts = (value.start, value.stop, value.step)
        return rebuild.assign(f"{rebuild.const(type(value))}({rebuild.values(parts)})")


@rule_for(*PLAIN)
class OwnValues(TypeRule):
    """A number or a text of an own class: an equal one, with a lazy `__dict__` if it has one."""

    admits_subclasses = True

    def admit(self, world: World, real: Any, source: Source, guarded: bool) -> Any:
        kind = kind_of_value(type(real))
        if kind is None:
            return admit_opaque(world, real, source, guarded)
        if guarded:
            guard_own_value(world, real, source)
        if not can_be_remade(type(real)):
            return admit_opaque(world, real, source, guarded)
        shadow = kind.__new__(type(real), PLAIN[kind](real))
        world.adopt(real, world.keep(shadow), source)
        if type(real).__dictoffset__:
            world.attributes_record(shadow, real, source, guarded)
        return shadow

    def rebuild(self, rebuild: Rebuilding, value: Any) -> str:
        if isinstance(value, float | complex):
            return rebuild_constant(rebuild, value)
        return rebuild_object(rebuild, value)


def admit_identity(world: World, real: Any, source: Source, guarded: bool) -> Any:
    """The object itself, guarded by identity."""
    if guarded:
        world.guard(source, "is", real)
    world.adopt(real, real, source)
    return real


def rebuild_constant(rebuild: Rebuilding, value: Any) -> str:
    if id(value) in rebuild.world.made_classes:
        if isinstance(value, type):
            raise GraphBreak(ESCAPING_CLASS, what=value.__qualname__)
        raise GraphBreak(CANNOT_REBUILD, what=type(value).__qualname__)
    return rebuild.known(value)


@once_for_each_class
def kind_of_value(cls: type) -> Any:
    """The builtin type of numbers or texts of which a class in Python is a subclass, or None."""
    own = cls.__flags__ & HEAP_TYPE
    return next((kind for kind in PLAIN if own and issubclass(cls, kind)), None)


@once_for_each_class
def can_be_remade(cls: type) -> bool:
    """Whether an equal number or text of a class has all of it but the `__dict__`: not with slots, or a finalizer."""
    return not defines(cls, "__del__") and not any(kind.__dict__.get("__slots__") for kind in cls.__mro__)


def guard_own_value(world: World, real: Any, source: Source) -> None:
    """Native code takes a number or a text of an own class for the plain one."""
    kind = kind_of_value(type(real))
    assert kind is not None
    world.guard(source, "type", type(real))
    world.guard(Through(source, PLAIN[kind]), "equal", PLAIN[kind](real))
