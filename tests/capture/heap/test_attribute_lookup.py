"""Every way in which a name is found: on an instance, its class, a base, the metaclass, by all kinds of attributes."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable
from typing import Any

import pytest
import torch

import onegraph


class NonData:
    """A descriptor that only reads."""

    def __get__(self, instance: Any, owner: Any = None) -> str:
        return f"read of {'the class' if instance is None else 'an object'}"


class Data(NonData):
    """A descriptor that reads, writes and deletes."""

    def __set__(self, instance: Any, value: Any) -> None:
        LOG.append(f"set {value}")

    def __delete__(self, instance: Any) -> None:
        LOG.append("deleted")


class WriteOnly:
    def __set__(self, instance: Any, value: Any) -> None:
        LOG.append(f"only set {value}")


LOG: list[str] = []
#: What is found under the name, by its kind.
KINDS: dict[str, Callable[[], Any]] = {
    "value": lambda: 5,
    "function": lambda: lambda self=None: f"called on {self is None}",
    "property": lambda: property(lambda self: "a property"),
    "writable": lambda: property(
        lambda self: "a property", lambda self, value: LOG.append(f"wrote {value}"), lambda self: LOG.append("gone")
    ),
    "classmethod": lambda: classmethod(lambda cls: "a class method"),
    "staticmethod": lambda: staticmethod(lambda: "a static method"),
    "nondata": NonData,
    "data": Data,
    "writeonly": WriteOnly,
    "native": lambda: len,
    "cached": lambda: functools.cached_property(lambda self: "cached"),
}
PLACES = ("object", "class", "base", "metaclass", "base of the metaclass")


def build(found: dict[str, str], fallback: str) -> Any:
    """An object of a class, with these kinds of attributes at these places, and a fallback at one of them."""
    spaces: dict[str, dict[str, Any]] = {place: {} for place in PLACES}
    for place, kind in found.items():
        made = KINDS[kind]()
        if kind == "cached":
            made.__set_name__(None, "a")
        spaces[place]["a"] = made
    if fallback in ("class", "metaclass"):
        spaces[fallback]["__getattr__"] = lambda self, name: f"no {name}"
    if fallback in ("asked class", "asked metaclass"):
        asked: Any = type if fallback == "asked metaclass" else object
        spaces[fallback.removeprefix("asked ")]["__getattribute__"] = lambda self, name: (
            "asked" if name == "a" else asked.__getattribute__(self, name)
        )
    meta_base = type("MetaBase", (type,), spaces["base of the metaclass"])
    meta = type("Meta", (meta_base,), spaces["metaclass"])
    base = meta("Base", (), spaces["base"]) if found.get("metaclass") else type("Base", (), spaces["base"])
    cls = meta("Class", (base,), spaces["class"])
    made = object.__new__(cls)
    made.__dict__.update(spaces["object"])
    return made


def outcome(function: Callable[..., Any], *args: Any) -> Any:
    """What a function gives; what that gives, if it is called; or how it fails."""
    try:
        value = function(*args)
        value = value() if callable(value) else value
        return value if value is None or isinstance(value, int | str) else type(value).__name__
    except (AttributeError, TypeError) as error:
        return f"{type(error).__name__}: {error}"


def write(owner: Any) -> None:
    owner.a = 7


def delete(owner: Any) -> None:
    del owner.a


def read_all(x: torch.Tensor, made: Any) -> tuple[torch.Tensor, list[Any]]:
    cls = type(made)
    found = [
        outcome(lambda: made.a),
        outcome(lambda: cls.a),
        outcome(lambda: super(cls, made).a),  # type: ignore[misc]
        outcome(lambda: super(cls, cls).a),  # type: ignore[misc]
        outcome(hasattr, made, "a"),
        outcome(hasattr, cls, "a"),
        getattr(made, "b", "missing"),
        getattr(cls, "b", "missing"),
        outcome(write, made),
        outcome(lambda: made.a),
        outcome(delete, made),
        outcome(lambda: made.a),
        sorted(vars(made)),
    ]
    return x + len(found), found


def build_and_read(x: torch.Tensor, found: dict[str, str], fallback: str) -> tuple[torch.Tensor, list[Any]]:
    return read_all(x, build(found, fallback))


def compare(found: dict[str, str], fallback: str = "", here: tuple[bool, ...] = (True, False)) -> None:
    """The trace makes the object with its classes, or it comes from outside."""
    x = torch.ones(2)
    LOG.clear()
    expected, told = read_all(x, build(found, fallback)), list(LOG)
    onegraph.reset()
    for is_made in here:
        LOG.clear()
        if is_made:
            got = onegraph.compile(build_and_read, backend="eager")(x, found, fallback)
        else:
            got = onegraph.compile(read_all, backend="eager")(x, build(found, fallback))
        assert got[1] == expected[1] and torch.equal(got[0], expected[0])
        assert told == LOG


@pytest.mark.parametrize("places", [*itertools.combinations(PLACES, 1), *itertools.combinations(PLACES, 2)])
def test_attributes_are_found_where_python_finds_them(places: tuple[str, ...]) -> None:
    pairs = list(itertools.product(KINDS, repeat=len(places)))
    for number, kinds in enumerate(pairs if len(places) == 1 else pairs[PLACES.index(places[0]) % 3 :: 3]):
        compare(dict(zip(places, kinds, strict=True)), here=(True, False) if len(places) == 1 else (number % 2 == 0,))


@pytest.mark.parametrize("fallback", ["class", "metaclass", "asked class", "asked metaclass"])
def test_what_answers_for_missing_attributes(fallback: str) -> None:
    compare({}, fallback)
    for place, kind in itertools.product(PLACES, KINDS):
        compare({place: kind}, fallback)


def test_a_cached_property_without_a_name() -> None:
    unnamed = functools.cached_property(lambda self: 5)

    def read(x: torch.Tensor) -> tuple[torch.Tensor, Any]:
        return x + 1, outcome(lambda: unnamed.__get__(NonData()))

    x = torch.ones(2)
    assert onegraph.compile(read, backend="eager")(x)[1] == read(x)[1]
