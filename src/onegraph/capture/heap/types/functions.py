"""Functions, methods, native functions that are bound to objects, and partial functions."""

from __future__ import annotations

import functools
from types import BuiltinFunctionType, FunctionType, MethodType, MethodWrapperType, ModuleType
from typing import Any

from onegraph.capture.calls.libraries import is_library
from onegraph.capture.guards.source import Attr, Source, member_at
from onegraph.capture.heap.type_rules import Rebuilding, TypeRule, rule_for
from onegraph.capture.heap.types.constants import admit_identity
from onegraph.capture.heap.types.objects import with_attributes
from onegraph.capture.heap.world import World
from onegraph.capture.pyobject.exact_types import defines, isinstance
from onegraph.capture.pyobject.layout import HEAP_TYPE, class_method, instance_dict, native_method
from onegraph.capture.pyobject.native_members import PARTIAL

set_state = vars(functools.partial)["__setstate__"]


@rule_for(FunctionType)
class Functions(TypeRule):
    """A function is used as it is. One that a function has made may be made anew each call; any may get new code."""

    def admit(self, world: World, real: FunctionType, source: Source, guarded: bool) -> Any:
        made_anew = bool(real.__closure__) or "<locals>" in real.__qualname__
        if made_anew:
            world.unpinned.add(id(real))
        if guarded and made_anew:
            world.guard(source, "type", FunctionType)
        elif guarded:
            world.guard(source, "is", real)
        if guarded:
            # Wrappers of a library may each have a copy of one code, which torch 2.15 gives the name of a context.
            copied = made_anew and is_library(real.__globals__.get("__name__") or "")
            world.guard(Attr(source, "__code__"), "equal" if copied else "is", real.__code__)
        world.adopt(real, real, source)
        return real

    def rebuild(self, rebuild: Rebuilding, value: FunctionType) -> str:
        """A function made by the trace; one that existed before is a constant."""
        if id(value) not in rebuild.world.made_functions:
            return rebuild.known(value)
        cells = rebuild.value(value.__closure__)
        parts = (
            f"{rebuild.const(value.__code__)}, {rebuild.const(value.__globals__)}, {value.__name__!r}, "
            f"{rebuild.value(value.__defaults__)}, {cells}"
        )
        name = rebuild.assign(f"{rebuild.const(FunctionType)}({parts})")
        rebuild.remember(value, name)
        for attribute in ("__kwdefaults__", "__annotations__", "__dict__"):
            contents = getattr(value, attribute)
            if contents:
                rebuild.lines.append(f"{name}.{attribute} = {rebuild.value(contents)}")
        fresh = FunctionType(value.__code__, value.__globals__, value.__name__, None, value.__closure__)
        for attribute in ("__qualname__", "__doc__", "__module__"):
            own = getattr(value, attribute)
            if own is not getattr(fresh, attribute):
                rebuild.lines.append(f"{name}.{attribute} = {rebuild.value(own)}")
        return name


@rule_for(MethodType)
class Methods(TypeRule):
    def admit(self, world: World, real: MethodType, source: Source, guarded: bool) -> Any:
        if guarded:
            world.guard(source, "type", MethodType)
        function = world.admit(real.__func__, Attr(source, "__func__"), guarded)
        owner = world.admit(real.__self__, Attr(source, "__self__"), guarded)
        shadow = MethodType(function, owner)
        world.adopt(real, shadow, source)
        return shadow

    def rebuild(self, rebuild: Rebuilding, value: MethodType) -> str:
        parts = rebuild.values((value.__func__, value.__self__))
        return rebuild.assign(f"{rebuild.const(MethodType)}({parts})")


@rule_for(BuiltinFunctionType, MethodWrapperType)
class NativeFunctions(TypeRule):
    """A native function; one that is bound to an object is that of the object's shadow."""

    def admit(self, world: World, real: Any, source: Source, guarded: bool) -> Any:
        owner = real.__self__  # to which pybind11 binds functions that are none of its methods
        if isinstance(owner, type) and owner.__flags__ & HEAP_TYPE and class_method(owner, real) is not None:
            return self._admit_class_method(world, real, source, guarded)
        if owner is None or isinstance(owner, ModuleType | type) or not defines(type(owner), real.__name__):
            return admit_identity(world, real, source, guarded)
        if guarded:
            world.guard(source, "type", type(real))
            world.guard(Attr(source, "__name__"), "equal", real.__name__)
        receiver, descriptor = world.admit(owner, Attr(source, "__self__"), guarded), native_method(owner, real)
        bound = None if descriptor is None else descriptor.__get__(receiver, type(receiver))
        shadow = getattr(receiver, real.__name__) if descriptor is None else bound
        world.adopt(real, shadow, source)
        return shadow

    def _admit_class_method(self, world: World, real: Any, source: Source, guarded: bool) -> Any:
        """It is made anew by each look at the class, which guards do not keep alive."""
        world.unpinned.add(id(real))
        if guarded:
            world.guard(source, "type", type(real))
            world.guard(Attr(source, "__name__"), "equal", real.__name__)
        world.admit(real.__self__, Attr(source, "__self__"), guarded)
        world.adopt(real, real, source)
        return real

    def rebuild(self, rebuild: Rebuilding, value: Any) -> str:
        owner = value.__self__
        if owner is None or isinstance(owner, ModuleType | type):
            return rebuild.const(value)
        descriptor = native_method(owner, value) if type(owner).__flags__ & HEAP_TYPE else None
        if descriptor is not None:
            made, cls = rebuild.const(descriptor), rebuild.const(descriptor.__objclass__)
            return rebuild.assign(f"{made}.__get__({rebuild.value(owner)}, {cls})")
        return rebuild.assign(f"({rebuild.value(owner)}).{value.__name__}")


@rule_for(functools.partial)
class Partials(TypeRule):
    admits_subclasses = True

    def admit(self, world: World, real: functools.partial[Any], source: Source, guarded: bool) -> Any:
        if guarded:
            world.guard(source, "type", type(real))
        function, args, keywords = (
            world.admit(part(real), member_at(source, type(real), part), guarded) for part in PARTIAL
        )
        shadow = functools.partial.__new__(type(real), function)
        set_state(shadow, (function, args, world.realize(keywords), None))
        world.adopt(real, shadow, source)
        if instance_dict(real) is not None:
            world.attributes_record(shadow, real, source, guarded)
        return shadow

    def rebuild(self, rebuild: Rebuilding, value: functools.partial[Any]) -> str:
        """It is given its state, so that one of another partial function stays that."""
        function, args, keywords = (rebuild.value(part(value)) for part in PARTIAL)
        made = rebuild.assign(f"{rebuild.const(functools.partial.__new__)}({rebuild.value(type(value))}, {function})")
        state = rebuild.const(set_state)
        rebuild.lines.append(f"{state}({made}, ({function}, {args}, {keywords}, None))")
        return with_attributes(rebuild, value, made)
