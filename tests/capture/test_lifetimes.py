"""A variable that nothing reads again keeps its value behind a graph break where the program sees the end of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

import onegraph
from onegraph.base import events as ev
from tests.capture.test_breaks import Watch
from tests.capture.twins import logs_of

LOG: list[str] = []


class Loud:
    def __init__(self, name: str) -> None:
        self.name = name

    def __del__(self) -> None:
        LOG.append(self.name)


class Holder:
    held: Any = None

    def fill(self, x: torch.Tensor) -> None:
        break_here(x)
        self.held = waiting()
        break_here(x)


def quiet() -> Iterator[None]:
    try:
        yield
    finally:
        LOG.append("died")


def waiting() -> Iterator[None]:
    made = quiet()
    next(made)
    return made


def break_here(x: torch.Tensor) -> float:
    return x.sum().item()


def in_a_generator(x):
    def holds():
        held = waiting()  # noqa: F841
        break_here(x)
        yield

    made = holds()
    next(made)
    LOG.append("end")


def in_a_generator_that_goes_on(x):
    def holds():
        while True:
            held = Loud("died")  # noqa: F841
            yield break_here(x)

    made = zip(holds(), [1, 2], strict=False)
    next(made)
    LOG.append("between")
    break_here(x)
    LOG.append("end")


def in_a_list(x):
    def fill(things):
        break_here(x)
        things.append(waiting())

    things = []
    fill(things)
    LOG.append("between")
    break_here(x)
    LOG.append("end")


def in_a_dict(x):
    def fill(things):
        break_here(x)
        things["a"] = Loud("died")
        break_here(x)

    things = {}
    fill(things)
    LOG.append("between")
    break_here(x)
    LOG.append("end")


def in_an_object(x):
    holder = Holder()
    holder.fill(x)
    LOG.append("between")
    break_here(x)
    LOG.append("end")


def in_a_list_that_another_held(x):
    things = []
    others = [things]
    break_here(x)
    others[0].append(Loud("died"))
    others.clear()
    LOG.append("between")
    break_here(x)
    LOG.append("end")


def in_a_closure(x):
    def makes():
        held = Loud("died")
        break_here(x)
        return lambda: held

    made = makes()  # noqa: F841
    LOG.append("between")
    break_here(x)
    LOG.append("end")


PROGRAMS = (
    in_a_generator,
    in_a_generator_that_goes_on,
    in_a_list,
    in_a_dict,
    in_an_object,
    in_a_list_that_another_held,
    in_a_closure,
)


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_what_is_put_into_a_value_lives_as_long_as_its_variable(program: Callable[..., Any]) -> None:
    assert logs_of(onegraph.compile(program, backend="eager"), LOG) == logs_of(program, LOG)


def test_what_only_the_dead_variables_hold_is_not_computed_for_them() -> None:
    def f(x):
        parts = []
        for _ in range(3):
            x = torch.sin(x)
            parts.append(x)
        total = torch.cat(parts)
        onegraph.graph_break()
        return total + 1

    with Watch() as watch:
        onegraph.compile(f, backend="eager")(torch.ones(2))
    outputs = [event.module.graph.output_node().args[0] for event in watch.of(ev.GraphCaptured)]
    assert [len(each) for each in outputs] == [1, 1]
