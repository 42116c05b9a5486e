"""Values as bytes and back: what is listed comes back equal, and nothing else is made of any bytes."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal

import pytest

from onegraph.base.codec import Codec, Named


@dataclass(frozen=True, slots=True)
class Point:
    x: object
    y: object = None


class Colour:
    """There is one object for each name."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return self.name


COLOURS = {name: Colour(name) for name in ("red", "blue")}
CODEC = Codec(Point, named={Colour: Named(lambda colour: colour.name, COLOURS.__getitem__)})
VALUES = (
    None, True, False, 0, -(2**70), "", "ü\n\0", 0.1, -0.0, float("inf"), float("-inf"), 1e-310, 2 - 3j,
    complex("-inf"), b"", b"\0\xff", (), (1, (2.5, "a")), frozenset({3, 1, 2}), frozenset({(1, "a")}),
    Point(1, Point(2.0)), (COLOURS["red"], Point(COLOURS["blue"])),
)  # fmt: skip


@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_a_value_comes_back(value: object) -> None:
    found = CODEC.decode(CODEC.encode(value))
    assert found == value and type(found) is type(value) and repr(found) == repr(value)


def test_nan_comes_back() -> None:
    assert CODEC.decode(CODEC.encode((float("nan"),)))[0] != 0


def test_equal_values_have_equal_bytes() -> None:
    words = [f"word{n}" for n in range(30)]
    assert CODEC.encode(frozenset(words)) == CODEC.encode(frozenset(reversed(words)))


class Number(int):
    """No integer of Python's own."""


def test_other_values_are_refused() -> None:
    for value in ([1], {"a": 1}, object(), Number(3), int, (1, {2}), Point(lambda: 1)):
        with pytest.raises(ValueError, match="has no encoding here"):
            CODEC.encode(value)


@pytest.mark.parametrize(
    "data",
    [
        b"", b"{", b"\xff", b"1.5", b"NaN", b"{}", b'{"Point": [1]}', b'{"Point": 1}', b'{"Other": []}',
        b'{"eval": "1"}',
        b'{"Point": [1, 2], "float": "0"}', b'{"float": "much"}', b'{"float": 1}', b'{"bytes": "?"}',
        b'{"set": [[[]], {}]}',
        b'{"Colour": "green"}', b'{"Colour": []}', b'{"complex": ["0x1p+0"]}', b"[" * 100_000,
    ],
    ids=lambda data: data[:40].decode(errors="replace"),
)  # fmt: skip
def test_other_bytes_are_no_value(data: bytes) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - also json's own
        CODEC.decode(data)


def test_damaged_bytes_are_a_value_or_refused() -> None:
    rng = random.Random(0)
    whole = CODEC.encode(VALUES)
    for _ in range(2000):
        data = bytearray(whole)
        for _ in range(rng.randint(1, 4)):
            data[rng.randrange(len(data))] = rng.randrange(256)
        try:
            CODEC.decode(bytes(data))
        except ValueError:
            continue


Size = int | Colour
Sizes = Size | tuple["Sizes", ...]


@dataclass(frozen=True, slots=True)
class Shape:
    sizes: tuple[Size, ...]
    kind: Literal["row", "column"]
    scale: float
    pair: tuple[int, str] | None
    names: frozenset[str]
    nested: Sizes
    anything: Any
    function: Callable[[int], int] | None = None


SHAPE = Shape((1, COLOURS["red"]), "row", 2.0, (3, "a"), frozenset({"b"}), (1, (2, (COLOURS["blue"],))), (b"", None))
TYPED = Codec(Shape, named={Colour: Named(lambda colour: colour.name, COLOURS.__getitem__)})


def test_fields_are_what_their_annotations_say() -> None:
    assert TYPED.decode(TYPED.encode(SHAPE)) == SHAPE
    for right in (
        replace(SHAPE, scale=2),
        replace(SHAPE, pair=None),
        replace(SHAPE, nested=7),
        replace(SHAPE, sizes=()),
    ):
        assert TYPED.decode(TYPED.encode(right)) == right


@pytest.mark.parametrize(
    "changes",
    [
        {"sizes": (1, "2")}, {"sizes": 1}, {"sizes": (1.0,)}, {"sizes": None}, {"kind": "diagonal"}, {"kind": 1},
        {"scale": "2"}, {"scale": None}, {"pair": (3,)}, {"pair": ("a", 3)}, {"pair": ()}, {"names": ("b",)},
        {"names": frozenset({1})}, {"nested": (1, (2, ("x",)))}, {"nested": None}, {"sizes": ((1,),)},
    ],
    ids=str,
)  # fmt: skip
def test_fields_of_other_types_are_refused(changes: dict[str, Any]) -> None:
    data = TYPED.encode(replace(SHAPE, **changes))
    with pytest.raises(ValueError, match=f"Shape has no such {next(iter(changes))}"):
        TYPED.decode(data)


@pytest.mark.parametrize("data", [b'{"Shape": "abcdefgh"}', b'{"Shape": {}}', b'{"float": "0x1p99999"}'])
def test_fields_that_are_no_list_are_refused(data: bytes) -> None:
    with pytest.raises(ValueError, match="fields, and others are given|OverflowError"):
        TYPED.decode(data)
