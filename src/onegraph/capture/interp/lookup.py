"""Looking up names in classes, without running any code."""

from __future__ import annotations

from types import (
    BuiltinFunctionType,
    ClassMethodDescriptorType,
    FunctionType,
    MethodDescriptorType,
    MethodWrapperType,
    WrapperDescriptorType,
)
from typing import Any

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


def type_name(cls: type) -> str:
    """The name that CPython's error messages give a class: native ones are named with their module."""
    if cls.__flags__ & HEAP_TYPE or cls.__module__ == "builtins":
        return cls.__name__
    return f"{cls.__module__}.{cls.__name__}"


class ClassLookup:
    """Finds what a class has under a name, itself or by inheritance. Keeps the dictionaries of each class at hand."""

    __slots__ = ("_dicts",)

    def __init__(self) -> None:
        self._dicts: dict[type, tuple[Any, tuple[Any, ...]]] = {}

    def __call__(self, cls: type, name: str) -> Any:
        """The raw value, not bound to anything, or NULL."""
        mro = mro_of(cls)
        known = self._dicts.get(cls)
        if known is None or known[0] is not mro:
            known = self._dicts[cls] = (mro, tuple(dict_of(kind) for kind in mro))
        for namespace in known[1]:
            if name in namespace:
                return namespace[name]
        return NULL

    def classes(self) -> tuple[type, ...]:
        """Those that were looked at."""
        return tuple(self._dicts)

    def forget(self) -> None:
        """Let go of the classes."""
        self._dicts.clear()


def is_python(found: Any) -> bool:
    """Whether calling a special method found in a class runs Python code (or may)."""
    return type(found) is FunctionType or not (found is NULL or found is None or type(found) in NATIVE_CALLABLES)
