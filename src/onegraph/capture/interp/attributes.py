"""Attribute access: Python code of descriptors, properties, `__getattr__` and the like is interpreted."""

from __future__ import annotations

from types import FunctionType, MethodDescriptorType, MethodType, ModuleType, WrapperDescriptorType
from typing import Any

from onegraph.capture.bytecode.frame import NULL
from onegraph.capture.interp.lookup import is_python
from onegraph.capture.interp.parts import Part
from onegraph.capture.interp.rests import Rest

_PASSIVE = frozenset({FunctionType, staticmethod, classmethod, int, str, float, bool, tuple, list, dict, type(None)})
_TAKES_SELF = frozenset({FunctionType, MethodDescriptorType, WrapperDescriptorType})
_namespace_of = vars(ModuleType)["__dict__"].__get__
_ASKED = AttributeError.__dict__["name"], AttributeError.__dict__["obj"]
_SUPER_OWN = frozenset({"__class__", "__thisclass__", "__self__", "__self_class__"})


class Attributes(Part):
    """The part of the machine that reads and writes attributes."""

    def getattr(self, obj: Any, name: str) -> Any:
        """`obj.name`"""
        try:
            return self._get_or_fall_back(obj, name)
        except AttributeError as raised:
            note_attribute(raised, obj, name)
            raise

    def _get_or_fall_back(self, obj: Any, name: str) -> Any:
        try:
            return self._get(obj, name)
        except AttributeError:
            fallback = self.type_lookup(type(obj), "__getattr__")
            if fallback is NULL:
                raise
        return self.call_special(fallback, obj, (name,))

    def _get(self, obj: Any, name: str) -> Any:
        reader = self.type_lookup(type(obj), "__getattribute__")
        if reader is object.__getattribute__:
            return self.generic_getattr(obj, name)
        if reader is type.__getattribute__:
            return self.type_getattr(obj, name)
        if reader is super.__getattribute__:
            return self.super_getattr(obj, name)
        if reader is ModuleType.__getattribute__:
            return self.module_getattr(obj, name)
        if is_python(reader):
            return self.call_special(reader, obj, (name,))
        return getattr(obj, name)

    def generic_getattr(self, obj: Any, name: str) -> Any:
        """`object.__getattribute__`"""
        found = self.type_lookup(type(obj), name)
        kind = type(found)
        if found is NULL or kind in _PASSIVE:
            return object.__getattribute__(obj, name)
        if issubclass(kind, property) and self.type_lookup(kind, "__get__") is property.__get__:
            if type(found.fget) is FunctionType:
                return self.call(found.fget, (obj,), {})
            return object.__getattribute__(obj, name)
        getter = self.type_lookup(kind, "__get__")
        if type(getter) is not FunctionType:
            return object.__getattribute__(obj, name)
        if not self._is_data(kind):
            try:
                own = object.__getattribute__(obj, "__dict__")
            except AttributeError:
                own = ()
            if name in own:
                return own[name]
        return self.call(getter, (found, obj, type(obj)), {})

    def _is_data(self, kind: type) -> bool:
        return self.type_lookup(kind, "__set__") is not NULL or self.type_lookup(kind, "__delete__") is not NULL

    def type_getattr(self, cls: type, name: str) -> Any:
        """`type.__getattribute__`"""
        meta = self.type_lookup(type(cls), name)
        if meta is not NULL and type(meta) not in _PASSIVE and self._is_data(type(meta)):
            if issubclass(type(meta), property) and type(meta.fget) is FunctionType:
                return self.call(meta.fget, (cls,), {})
            getter = self.type_lookup(type(meta), "__get__")
            if type(getter) is FunctionType:
                return self.call(getter, (meta, cls, type(cls)), {})
            return type.__getattribute__(cls, name)
        found = self.type_lookup(cls, name)
        if found is not NULL:
            getter = self.type_lookup(type(found), "__get__")
            if type(getter) is FunctionType:
                return self.call(getter, (found, None, cls), {})
        elif meta is not NULL:
            getter = self.type_lookup(type(meta), "__get__")
            if type(getter) is FunctionType:
                return self.call(getter, (meta, cls, type(cls)), {})
        return type.__getattribute__(cls, name)

    def super_getattr(self, obj: Any, name: str) -> Any:
        """An attribute of `super(...)`"""
        start, owner, kind = obj.__thisclass__, obj.__self__, obj.__self_class__
        if name not in _SUPER_OWN and kind is not None:
            mro = kind.__mro__
            for cls in mro[mro.index(start) + 1 :]:
                if name in vars(cls):
                    found = vars(cls)[name]
                    instance = None if owner is kind else owner
                    prop = issubclass(type(found), property) and instance is not None
                    if prop and type(found.fget) is FunctionType:
                        return self.call(found.fget, (instance,), {})
                    getter = self.type_lookup(type(found), "__get__")
                    if type(getter) is FunctionType:
                        return self.call(getter, (found, instance, kind), {})
                    break
        return super.__getattribute__(obj, name)

    def module_getattr(self, module: ModuleType, name: str) -> Any:
        """An attribute of a module, whose own `__getattr__` is interpreted."""
        namespace = _namespace_of(module)
        fallback = namespace.get("__getattr__")
        if type(fallback) is FunctionType and name not in namespace and self.type_lookup(type(module), name) is NULL:
            return self.call(fallback, (name,), {})
        return getattr(module, name)

    def setattr(self, obj: Any, name: str, value: Any) -> None:
        """`obj.name = value`"""
        self._write("__setattr__", self.generic_setattr, setattr, obj, name, value)

    def generic_setattr(self, obj: Any, name: str, value: Any) -> None:
        """`object.__setattr__`, and that of `type`"""
        self._write_generic("__set__", "fset", "__setattr__", obj, name, value)

    def delattr(self, obj: Any, name: str) -> None:
        """`del obj.name`"""
        self._write("__delattr__", self.generic_delattr, delattr, obj, name)

    def generic_delattr(self, obj: Any, name: str) -> None:
        """`object.__delattr__`, and that of `type`"""
        self._write_generic("__delete__", "fdel", "__delattr__", obj, name)

    def _write(self, special: str, generic: Any, native: Any, obj: Any, name: str, *value: Any) -> None:
        writer = self.type_lookup(type(obj), special)
        if is_python(writer):
            self.call_special(writer, obj, (name, *value))
        elif writer is getattr(object, special) or writer is getattr(type, special):
            generic(obj, name, *value)
        else:
            native(obj, name, *value)

    def _write_generic(self, special: str, of_property: str, native: str, obj: Any, name: str, *value: Any) -> None:
        found = self.type_lookup(type(obj), name)
        writer = getattr(found, of_property) if issubclass(type(found), property) else NULL
        if type(writer) is FunctionType:
            self.call(writer, (obj, *value), {})
            return
        writer = NULL if found is NULL else self.type_lookup(type(found), special)
        if type(writer) is FunctionType:
            self.call(writer, (found, obj, *value), {})
        else:
            getattr(type if issubclass(type(obj), type) else object, native)(obj, name, *value)

    def bind_special(self, found: Any, obj: Any) -> Any:
        """A special method found in an object's class, bound to the object."""
        if type(found) is FunctionType:
            return MethodType(found, obj)
        getter = self.type_lookup(type(found), "__get__")
        if getter is NULL:
            return found
        if type(getter) is FunctionType:
            return self.call(getter, (found, obj, type(obj)), {})
        return getter(found, obj, type(obj))

    def call_special(self, found: Any, obj: Any, args: tuple[Any, ...] = (), rest: Rest | None = None) -> Any:
        """Call a special method found in an object's class."""
        if type(found) in _TAKES_SELF:
            return self.call(found, (obj, *args), {}, rest)
        return self.call(self.bind_special(found, obj), args, {}, rest)


def note_attribute(raised: AttributeError, obj: Any, name: str) -> None:
    """What was asked for, as CPython notes it in order to suggest another name."""
    if all(field.__get__(raised) is None for field in _ASKED):
        for field, value in zip(_ASKED, (name, obj), strict=True):
            field.__set__(raised, value)
