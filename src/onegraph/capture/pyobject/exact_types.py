"""What a value of the program is, told by its type alone.

Python's own `isinstance` asks an object of another type for its `__class__`, and a `match` against classes does the
same. That may run code of the program (`__getattribute__`, a property), and the answer need not be what it really is.
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from onegraph._C import answers_itself as answers_itself
from onegraph._C import class_version, is_of, look_up

#: The bases of a class, and its names, read without asking its own class.
mro_of: Callable[[type], tuple[type, ...]] = type.__dict__["__mro__"].__get__
dict_of: Callable[[type], Mapping[str, Any]] = type.__dict__["__dict__"].__get__
_NOTHING = object()

if TYPE_CHECKING:
    from builtins import isinstance as isinstance  # noqa: UP029
else:
    isinstance = is_of


def defined(cls: type, name: str) -> Any:
    """What a class has under a name for its objects, as it is, or None: it is not asked, see `defines`."""
    return look_up(cls, name, None)


def defines(cls: type, name: str) -> bool:
    """Whether a class has an attribute for its objects: it is not asked, for which its own class may have code."""
    return look_up(cls, name, _NOTHING) is not _NOTHING


def compares_by_identity(cls: Any) -> bool:
    """Whether `==` of a class's objects is that of `object`."""
    return cls.__eq__ is object.__eq__


def is_descriptor(value: Any) -> bool:
    return defines(type(value), "__get__")


def is_data_descriptor(value: Any) -> bool:
    """Whether a value in a class has `__set__` or `__delete__`: what is written to its name goes there."""
    return defines(type(value), "__set__") or defines(type(value), "__delete__")


def plain(value: Any) -> Any:
    """The value, to be matched against classes; None for an object that would answer itself."""
    return None if answers_itself(type(value)) else value


T = TypeVar("T")


def once_for_each_class(function: Callable[[type], T]) -> Callable[[type], T]:
    """Remember what the function says of a class as it is, without keeping it alive or asking whether it is equal."""
    known: dict[int, tuple[Any, int, T]] = {}

    @functools.wraps(function)
    def remembered(cls: type) -> T:
        identity, version = id(cls), class_version(cls)
        found = known.get(identity)
        if found is None or found[1] != version or version == 0:
            found = known[identity] = weakref.ref(cls, lambda _: known.pop(identity, None)), version, function(cls)
        return found[2]

    return remembered
