"""What refers to another object: weak references and proxies, read-only views of mappings, views of dicts."""

from __future__ import annotations

import types
import weakref
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

from onegraph.capture.breaks import CANNOT_REBUILD, GraphBreak
from onegraph.capture.guards.source import Attr, Source, Through
from onegraph.capture.heap.type_rules import Rebuilding, TypeRule, admit_opaque, rule_for
from onegraph.capture.heap.world import World
from onegraph.capture.pyobject.layout import behind_proxy, behind_weak_proxy


@rule_for(weakref.ref)
class WeakReferences(TypeRule):
    """A reference to the shadow of the referent: the original would hand out the real object."""

    def admit(self, world: World, real: weakref.ref[Any], source: Source, guarded: bool) -> Any:
        if guarded:
            world.guard(source, "type", type(real))
        target = world.admit(real(), Through(source, call_reference), guarded)
        if target is None:  # it is used as it is; another call may bring another one
            world.unpinned.add(id(real))
        shadow = real if target is None else self.referring(world, real, target, source, guarded)
        world.adopt(real, world.keep(shadow), source)
        return shadow

    def referring(self, world: World, real: Any, target: Any, source: Source, guarded: bool) -> weakref.ref[Any]:
        """A reference to the shadow of what a real one refers to."""
        return weakref.ref(target)

    def rebuild(self, rebuild: Rebuilding, value: weakref.ref[Any]) -> str:
        target = value() if type(value) is weakref.ref else None
        if target is None:
            raise GraphBreak(CANNOT_REBUILD, what="weak reference")
        parts = [target] if value.__callback__ is None else [target, value.__callback__]
        return rebuild.assign(f"{rebuild.const(weakref.ref)}({rebuild.values(parts)})")


@rule_for(weakref.KeyedRef)
class KeyedReferences(WeakReferences):
    """A value of a weak dictionary."""

    def referring(self, world: World, real: Any, target: Any, source: Source, guarded: bool) -> weakref.ref[Any]:
        key = world.admit(real.key, Attr(source, "key"), guarded)
        return weakref.KeyedRef(target, None, key)  # type: ignore[arg-type]


@rule_for(*weakref.ProxyTypes)
class WeakProxies(TypeRule):
    """One of the shadow, if its object lives: what the program writes to that is seen through it."""

    def admit(self, world: World, real: Any, source: Source, guarded: bool) -> Any:
        target = behind_weak_proxy(real)
        if target is None:
            return admit_opaque(world, real, source, guarded)
        if guarded:
            world.guard(source, "type", type(real))
        shadow = weakref.proxy(world.admit(target, Through(source, behind_weak_proxy), guarded))
        world.adopt(real, shadow, source)
        return shadow

    def rebuild(self, rebuild: Rebuilding, value: Any) -> str:
        """It does not tell whom it calls when its object dies."""
        raise GraphBreak(CANNOT_REBUILD, what="weak proxy")


@rule_for(types.MappingProxyType)
class MappingProxies(TypeRule):
    """A view of the shadow of the mapping behind it: the program may change that."""

    def admit(self, world: World, real: types.MappingProxyType[Any, Any], source: Source, guarded: bool) -> Any:
        shadow = types.MappingProxyType(world.admit(behind_proxy(real), Through(source, behind_proxy), guarded))
        world.adopt(real, shadow, source)
        return shadow

    def members(self, value: Any) -> list[Any]:
        return [behind_proxy(value)]


#: The methods that make views of dicts, by the class of the view.
VIEW_MAKERS: dict[type, Callable[[Any], Any]] = {
    type(make(kind())): make for kind in (dict, OrderedDict) for make in (kind.keys, kind.values, kind.items)
}


@rule_for(*VIEW_MAKERS)
class DictViews(TypeRule):
    """A view of the shadow of the dict behind it."""

    def admit(self, world: World, real: Any, source: Source, guarded: bool) -> Any:
        if guarded:
            world.guard(source, "type", type(real))
        mapping = world.admit(behind_proxy(real), Through(source, behind_proxy), guarded)
        if id(mapping) in world.opaque:
            return admit_opaque(world, real, source, guarded)
        world.realize(mapping)  # a view is native, and asks nobody for what it shows
        shadow = VIEW_MAKERS[type(real)](mapping)
        world.adopt(real, shadow, source)
        return shadow

    def rebuild(self, rebuild: Rebuilding, value: Any) -> str:
        return rebuild.assign(f"{rebuild.const(VIEW_MAKERS[type(value)])}({rebuild.value(behind_proxy(value))})")

    def members(self, value: Any) -> list[Any]:
        return [behind_proxy(value)]


def call_reference(reference: weakref.ref[Any]) -> Any:
    return reference()
