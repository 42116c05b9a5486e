"""Our dataclasses are those of the standard library: what is asked of a class and its objects, both answer alike."""

from __future__ import annotations

import copy
import dataclasses
import pickle
from collections.abc import Callable
from dataclasses import FrozenInstanceError, field
from typing import Any, ClassVar

import pytest

from onegraph.base.dataclass import light_dataclass

Decorator = Callable[..., Callable[[type[Any]], type[Any]]]
DECORATORS: list[Decorator] = [dataclasses.dataclass, light_dataclass]


def classes(dataclass: Decorator) -> dict[str, type[Any]]:
    """The same classes by either decorator."""

    @dataclass(frozen=True, slots=True)
    class Base:
        channel: ClassVar[str] = "a"
        a: int
        b: Any = ()

    @dataclass(frozen=True, slots=True)
    class Derived(Base):
        """Two more fields."""

        channel: ClassVar[str] = "b"
        c: list[int] = field(default_factory=list, compare=False)
        d: float = field(default=1.5, repr=False, kw_only=True)

    class Plain(Derived):
        pass

    @dataclass(slots=True)
    class Changing:
        a: int = 1
        total: int = field(init=False)
        count: int = field(init=False, default=3)

        def __post_init__(self) -> None:
            self.total = self.a + self.count

    @dataclass(slots=True, eq=False)
    class Identity:
        a: int = 1

    @dataclass(frozen=True, slots=True)
    class Own:
        a: int

        def __init__(self, a: int) -> None:
            object.__setattr__(self, "a", a + 1)

        def __repr__(self) -> str:
            return "Own"

        def __eq__(self, other: object) -> bool:
            return isinstance(other, Own) and abs(self.a - other.a) < 2

        def __hash__(self) -> int:
            return 3

    @dataclass(frozen=True, slots=True)
    class Equal:
        a: int

        def __eq__(self, other: object) -> bool:
            return True

    @dataclass(frozen=True, slots=True)
    class Nothing:
        pass

    @dataclass(frozen=True, slots=True, weakref_slot=True, kw_only=True)
    class Named:
        a: int
        b: int = 2

    found = (Base, Derived, Plain, Changing, Identity, Own, Equal, Nothing, Named)
    return {cls.__name__: cls for cls in found}


WORLDS = [classes(decorator) for decorator in DECORATORS]
QUESTIONS = """
    Base(1)
    Base(1, 2) == Base(1, 2)
    Base(1) == Base(2)
    Base(1) == Derived(1)
    Base(1).__eq__(3)
    hash(Base(1, 2))
    hash(Base(1, [])) is None
    Base()
    Base(1, 2, 3)
    Base(e=1)
    Base.channel, Derived.channel, Derived(1).channel
    Derived(1), Derived(1).d, Derived(a=2, c=[3], d=4).c
    Derived(1, 2, [3], 4)
    Derived(1).c is Derived(1).c
    Derived(1, c=[1]) == Derived(1, c=[2])
    hash(Derived(1, c=[1])) == hash(Derived(1, c=[2]))
    Plain(1), Plain(1) == Plain(1), Plain(1) == Derived(1)
    setattr(Base(1), "a", 2)
    setattr(Derived(1), "a", 2)
    setattr(Plain(1), "a", 2)
    delattr(Base(1), "a")
    delattr(Plain(1), "a")
    Changing(), Changing(2).total, Changing(2) == Changing(2), Changing.__hash__
    hash(Changing())
    setattr(Changing(), "a", 2)
    setattr(Changing(), "e", 2)
    Changing(count=2)
    Identity() == Identity(), Identity(2).a, isinstance(hash(Identity()), int)
    Own(1), Own(1).a, Own(1) == Own(2), hash(Own(1))
    Equal(1) == Equal(2), hash(Equal(1)) == hash((1,))
    Nothing(), Nothing() == Nothing(), hash(Nothing())
    Named(a=1), Named(b=3, a=1), hash(Named(a=1))
    Named(1)
    [vars(cls).get("__slots__") for cls in CLASSES]
    [cls.__match_args__ for cls in CLASSES]
    [[item.name for item in dataclasses.fields(cls)] for cls in CLASSES]
    [cls.__init__.__qualname__.rpartition(".")[2] for cls in CLASSES]
    dataclasses.is_dataclass(Base), dataclasses.asdict(Derived(1)), dataclasses.astuple(Base(1))
    dataclasses.replace(Derived(1), a=2, d=3).d
    dataclasses.replace(Changing(1), a=2)
    dataclasses.replace(Changing(1), total=2)
    copy.copy(Derived(1, 2)), copy.deepcopy(Derived(1, [2])), copy.copy(Changing(2)), copy.copy(Identity(2)).a
    Derived(1, 2).__reduce_ex__(2)[2]
    Base(1).__dict__
""".strip().splitlines()


@pytest.mark.parametrize("question", QUESTIONS, ids=str.strip)
def test_both_answer_alike(question: str) -> None:
    answers = []
    for world in WORLDS:
        try:
            names = {"CLASSES": world.values(), "dataclasses": dataclasses, "copy": copy, **world}
            answers.append(repr(eval(question.strip(), names)))
        except Exception as error:
            answers.append(f"{type(error).__name__}: {error}")
    expected, found = answers
    assert found == expected


def test_objects_that_hold_themselves_are_shown() -> None:
    for world in WORLDS:
        held: list[Any] = []
        value = world["Base"](held)
        held.append(value)
        assert repr(value).endswith("Base(a=[...], b=())")


def test_match() -> None:
    for world in WORLDS:
        derived = world["Derived"]
        match derived(1, 2, [3]):
            case derived(a, b, c, d=d):
                assert (a, b, c, d) == (1, 2, [3], 1.5)
            case _:
                pytest.fail("it does not match its own class")


@light_dataclass(frozen=True, slots=True)
class Known:
    a: int
    b: tuple[int, ...] = ()


@light_dataclass(frozen=True, slots=True)
class Later(Known):
    c: int = 0


@pytest.mark.parametrize("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))
def test_objects_are_pickled(protocol: int) -> None:
    found = pickle.loads(pickle.dumps([Known(1, (2,)), Later(3)], protocol))
    assert found == [Known(1, (2,)), Later(3)]
    with pytest.raises(FrozenInstanceError, match="cannot assign to field 'a'"):
        found[0].a = 2


def test_fields_are_compared_as_items_of_tuples_on_every_python() -> None:
    nan: Any = float("nan")
    assert Known(nan) == Known(nan)


def test_objects_of_derived_classes_have_attributes_of_their_own() -> None:
    """Those of the standard library raise a TypeError about `super` here, where there are slots."""

    class Open(Known):
        pass

    value: Any = Open(1)
    value.own = 2
    assert value.own == 2
    del value.own
    with pytest.raises(FrozenInstanceError):
        value.a = 2
    with pytest.raises(FrozenInstanceError, match="cannot assign to field 'own'"):
        Known(1).own = 2  # type: ignore[attr-defined]


def test_methods_are_compiled_when_they_are_called() -> None:
    @light_dataclass(frozen=True, slots=True)
    class Fresh:
        a: int

    first = vars(Fresh)["__init__"]
    made = Fresh(1)
    assert vars(Fresh)["__init__"] is not first
    assert made == Fresh(1)


def test_a_method_that_was_wrapped_stays_wrapped() -> None:
    @light_dataclass(frozen=True, slots=True)
    class Counted:
        a: int

    asked = []
    compute = vars(Counted)["__hash__"]

    def counted(self: Any) -> int:
        asked.append(self)
        result: int = compute(self)
        return result

    setattr(Counted, "__hash__", counted)  # noqa: B010 - for checkers of types
    assert hash(Counted(1)) == hash(Counted(1))
    assert len(asked) == 2
