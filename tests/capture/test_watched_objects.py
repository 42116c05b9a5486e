"""Objects that the program sees dying, by a finalizer or a weak reference, die when they do in eager mode."""

from __future__ import annotations

import contextlib
import inspect
import logging
import weakref
from collections.abc import Callable
from typing import Any

import pytest
import torch

import onegraph
from onegraph.base import events as ev
from tests.capture.test_breaks import Watch

LOG: list[Any] = []
HELD: list[Any] = []


class Loud:
    def __init__(self, name: str) -> None:
        self.name = name

    def scaled(self, x: torch.Tensor) -> torch.Tensor:
        return x * len(self.name)

    def __del__(self) -> None:
        LOG.append(self.name)


class Plain:
    def scaled(self, x: torch.Tensor) -> torch.Tensor:
        return x * 2


@torch.compiler.disable
def loud(name: str) -> Loud:
    return Loud(name)


def generated(x):
    try:
        yield x
    finally:
        LOG.append("generator")


def returning(x):
    def inner(x):
        first = loud("first")  # noqa: F841
        second = generated(x)
        third = loud("third")  # noqa: F841
        return next(second) + 1

    x = inner(x)
    LOG.append("behind")
    return x


def bound_again(x):
    def inner(x):
        thing = loud("first")
        x = x + 1
        thing = loud("second")
        LOG.append("between")
        thing = None  # noqa: F841
        LOG.append("behind")
        return x

    return inner(x) * 2


def handed_on(x):
    def inner(x, thing):
        thing = None  # noqa: F841
        LOG.append("inner")
        return x + 1

    x = inner(x, loud("first"))
    LOG.append("behind")
    return x


def in_a_list(x):
    def inner(x, thing):
        things = [thing]
        thing = None  # noqa: F841
        LOG.append("inner")
        things = None  # noqa: F841
        LOG.append("things")
        return x + 1

    return inner(x, loud("first"))


def in_a_closure(x):
    def inner(x):
        thing = loud("first")
        return (lambda: x + len(str(type(thing))))()

    x = inner(x)
    LOG.append("behind")
    return x


def emptied(x):
    HELD.append(loud("held"))
    x = x + 1
    HELD.clear()
    LOG.append("behind")
    return x


def in_a_traceback(x):
    def inner(x):
        thing = loud("first")  # noqa: F841
        raise ValueError

    with contextlib.suppress(ValueError):
        inner(x)
    LOG.append("behind")
    return x + 1


PROGRAMS = (returning, bound_again, handed_on, in_a_list, in_a_closure, emptied, in_a_traceback)


def run(function: Callable[..., Any]) -> list[Any]:
    seen = []
    for _ in range(3):
        LOG.clear()
        seen.append((function(torch.ones(2)).tolist(), list(LOG)))
    return seen


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_what_is_dropped_dies_when_it_does_in_eager_mode(program: Callable[..., Any]) -> None:
    with Watch() as watch:
        found = run(onegraph.compile(program, backend="eager"))
    assert found == run(program)
    skipped = [event for event in watch.of(ev.FrameSkipped) if event.frame.function != "__del__"]
    assert all(event.reason.startswith("it raises ValueError") for event in skipped)


def test_what_is_held_elsewhere_breaks_nothing() -> None:
    def f(x, thing):
        x = thing.scaled(x)
        onegraph.graph_break()
        other = thing
        other = None  # noqa: F841
        return thing.scaled(x)

    thing = Plain()
    watching = weakref.ref(thing, LOG.append)
    with Watch() as watch:
        onegraph.compile(f, backend="eager")(torch.ones(2), thing)
    assert [event.code for event in watch.of(ev.GraphBroken)] == ["forced-graph-break"] and watching() is thing


def test_who_calls_the_whole_graph_holds_its_arguments() -> None:
    def f(x, thing):
        thing = None  # noqa: F841
        return x + 1

    thing = Plain()
    watching = weakref.ref(thing, LOG.append)
    onegraph.compile(f, backend="eager", fullgraph=True)(torch.ones(2), thing)
    assert watching() is thing


def test_our_own_references_watch_nothing() -> None:
    class Counting(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.count = 0

        def forward(self, x):
            self.count += 1
            return x * self.count

    def f(x, module):
        x = module(x)
        onegraph.graph_break()
        module = None  # noqa: F841
        return x + 1

    module = Counting()
    compiled = onegraph.compile(f, backend="eager")
    with Watch() as watch:
        for _ in range(4):
            compiled(torch.ones(2), module)
    assert {event.code for event in watch.of(ev.GraphBroken)} == {"forced-graph-break"}


def total(values):
    return sum(values)


def test_what_a_module_has_is_not_let_go_of_with_a_variable_that_holds_its_names() -> None:
    """`inspect.signature` has the names of a function's module in a variable; here, a handler in them is watched."""

    class Processor:
        def __call__(self, x, scale: float = 1.0):
            return x

    class Model(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.processor, self.other = Processor(), OTHER

        def forward(self, x):
            offset = total(i for i in range(2))
            return x + offset + len(inspect.signature(self.processor.__call__).parameters)

    x = torch.ones(2)
    with Watch() as watch:
        assert torch.equal(onegraph.compile(Model(), backend="eager")(x), x + 3)
    assert watch.of(ev.GraphBroken) == []


HANDLER = logging.StreamHandler()
OTHER = Plain()
WATCHING = weakref.ref(OTHER)
