"""What compiled code knows by identity without keeping it alive: whatever a program may let go of.

What was compiled for such an object ends with it: its guards hold no longer. A class or function that is found where it
says that it is (`module.name`) lives as long as its module, and is held as it is.
"""

from __future__ import annotations

import enum
import functools
import sys
import weakref
from types import FunctionType, ModuleType
from typing import Any

from onegraph.base.dataclass import dataclass
from onegraph.capture.pyobject.exact_types import isinstance
from onegraph.capture.pyobject.layout import HEAP_TYPE, instance_dict

# Read without asking the class of a class.
_module_of = type.__dict__["__module__"].__get__
_name_of = type.__dict__["__qualname__"].__get__
_flags_of = type.__dict__["__flags__"].__get__
weakrefs_of = type.__dict__["__weakrefoffset__"].__get__


@dataclass(frozen=True, slots=True)
class Named:
    """Stands in an explanation for an object that is known weakly."""

    text: str


class Known(weakref.ref[Any]):
    """A weak reference of ours, which the program does not see. Two are one if they refer to one object."""

    __slots__ = ("identity",)

    def __init__(self, value: Any) -> None:
        super().__init__(value)  # type: ignore[call-arg]  # of which typeshed knows no `__init__`
        self.identity = id(value)

    def __eq__(self, other: object) -> bool:
        return type(other) is Known and other.identity == self.identity

    def __hash__(self) -> int:
        return self.identity

    def is_dead(self) -> bool:
        return self() is None


#: Wrappers that no weak reference can refer to, and the names of the functions in them.
WRAPPERS: dict[type, tuple[str, ...]] = {
    staticmethod: ("__func__",),
    classmethod: ("__func__",),
    property: ("fget", "fset", "fdel"),
}


def weakly(value: Any) -> Any:
    """What refers to a value without keeping it alive, if its program may let go of it; or the value itself."""
    return Known(value) if passes_away(value) and type(value) not in WRAPPERS else value


def referred(value: Any) -> Any:
    """The value that `weakly` was given; None when it has died."""
    return value() if type(value) is Known else value


def parts_of(wrapper: Any) -> tuple[Any, ...]:
    return tuple(getattr(wrapper, name) for name in WRAPPERS[type(wrapper)])


def passes_away(value: Any) -> bool:
    """Whether the object is one that its program may let go of, and that can be known weakly."""
    kind = type(value)
    if kind in WRAPPERS:
        parts = [part for part in parts_of(value) if part is not None]
        return all(weakrefs_of(type(part)) for part in parts) and any(map(passes_away, parts))
    names = names_of(value)
    if names is None:
        own = bool(weakrefs_of(kind) and kind.__flags__ & HEAP_TYPE)
        return own and not issubclass(kind, type | enum.Enum | ModuleType)
    return not is_found(*names)


def names_of(value: Any) -> tuple[Any, Any] | None:
    """The module and the qualified name of a class or a function; None for what is neither."""
    kind = type(value)
    if isinstance(value, type):
        return (_module_of(value), _name_of(value)) if _flags_of(value) & HEAP_TYPE else None
    if kind is FunctionType:
        return value.__module__, value.__qualname__
    names = instance_dict(value) if weakrefs_of(kind) and kind is not ModuleType else None
    if kind is functools._lru_cache_wrapper:  # which gets the names of what it wraps after it is made
        names = names or {}
    elif names is None or "__wrapped__" not in names:
        return None
    return names.get("__module__"), names.get("__qualname__")


def is_found(module: Any, name: Any) -> bool:
    """Whether a module has something of this name, or that of which it is a part."""
    if type(module) is not str or type(name) is not str or "<locals>" in name:
        return False
    found = instance_dict(sys.modules.get(module))
    return found is not None and name.partition(".")[0] in found
