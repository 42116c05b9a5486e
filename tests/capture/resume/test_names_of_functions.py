"""What functions, methods and properties that a program makes say of themselves, across a graph break."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import pytest
import torch

import onegraph


def break_here(x: torch.Tensor) -> None:
    x.sum().item()


def written(x):
    def first():
        "own"

    def second():
        pass

    first.__doc__, second.__doc__ = None, "new"
    first.__module__, second.__module__ = "elsewhere", None
    first.__qualname__ = "named"
    break_here(x)
    return [(each.__doc__, each.__module__, each.__qualname__) for each in (first, second)]


def wrapped(x):
    def inner():
        "of the inner one"

    @functools.wraps(inner)
    def outer():
        return inner()

    break_here(x)
    return outer.__doc__, outer.__name__, outer.__module__, outer.__wrapped__ is inner


def in_methods(x):
    def inner(_):
        "of the function"

    @functools.wraps(inner)
    def outer(_):
        return inner(_)

    methods = classmethod(outer), staticmethod(outer)
    outer.__doc__ = "changed"
    break_here(x)
    return [
        (each.__doc__, each.__func__.__doc__, each.__func__ is outer, each.__wrapped__ is outer) for each in methods
    ]


def in_properties(x):
    def getter(_):
        "of the getter"

    plain = property(getter)
    told = property(getter, doc="told")
    both = plain.setter(lambda self, value: None)
    later = property(getter)
    later.__doc__ = "later"
    break_here(x)
    made = plain, told, both, later
    return [(each.__doc__, each.fget is getter, each.fset is None) for each in made]


def reading_in_a_property(x):
    scaled = property(lambda self: x * 2)
    break_here(x)
    return (scaled.fget(None) + 1).tolist()


def of_a_tensor(x):
    object.__setattr__(x, "label", "input")
    y = x + 1
    torch.Tensor.__setattr__(y, "label", "result")
    return x.label, y.label, x.__dict__


PROGRAMS = (written, wrapped, in_methods, in_properties, reading_in_a_property, of_a_tensor)


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_it_is_what_it_is_in_eager_mode(program: Callable[..., Any]) -> None:
    compiled = onegraph.compile(program, backend="eager", options={"raise_compiler_errors": True})
    for _ in range(2):
        x = torch.rand(3)
        assert compiled(x.clone()) == program(x.clone())
