"""Attribute access: Python's own lookup, of which the code of descriptors, `__getattr__` and the like is interpreted.

Where it meets a fact of an object or a class, it asks one of the last methods, which the tracer overrides.
"""

from __future__ import annotations

from types import FunctionType, MethodDescriptorType, MethodType, ModuleType, WrapperDescriptorType
from typing import Any

from onegraph._C import is_generic
from onegraph.capture.bytecode.frame import NULL
from onegraph.capture.interp.lookup import NATIVE_DESCRIPTORS, Entry, find_behind, find_in_class, is_python, type_name
from onegraph.capture.interp.parts import Part
from onegraph.capture.interp.rests import ATTRIBUTE, WRITTEN_ATTRIBUTE, Rest, attribute_rest
from onegraph.capture.pyobject.exact_types import is_data_descriptor, is_descriptor
from onegraph.capture.pyobject.layout import instance_dict
from onegraph.capture.pyobject.native_members import wrapped_part

_TAKES_SELF = frozenset({FunctionType, MethodDescriptorType, WrapperDescriptorType})
_ASKED = AttributeError.__dict__["name"], AttributeError.__dict__["obj"]
_OF_PROPERTIES = vars(property)["__get__"]
_OF_CLASS_METHODS = vars(classmethod)["__get__"]
_OF_STATIC_METHODS = vars(staticmethod)["__get__"]
_start_of, _owner_of, _class_of = (vars(super)[f"__{name}__"].__get__ for name in ("thisclass", "self", "self_class"))
#: The native ways to read attributes that have one of their own here, by the identity of the method.
_READERS = {
    id(type.__getattribute__): "type_getattr",
    id(super.__getattribute__): "super_getattr",
    id(ModuleType.__getattribute__): "module_getattr",
    id(MethodType.__getattribute__): "method_getattr",
}


class Attributes(Part):
    """The part of the machine that reads and writes attributes."""

    # ---- reading -----------------------------------------------------------------------------------------------------

    def getattr(self, obj: Any, name: str) -> Any:
        """`obj.name`"""
        try:
            return self.read_attribute(obj, name)
        except AttributeError as raised:
            note_attribute(raised, obj, name)
            raise

    def read_attribute(self, obj: Any, name: str) -> Any:
        """By `__getattribute__` of the class, and if that fails by its `__getattr__`."""
        reader = self.type_lookup(type(obj), "__getattribute__")
        fallback = self.type_lookup(type(obj), "__getattr__")
        rest: Rest | None = ATTRIBUTE
        if fallback is not NULL:
            rest = attribute_rest(fallback, obj, name) if type(fallback) in _TAKES_SELF else None
        try:
            if is_generic(reader):
                return self.generic_getattr(obj, name, rest)
            if id(reader) in _READERS:
                return getattr(self, _READERS[id(reader)])(obj, name, rest)
            if is_python(reader):
                return self.call_special(reader, obj, (name,), rest)
            return self.read_natively(obj, name)
        except AttributeError:
            if fallback is NULL:
                raise
        return self.call_special(fallback, obj, (name,), ATTRIBUTE)

    def generic_getattr(self, obj: Any, name: str, rest: Rest | None = None) -> Any:
        """`object.__getattribute__`: data descriptors of the class, the instance dictionary, the rest of the class."""
        if obj is None:  # to descriptors this means that there is no instance
            return object.__getattribute__(obj, name)
        found = find_in_class(type(obj), name)
        if found is not None and comes_first(found.value):
            return self.bound(found, obj, rest)
        own = self.own_value(obj, name)
        if own is not NULL:
            return own
        if found is not None:
            return self.bound(found, obj, rest)
        raise AttributeError(f"'{type_name(type(obj))}' object has no attribute '{name}'", name=name, obj=obj)

    def type_getattr(self, cls: type, name: str, rest: Rest | None = None) -> Any:
        """`type.__getattribute__`: data descriptors of the metaclass, the class, then the rest of the metaclass."""
        of_meta = find_in_class(type(cls), name)
        if of_meta is not None and comes_first(of_meta.value):
            return self.bound(of_meta, cls, rest)
        found = find_in_class(cls, name)
        if found is not None:
            return self.bound(found, None, rest)
        if of_meta is not None:
            return self.bound(of_meta, cls, rest)
        raise AttributeError(f"type object '{type_name(cls)}' has no attribute '{name}'")

    def super_getattr(self, obj: Any, name: str, rest: Rest | None = None) -> Any:
        """An attribute of `super(...)`: of the classes behind the given one, bound to the instance or class."""
        owner, cls = _owner_of(obj), _class_of(obj)
        found = None if cls is None or name == "__class__" else find_behind(_start_of(obj), cls, name)
        if found is None:
            return self.generic_getattr(obj, name, rest)
        return self.bound(found, None if owner is cls else owner, rest)

    def module_getattr(self, module: ModuleType, name: str, rest: Rest | None = None) -> Any:
        """An attribute of a module, which may have a `__getattr__` of its own."""
        try:
            return self.generic_getattr(module, name)
        except AttributeError:
            fallback = self.own_value(module, "__getattr__")
        if fallback is NULL:
            return self.read_natively(module, name)  # which says why there is none
        return self.call(fallback, (name,), {}, rest)

    def method_getattr(self, method: MethodType, name: str, rest: Rest | None = None) -> Any:
        """An attribute of a bound method, else of its function."""
        found = find_in_class(MethodType, name)
        return self.read_attribute(method.__func__, name) if found is None else self.bound(found, method, rest)

    def bound(self, found: Entry, obj: Any, rest: Rest | None = None) -> Any:
        """What an entry of a class gives on an instance; on the class itself, where the instance is None."""
        kind = type(found.value)
        if kind is FunctionType:
            function = self.class_value(found)
            return function if obj is None else MethodType(function, obj)
        if kind in NATIVE_DESCRIPTORS:
            return self.read_descriptor(found, obj)
        getter = self.type_lookup(kind, "__get__")
        if getter is NULL:
            return self.class_value(found)
        if getter is _OF_STATIC_METHODS:
            return self.wrapped(found, "__func__")
        if getter is _OF_CLASS_METHODS:
            function = wrapped_part(found.value, "__func__")
            if type(function) is not FunctionType and is_descriptor(function):  # it may be asked to bind itself
                return self.natively(getter, found.value, None, found.cls)
            return MethodType(self.wrapped(found, "__func__"), found.cls)
        if getter is _OF_PROPERTIES and obj is not None:
            if wrapped_part(found.value, "fget") is None:
                return getter(found.value, obj, found.cls)  # which raises
            return self.call(self.wrapped(found, "fget"), (obj,), {}, rest)
        if is_python(getter):
            return self.call(self.special_value(getter), (self.class_value(found), obj, found.cls), {}, rest)
        return getter(self.class_value(found), obj, found.cls)

    def bind_special(self, found: Any, obj: Any) -> Any:
        """A special method found in an object's class, bound to the object."""
        if type(found) is FunctionType:
            return MethodType(found, obj)
        found = self.special_value(found)
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

    # ---- writing -----------------------------------------------------------------------------------------------------

    def setattr(self, obj: Any, name: str, value: Any) -> None:
        """`obj.name = value`"""
        self.write_attribute(obj, name, value)

    def delattr(self, obj: Any, name: str) -> None:
        """`del obj.name`"""
        self.write_attribute(obj, name)

    def write_attribute(self, obj: Any, name: str, *value: Any) -> None:
        """By `__setattr__` of the class; without a value, by its `__delattr__`."""
        writer = self.type_lookup(type(obj), "__setattr__" if value else "__delattr__")
        if is_generic(writer) or writer is type.__setattr__ or writer is type.__delattr__:
            self.write_generic(obj, name, *value)
        else:
            self.call_special(writer, obj, (name, *value), WRITTEN_ATTRIBUTE)

    def write_generic(self, obj: Any, name: str, *value: Any) -> None:
        """`__setattr__` of `object` and `type`: by a data descriptor of the class, else to the instance dictionary.

        Without a value, their `__delattr__`.
        """
        found = find_in_class(type(obj), name)
        if found is None or not is_data_descriptor(found.value):
            return self.write_natively(obj, name, *value)
        writer = self.type_lookup(type(found.value), "__set__" if value else "__delete__")
        part = "fset" if value else "fdel"
        if is_python(writer):
            self.call_special(writer, self.class_value(found), (obj, *value), WRITTEN_ATTRIBUTE)
        elif not issubclass(type(found.value), property):
            self.write_descriptor(found, obj, *value)
        elif wrapped_part(found.value, part) is None:
            writer(found.value, obj, *value)  # which raises
        else:
            self.call(self.wrapped(found, part), (obj, *value), {}, WRITTEN_ATTRIBUTE)

    # ---- what the tracer knows better --------------------------------------------------------------------------------

    def class_value(self, found: Entry) -> Any:
        """The value of an entry of a class, which the program is about to see."""
        return found.value

    def special_value(self, found: Any) -> Any:
        """A special method found in a class, which the program does not see, only calls."""
        return found

    def wrapped(self, found: Entry, part: str) -> Any:
        """What the property, class method or static method in an entry of a class wraps."""
        return wrapped_part(found.value, part)

    def own_value(self, obj: Any, name: str) -> Any:
        """What an object has in its instance dictionary, or NULL."""
        own = instance_dict(obj)
        return NULL if own is None else own.get(name, NULL)

    def read_descriptor(self, found: Entry, obj: Any) -> Any:
        """What a native descriptor gives: a method, or what is in a slot or a field of a native object."""
        return found.value.__get__(obj, found.cls)

    def read_natively(self, obj: Any, name: str) -> Any:
        """An attribute of an object whose native class looks in places of its own."""
        return self.type_lookup(type(obj), "__getattribute__")(obj, name)

    def write_descriptor(self, found: Entry, obj: Any, *value: Any) -> None:
        """Write or delete by a native descriptor."""
        self.write_natively(obj, found.name, *value)

    def write_natively(self, obj: Any, name: str, *value: Any) -> None:
        """Write to or delete from the instance dictionary."""
        owner = type if issubclass(type(obj), type) else object
        (owner.__setattr__ if value else owner.__delattr__)(obj, name, *value)


def comes_first(value: Any) -> bool:
    """Whether a value of a class hides what its instances have under its name."""
    return is_data_descriptor(value) and is_descriptor(value)


def note_attribute(raised: AttributeError, obj: Any, name: str) -> None:
    """What was asked for, as CPython notes it in order to suggest another name."""
    if all(field.__get__(raised) is None for field in _ASKED):
        for field, value in zip(_ASKED, (name, obj), strict=True):
            field.__set__(raised, value)
