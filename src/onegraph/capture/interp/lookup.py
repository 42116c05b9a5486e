"""Looking up names in classes, without running any code."""

from __future__ import annotations

from types import (
    BuiltinFunctionType,
    ClassMethodDescriptorType,
    FunctionType,
    GetSetDescriptorType,
    MemberDescriptorType,
    MethodDescriptorType,
    MethodWrapperType,
    WrapperDescriptorType,
)
from typing import Any, NamedTuple

from onegraph._C import look_up
from onegraph.capture.bytecode.frame import NULL
from onegraph.capture.pyobject.exact_types import dict_of, mro_of
from onegraph.capture.pyobject.layout import HEAP_TYPE

NATIVE_CALLABLES = frozenset(
    {
        BuiltinFunctionType,
        ClassMethodDescriptorType,
        MethodDescriptorType,
        MethodWrapperType,
        WrapperDescriptorType,
    }
)
NATIVE_DESCRIPTORS = frozenset(
    {
        ClassMethodDescriptorType,
        GetSetDescriptorType,
        MemberDescriptorType,
        MethodDescriptorType,
        WrapperDescriptorType,
    }
)


def type_name(cls: type) -> str:
    """The name that CPython's error messages give a class: native ones are named with their module."""
    if cls.__flags__ & HEAP_TYPE or cls.__module__ == "builtins":
        return cls.__name__
    return f"{cls.__module__}.{cls.__name__}"


def full_name(cls: type) -> str:
    """The name that newer messages of CPython give a class."""
    home = cls.__module__
    return f"{home}.{cls.__qualname__}" if home not in ("builtins", "__main__") else cls.__qualname__


class Entry(NamedTuple):
    """What a class has under a name, itself or by inheritance."""

    cls: type
    name: str
    #: Not bound to anything.
    value: Any
    #: Only those classes of the MRO are asked that come behind this one.
    behind: type | None = None


def find_in_class(cls: type, name: str) -> Entry | None:
    """What the class has under the name, or None."""
    value = look_up(cls, name, NULL)
    return None if value is NULL else Entry(cls, name, value)


def find_behind(start: type, cls: type, name: str) -> Entry | None:
    """What the classes have that come behind `start` in the MRO of a class, or None."""
    mro = mro_of(cls)
    for kind in mro[mro.index(start) + 1 :]:
        names = dict_of(kind)
        if name in names:
            return Entry(cls, name, names[name], start)
    return None


class ClassLookup:
    """Finds what a class has under a name, itself or by inheritance. Remembers which classes were looked at."""

    __slots__ = ("_classes",)

    def __init__(self) -> None:
        self._classes: dict[int, type] = {}

    def __call__(self, cls: type, name: str) -> Any:
        """The raw value, not bound to anything, or NULL."""
        self._classes[id(cls)] = cls
        return look_up(cls, name, NULL)

    def classes(self) -> tuple[type, ...]:
        """Those that were looked at."""
        return tuple(self._classes.values())

    def forget(self) -> None:
        """Let go of the classes."""
        self._classes.clear()


def is_python(found: Any) -> bool:
    """Whether calling a special method found in a class runs Python code (or may)."""
    return type(found) is FunctionType or not (found is NULL or found is None or type(found) in NATIVE_CALLABLES)
