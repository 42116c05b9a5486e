"""What the instances of a class hold outside of their `__dict__`."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterable
from types import (
    ClassMethodDescriptorType,
    FunctionType,
    MemberDescriptorType,
    MethodDescriptorType,
    WrapperDescriptorType,
)
from typing import Any

from onegraph import _C
from onegraph.base.dataclass import dataclass
from onegraph.capture.pyobject.exact_types import defines, dict_of, isinstance, mro_of, once_for_each_class

HEAP_TYPE = 1 << 9
#: The interpreter keeps the attributes of the instances, as a dictionary or without one.
MANAGED_DICT = 1 << 4
#: What stands among `__slots__` and is none.
NO_SLOTS = frozenset({"__dict__", "__weakref__"})


def slots_of(cls: type) -> tuple[tuple[str, MemberDescriptorType], ...]:
    """The names and descriptors of the `__slots__` of a class and its bases."""
    found = ((name, vars(cls.__mro__[index]).get(name)) for index, name in places_of_slots(cls))
    return tuple((name, member) for name, member in found if isinstance(member, MemberDescriptorType))


def filled(value: Any, members: Iterable[Any]) -> list[tuple[Any, Any]]:
    """The members of a class that are set in an instance, and what they hold, read without its own code."""
    found = []
    for member in members:
        with contextlib.suppress(AttributeError):
            found.append((member, member.__get__(value, type(value))))
    return found


def filled_slots(value: Any) -> list[tuple[MemberDescriptorType, Any]]:
    return filled(value, (member for _, member in slots_of(type(value))))


@once_for_each_class
def places_of_slots(cls: type) -> tuple[tuple[int, str], ...]:
    """The slots of a class: which of its bases has them, and their names."""
    return tuple(
        (index, name)
        for index, kind in enumerate(cls.__mro__)
        if "__slots__" in vars(kind)
        for name, member in vars(kind).items()
        if type(member) is MemberDescriptorType
    )


@once_for_each_class
def hides_slots(cls: type) -> bool:
    """Whether instances have a slot that no class has under its name: a descriptor of the program may stand in its
    place, and keep what it is given there."""
    for kind in mro_of(cls):
        names = dict_of(kind).get("__slots__", ())
        for name in (names,) if type(names) is str else names if type(names) in (tuple, list, dict) else ():
            private = name.startswith("__") and not name.endswith("__")
            own = f"_{kind.__name__.lstrip('_')}{name}" if private else name
            if name not in NO_SLOTS and type(dict_of(kind).get(own)) is not MemberDescriptorType:
                return True
    return False


@once_for_each_class
def exception_fields(cls: type) -> tuple[tuple[str, MemberDescriptorType], ...]:
    """What exceptions of a native class hold beside their arguments, such as the value of StopIteration."""
    return tuple(
        (name, member)
        for kind in cls.__mro__
        if not kind.__flags__ & HEAP_TYPE and kind is not BaseException
        for name, member in vars(kind).items()
        if type(member) is MemberDescriptorType
    )


@dataclass(frozen=True, slots=True)
class UnsetSlot:
    """Guard predicate: the slot of an object is not set."""

    member: MemberDescriptorType

    @property
    def __name__(self) -> str:
        return f"having no {self.member.__name__}"

    def __call__(self, value: Any) -> bool:
        try:
            self.member.__get__(value, type(value))
        except AttributeError:
            return True
        return False


def instance_dict(value: Any) -> dict[str, Any] | None:
    """The instance dictionary, without running code of the program, and without making one for a native object.

    One that has none is another to native code than one that has an empty one.
    """
    if not type(value).__flags__ & MANAGED_DICT:
        found = None if isinstance(value, type) else _C.made_dict(value)
        return found if type(found) is dict else None
    try:
        found = object.__getattribute__(value, "__dict__")
    except AttributeError:
        return None
    return found if type(found) is dict else None


#: Views of dicts.
VIEWS: tuple[type, ...] = (type({}.keys()), type({}.values()), type({}.items()))


def behind_weak_proxy(proxy: Any) -> Any:
    """The object that a weak proxy stands for, if it lives."""
    try:
        return proxy.__repr__.__self__
    except ReferenceError:
        return None


def behind_proxy(proxy: Any) -> Any:
    """The mapping that a read-only proxy or a view shows."""
    return gc.get_referents(proxy)[0]


def native_method(owner: Any, bound: Any) -> Any:
    """The method of a class that gives this bound method of the owner, whose own class may have another one; or None.

    (A bound method says which object it is of, and compares what it calls. `__get__` without a class ends the process
    for methods that take their class.)
    """
    for kind in type(owner).__mro__:
        found = vars(kind).get(bound.__name__)
        if isinstance(found, MethodDescriptorType | WrapperDescriptorType) and found.__get__(owner, kind) == bound:
            return found
    return class_method(owner, bound) if isinstance(owner, type) else None


def class_method(owner: type, bound: Any) -> ClassMethodDescriptorType | None:
    """The native class method that gives this bound method of the class, or None."""
    for kind in owner.__mro__:
        found = vars(kind).get(bound.__name__)
        if isinstance(found, ClassMethodDescriptorType) and found.__get__(None, owner) == bound:
            return found
    return None


@once_for_each_class
def compares_in_python(cls: type) -> bool:
    """Whether a dict or set that holds instances of the class runs Python code to find them."""
    return any(isinstance(getattr(cls, name), FunctionType) for name in ("__hash__", "__eq__"))


def makes_itself(cls: type[tuple[Any, ...]]) -> bool:
    """Whether a class of tuples is made of one sequence: `torch.Size`, and the results of native functions."""
    return cls.__flags__ & HEAP_TYPE == 0 or defines(cls, "n_sequence_fields")
