"""Classes have objects in the place of functions: as special methods, and in properties, class and static methods."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import pytest
import torch

import onegraph


class Recording:
    """Counts its calls: what happens to it while tracing shows."""

    def __init__(self) -> None:
        self.calls = 0
        self.given = 0

    def __call__(self, *args: Any) -> int:
        self.calls += 1
        self.given = len(args)
        return self.calls


Use = Callable[[Any, Any], Any]


def same_calls(recording: Recording, make: Callable[[], Any], use: Use) -> None:
    """A compiled function uses objects of a new class twice as the plain one does."""
    outcomes = []
    for compiled in (False, True):
        recording.calls = recording.given = 0
        cls = make()
        made, other = cls(), cls()

        def f(x: torch.Tensor, made: Any = made, other: Any = other) -> Any:
            y = x + 1
            return use(made, other), recording.calls, recording.given, y.sum().item()

        run = onegraph.compile(f, backend="eager") if compiled else f
        outcomes.append(([run(torch.ones(2)) for _ in range(2)], recording.calls))
    assert outcomes[0] == outcomes[1]


def with_special(recording: Recording, *names: str) -> Callable[[], type]:
    return lambda: type("Special", (), dict.fromkeys(names, recording))


def written(value: Any, _: Any) -> None:
    value.name = 3


def deleted(value: Any, _: Any) -> None:
    del value.name


def entered(value: Any, _: Any) -> str:
    with value:
        return "inside"


SPECIAL: dict[str, tuple[tuple[str, ...], Use]] = {
    "getattr": (("__getattr__",), lambda a, b: a.name),
    "setattr": (("__setattr__",), written),
    "delattr": (("__delattr__",), deleted),
    "len": (("__len__",), lambda a, b: len(a)),
    "truth": (("__len__",), lambda a, b: bool(a)),
    "contains": (("__contains__",), lambda a, b: 1 in a),
    "add": (("__add__",), lambda a, b: a + b),
    "reflected": (("__radd__",), lambda a, b: 1 + a),
    "negative": (("__neg__",), lambda a, b: -a),
    "item": (("__getitem__",), lambda a, b: a[1]),
    "equal": (("__eq__",), lambda a, b: a == 1),
    "call": (("__call__",), lambda a, b: a(1)),
    "with": (("__enter__", "__exit__"), entered),
    "index": (("__index__",), lambda a, b: [1, 2, 3, 4, 5][a]),
    "int": (("__int__",), lambda a, b: int(a)),
    "hash": (("__hash__",), lambda a, b: hash(a)),
    "key": (("__hash__",), lambda a, b: len({a: 1})),
    "next": (("__next__",), lambda a, b: next(a)),
    "made": (("__len__",), lambda a, b: len(type(a)())),
}


@pytest.mark.parametrize("name", SPECIAL)
def test_special_methods(name: str) -> None:
    names, use = SPECIAL[name]
    recording = Recording()
    same_calls(recording, with_special(recording, *names), use)


DESCRIPTORS: dict[str, tuple[tuple[str, ...], Use]] = {
    "get": (("__get__",), lambda a, b: a.name),
    "get of a class": (("__get__",), lambda a, b: type(a).name),
    "get of data": (("__get__", "__set__"), lambda a, b: a.name),
    "set": (("__set__",), written),
    "delete": (("__delete__",), deleted),
}


@pytest.mark.parametrize("name", DESCRIPTORS)
def test_methods_of_descriptors(name: str) -> None:
    names, use = DESCRIPTORS[name]
    recording = Recording()
    descriptor = with_special(recording, *names)
    same_calls(recording, lambda: type("Owner", (), {"name": descriptor()()}), use)


WRAPPED: dict[str, tuple[Callable[[Any], Any], Use]] = {
    "property": (property, lambda a, b: a.name),
    "written property": (lambda function: property(None, function), written),
    "deleted property": (lambda function: property(None, None, function), deleted),
    "static method": (staticmethod, lambda a, b: a.name(1)),
    "static method of a class": (staticmethod, lambda a, b: type(a).name(1)),
    "class method": (classmethod, lambda a, b: a.name(1)),
    "class method of a class": (classmethod, lambda a, b: type(a).name(1)),
    "cached function": (functools.lru_cache, lambda a, b: (a.name(1), a.name(2))),
    "partial function": (functools.partial, lambda a, b: a.name(1)),
    "partial method": (functools.partialmethod, lambda a, b: a.name(1)),
    "object": (lambda function: function, lambda a, b: a.name(1)),
}


@pytest.mark.parametrize("name", WRAPPED)
def test_what_a_class_wraps(name: str) -> None:
    wrap, use = WRAPPED[name]
    recording = Recording()
    same_calls(recording, lambda: type("Owner", (), {"name": wrap(recording)}), use)


@pytest.mark.parametrize("name", ["property", "static method", "object"])
def test_what_a_metaclass_wraps(name: str) -> None:
    wrap, use = WRAPPED[name]
    recording = Recording()

    def make() -> type:
        return type("Meta", (type,), {"name": wrap(recording)})("Owner", (), {})

    same_calls(recording, make, lambda a, b: use(type(a), b))
