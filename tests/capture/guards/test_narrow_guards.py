"""What a program does not ask for is not guarded: other attributes of an object, other keys of a registry."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import onegraph
from onegraph.base import events as ev
from tests.capture.resume.test_breaks import Watch

X = torch.ones(2)


class Noisy:
    """Has attributes that change with each call."""

    note = "a"
    seen: Any = ()


class Asked(Noisy):
    def __init__(self) -> None:
        self.data = [1, 2, 3]

    def __getitem__(self, key):
        return self.data[key]

    def __setitem__(self, key, value):
        self.data[key] = value

    def __delitem__(self, key):
        pass

    def __contains__(self, key):
        return key == self.data[1]

    def __iter__(self):
        yield self.data[0]

    def __add__(self, other):
        return self.data[0]

    def __neg__(self):
        return self.data[1]


class Items(list, Noisy):
    def __getitem__(self, key):
        return super().__getitem__(key)

    def __contains__(self, key):
        return key == 2


class Table(dict, Noisy):
    pass


class Registry(dict, Noisy):
    def get(self, key, default=None):
        return super().get(key, default)

    def __getitem__(self, key):
        return super().__getitem__(key)

    def __contains__(self, key):
        return super().__contains__(key)

    def __setitem__(self, key, value):
        super().__setitem__(key, value)


def writes(o, x):
    o[0] = 1
    return x + o[0]


def deletes(o, x):
    del o[0]
    return x + 1


PROGRAMS: dict[str, tuple[Callable[[], Any], Callable[[Any, Any], Any]]] = {
    "item": (Asked, lambda o, x: x + o[0]),
    "membership": (Asked, lambda o, x: x + (2 in o)),
    "iteration": (Asked, lambda o, x: x + sum(o)),
    "write": (Asked, writes),
    "deletion": (Asked, deletes),
    "operator": (Asked, lambda o, x: x + (o + 1)),
    "sign": (Asked, lambda o, x: x + (-o)),
    "item of a list": (lambda: Items([1, 2, 3]), lambda o, x: x + o[0]),
    "membership in a list": (lambda: Items([1, 2, 3]), lambda o, x: x + (2 in o)),
    "item of a dict": (lambda: Table(a=2, b=3), lambda o, x: x + o["b"]),
    "items of a dict": (lambda: Table(a=2, b=3), lambda o, x: x + sum(v for k, v in o.items() if k == "b")),
    "length of a dict": (lambda: Table(a=2, b=3), lambda o, x: x + len(o)),
    "item of a registry": (lambda: Registry(a=2, b=3), lambda o, x: x + o["b"]),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_attributes_that_nobody_asks_for(name: str) -> None:
    make, program = PROGRAMS[name]
    o, other = make(), make()
    with Watch() as watch:
        compiled = onegraph.compile(program, fullgraph=True)
        for number in range(5):
            for each in (o, other):
                each.note, each.seen = "a" * number, [number]
            assert torch.equal(compiled(o, X), program(other, X))
    assert len(watch.of(ev.GraphCaptured)) == 1


@pytest.mark.parametrize("ask", [lambda o, k: o.get(k, 0), lambda o, k: o[k], lambda o, k: k in o], ids=range(3))
def test_keys_that_nobody_asks_for(ask: Callable[[Any, Any], Any]) -> None:
    registry: Any = Registry({Asked: 3})

    def program(x):
        return x + ask(registry, Asked)

    with Watch() as watch:
        compiled = onegraph.compile(program, fullgraph=True)
        for number in range(12):
            registry[type(f"Other{number}", (), {})] = number
            assert torch.equal(compiled(X), program(X))
        assert len(watch.of(ev.GraphCaptured)) == 1
        registry[Asked] = 5
        assert torch.equal(compiled(X), program(X))


def test_wrappers_that_a_library_makes_anew_are_the_same_to_guards() -> None:
    """Some torch gives each of them a copy of its code."""

    def program(x, function):
        return function(x) + 1

    with Watch() as watch:
        compiled = onegraph.compile(program, fullgraph=True)
        for _ in range(5):
            x = torch.ones(2, requires_grad=True)
            found = compiled(x, torch.no_grad()(lambda x: x * 2))
            assert found.tolist() == [3.0] * 2 and not found.requires_grad
        assert len(watch.of(ev.GraphCaptured)) == 1
        assert compiled(x, torch.enable_grad()(lambda x: x * 3)).requires_grad
