"""Admission of what is known by its value: records of native code, and numbers and texts of own classes."""

from __future__ import annotations

from typing import Any

from onegraph.capture.guards.source import Item, Source, Through
from onegraph.capture.heap.world import World
from onegraph.capture.pyobject.contents import ATOMS
from onegraph.capture.pyobject.exact_types import defines, once_for_each_class
from onegraph.capture.pyobject.layout import HEAP_TYPE


@once_for_each_class
def has_hidden_fields(cls: type[tuple[Any, ...]]) -> bool:
    """Whether a class of native records (`os.stat_result`) has fields that are no items of the tuple."""
    return getattr(cls, "n_fields", 0) > getattr(cls, "n_sequence_fields", 0)


def fields_of(record: Any) -> tuple[Any, ...]:
    """All fields of a native record."""
    visible, hidden = record.__reduce__()[1]
    return (*visible, *hidden.values())


def holds_atoms(record: Any) -> bool:
    return all(type(field) in ATOMS for field in fields_of(record))


def admit_record(world: World, real: Any, source: Source, guarded: bool) -> Any:
    """The record itself: each atom in it is known by its value, as native code reads them."""
    if guarded:
        world.guard(source, "type", type(real))
        for index, field in enumerate(fields_of(real)):
            same = "is" if field is None or type(field) is bool else "equal"
            world.guard(Item(Through(source, fields_of), index), same, field)
    world.adopt_value(real, source)
    return real


#: What is asked of a number or a text of an own class for the plain one that it holds.
PLAIN = {
    int: int.__int__,
    float: float.__float__,
    complex: complex.__complex__,
    str: str.__str__,
    bytes: bytes.__bytes__,
}


@once_for_each_class
def kind_of_value(cls: type) -> type | None:
    """The builtin type of numbers or texts of which a class in Python is a subclass."""
    own = cls.__flags__ & HEAP_TYPE
    return next((kind for kind in PLAIN if own and issubclass(cls, kind)), None)


@once_for_each_class
def can_be_remade(cls: type) -> bool:
    """Whether an equal number or text of a class has all of it but the `__dict__`: not with slots, or a finalizer."""
    return not defines(cls, "__del__") and not any(kind.__dict__.get("__slots__") for kind in cls.__mro__)


def guard_own_value(world: World, real: Any, source: Source) -> None:
    """Native code takes a number or a text of an own class for the plain one."""
    kind = kind_of_value(type(real))
    assert kind is not None
    world.guard(source, "type", type(real))
    world.guard(Through(source, PLAIN[kind]), "equal", PLAIN[kind](real))


def admit_own_value(world: World, real: Any, source: Source, guarded: bool) -> Any:
    """A number or a text of an own class: an equal one, with a lazy `__dict__` if it has one."""
    kind = kind_of_value(type(real))
    assert kind is not None
    shadow = kind.__new__(type(real), PLAIN[kind](real))
    world.adopt(real, world.keep(shadow), source)
    if type(real).__dictoffset__:
        world.attributes_record(shadow, real, source, guarded)
    return shadow
