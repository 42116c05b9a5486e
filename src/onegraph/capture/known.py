"""What compiled code knows by identity without keeping it alive: classes and functions that a program lets go of.

What was compiled for one of them ends with it: its guards hold no longer. A class or function that is found where it
says that it is (`module.name`) lives as long as its module, and is held as it is.
"""

from __future__ import annotations

import functools
import sys
import weakref
from dataclasses import dataclass
from types import FunctionType
from typing import Any

from onegraph.capture.kinds import isinstance
from onegraph.capture.layout import HEAP_TYPE, instance_dict

_module_of = type.__dict__["__module__"].__get__
_name_of = type.__dict__["__qualname__"].__get__


@dataclass(frozen=True, slots=True)
class Named:
    """Stands in an explanation for an object that is known weakly."""

    text: str


class Known(weakref.ref[Any]):
    """A weak reference of a guard."""

    __slots__ = ()

    def is_dead(self) -> bool:
        return self() is None


class KnownWrapper:
    """Guard predicate: a `staticmethod`, a `classmethod` or a property of the same functions, which are held weakly."""

    def __init__(self, wrapper: Any) -> None:
        self.kind = type(wrapper)
        self.parts = tuple(None if part is None else weakref.ref(part) for part in parts_of(wrapper))

    def __call__(self, value: Any) -> bool:
        return type(value) is self.kind and all(
            found is None if part is None else found is not None and found is part()
            for found, part in zip(parts_of(value), self.parts, strict=True)
        )

    def is_dead(self) -> bool:
        return any(part is not None and part() is None for part in self.parts)


WRAPPERS = (staticmethod, classmethod, property)


def weakly(value: Any) -> Any:
    """What refers to a class or a function without keeping it alive; the value itself where there is no such thing."""
    return value if type(value) in WRAPPERS else Known(value)


def parts_of(wrapper: Any) -> tuple[Any, ...]:
    """The functions of a wrapper that no weak reference can refer to."""
    return (wrapper.fget, wrapper.fset, wrapper.fdel) if type(wrapper) is property else (wrapper.__func__,)


def passes_away(value: Any) -> bool:
    """Whether the object is a class or a function that its program may let go of, and that can be known weakly."""
    kind = type(value)
    if kind in WRAPPERS:
        parts = [part for part in parts_of(value) if part is not None]
        return all(map(is_function, parts)) and any(map(passes_away, parts))
    if kind is FunctionType:
        return not is_found(value.__module__, value.__qualname__)
    if kind is functools._lru_cache_wrapper:
        names = instance_dict(value) or {}
        return not is_found(names.get("__module__"), names.get("__qualname__"))
    if isinstance(value, type):
        return bool(value.__flags__ & HEAP_TYPE) and not is_found(_module_of(value), _name_of(value))
    return False


def is_function(value: Any) -> bool:
    return type(value) in (FunctionType, functools._lru_cache_wrapper)


def is_found(module: Any, name: Any) -> bool:
    """Whether a module has something of this name, or that of which it is a part."""
    if type(module) is not str or type(name) is not str or "<locals>" in name:
        return False
    found = instance_dict(sys.modules.get(module))
    return found is not None and name.partition(".")[0] in found
