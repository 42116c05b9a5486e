"""What the instances of a class hold outside of their `__dict__`."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from types import MemberDescriptorType
from typing import Any

HEAP_TYPE = 1 << 9


@functools.cache
def slots_of(cls: type) -> tuple[tuple[str, MemberDescriptorType], ...]:
    """The names and descriptors of the `__slots__` of a class and its bases."""
    return tuple(
        (name, member)
        for kind in cls.__mro__
        if kind.__flags__ & HEAP_TYPE
        for name, member in vars(kind).items()
        if type(member) is MemberDescriptorType
    )


@functools.cache
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
