"""Data classes of every kind hold what they hold in eager mode, in slots that nobody shows, too."""

from __future__ import annotations

import copy
import dataclasses
import types
from collections.abc import Callable
from dataclasses import KW_ONLY, InitVar, dataclass, field, replace
from typing import Any

import pytest
import torch

import onegraph


class Doubling:
    """A data descriptor that keeps what it is given under another name."""

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = f"_{name}"

    def __get__(self, obj: Any, cls: Any = None) -> Any:
        return 7 if obj is None else getattr(obj, self.name)

    def __set__(self, obj: Any, value: Any) -> None:
        object.__setattr__(obj, self.name, value * 2)


class Behind:
    """A data descriptor in the place of a slot, which keeps there what it is given."""

    def __init__(self, member: Any) -> None:
        self.member = member

    def __get__(self, obj: Any, cls: Any = None) -> Any:
        return self.member if obj is None else self.member.__get__(obj, cls)

    def __set__(self, obj: Any, value: Any) -> None:
        self.member.__set__(obj, value + 1)


HIDDEN: dict[type, Any] = {}


def hiding(cls: Any) -> Any:
    """The class with its slot `a` behind a descriptor."""
    HIDDEN[cls] = vars(cls)["a"]
    cls.a = Behind(HIDDEN[cls])
    return cls


@dataclass
class Plain:
    a: int = 1
    b: Any = None


@dataclass(frozen=True)
class Frozen:
    a: int = 1
    b: Any = None


@dataclass(slots=True)
class Slotted:
    a: int = 1
    b: Any = None


@dataclass(frozen=True, slots=True)
class FrozenSlots:
    a: int = 1
    b: Any = None


@dataclass(frozen=True, slots=True)
class Derived(FrozenSlots):
    c: int = 3


@dataclass
class WithDict(Slotted):
    c: int = 3


@dataclass(kw_only=True)
class ByName:
    a: int = 1
    b: Any = None


@dataclass
class Marked:
    a: int
    _: KW_ONLY
    b: Any = None


@dataclass(slots=True)
class Prepared:
    a: int
    b: Any = None
    scale: InitVar[int] = 2
    c: int = field(init=False, default=0)

    def __post_init__(self, scale: int) -> None:
        self.c = self.a * scale


@dataclass(frozen=True, slots=True)
class FrozenPrepared:
    a: int
    b: Any = None
    c: int = field(init=False, default=0)

    def __post_init__(self) -> None:
        object.__setattr__(self, "c", self.a * 3)


@dataclass
class Described:
    a: Any = Doubling()  # noqa: RUF009
    b: Any = None


@dataclass
class ByHand:
    __slots__ = ("a", "b")
    a: int
    b: Any


@dataclass(slots=True)
class Watching:
    a: int = 1
    b: Any = None
    seen: int = 0

    def __setattr__(self, name: str, value: Any) -> None:
        object.__setattr__(self, name, value)
        if name == "a":
            object.__setattr__(self, "seen", value + 100)


@hiding
@dataclass(slots=True)
class Hiding:
    a: int
    b: Any


@hiding
@dataclass(frozen=True, slots=True)
class FrozenHiding:
    a: int
    b: Any


@hiding
class Base:
    __slots__ = ("a",)
    a: Any


@dataclass
class Inheriting(Base):
    a: int
    b: Any


@hiding
class Table(dict[str, Any]):
    __slots__ = ("a", "b")
    a: Any
    b: Any

    def __init__(self, a: Any, b: Any) -> None:
        self.a, self.b = a, b


CLASSES = [
    Plain, Frozen, Slotted, FrozenSlots, Derived, WithDict, ByName, Marked, Described, ByHand, Watching, Hiding,
    FrozenHiding, Inheriting, Table,
]  # fmt: skip
PROGRAMS: dict[str, Callable[[torch.Tensor, Any], Any]] = {}
CALLED = Callable[[torch.Tensor, Any], Any]


def program(function: CALLED) -> CALLED:
    PROGRAMS[function.__name__] = function
    return function


def changed(obj: Any, **values: Any) -> Any:
    return replace(obj, **values) if dataclasses.is_dataclass(obj) else type(obj)(**{"a": obj.a, "b": obj.b, **values})


@program
def replaced(x: torch.Tensor, obj: Any) -> Any:
    other = changed(obj, b=x + 1)
    return x * other.a, changed(other, a=4), other


@program
def made(x: torch.Tensor, obj: Any) -> Any:
    new = type(obj)(a=3, b=x)
    return new.b * new.a, new, new.a == obj.a


@program
def copied(x: torch.Tensor, obj: Any) -> Any:
    return x * obj.a, copy.copy(obj)


@program
def written(x: torch.Tensor, obj: Any) -> Any:
    try:
        obj.a = obj.a + 5
    except dataclasses.FrozenInstanceError:
        object.__setattr__(obj, "a", obj.a + 7)
    object.__setattr__(obj, "b", x * obj.a)
    return obj.b + 1


def state(value: Any) -> Any:
    """All that a value holds, without asking what it says of itself."""
    if isinstance(value, torch.Tensor):
        return value.tolist()
    if type(value) in (tuple, list):
        return [state(item) for item in value]
    if type(value).__module__ != __name__:
        return value
    members = [member for kind in type(value).__mro__ for member in (*vars(kind).values(), HIDDEN.get(kind))]
    held = {}
    for member in members:
        if isinstance(member, types.MemberDescriptorType):
            try:
                held[member.__name__] = state(member.__get__(value))
            except AttributeError:
                held[member.__name__] = "not set"
    attributes = {name: state(item) for name, item in getattr(value, "__dict__", {}).items()}
    return type(value).__name__, held, attributes, dict(value) if isinstance(value, dict) else None


def found(function: CALLED, cls: type) -> Any:
    obj: Any = cls(a=2, b=3)
    return state([function(torch.arange(3.0), obj), obj])


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.__name__)
def test_objects_hold_what_they_hold_in_eager_mode(name: str, cls: type) -> None:
    function = PROGRAMS[name]
    compiled = onegraph.compile(function, fullgraph=cls not in (*HIDDEN, Inheriting))
    assert [found(compiled, cls) for _ in range(2)] == [found(function, cls)] * 2


@pytest.mark.parametrize("cls", [Prepared, FrozenPrepared])
def test_what_is_computed_behind_the_initialization(cls: Any) -> None:
    def function(x: torch.Tensor, obj: Any) -> Any:
        more = {"scale": 5} if cls is Prepared else {}
        other = replace(obj, a=4, b=x, **more)
        return x * other.c, other

    assert found(onegraph.compile(function, fullgraph=True), cls) == found(function, cls)


def test_what_a_hidden_slot_holds_is_read_in_each_call() -> None:
    compiled = onegraph.compile(lambda x, obj: x * obj.a + obj.b)
    for number in (1, 2, 3):
        assert compiled(torch.ones(1), FrozenHiding(number, 10 * number)).item() == 11 * number + 1
