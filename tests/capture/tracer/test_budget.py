"""A trace without an end in sight is given up: what it is too long for runs eagerly, the rest is compiled."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest
import torch

import onegraph
from onegraph.base import events as ev
from tests.capture.resume.test_breaks import Watch

SHORT: dict[str, Any] = {"backend": "eager", "options": {"trace_limit": 20_000}}


def count_to(steps: int) -> int:
    total = 0
    for number in range(steps):
        total += number
    return total


def test_a_long_loop_in_a_function_that_is_called_runs_eagerly() -> None:
    def f(x: torch.Tensor, steps: int) -> torch.Tensor:
        return x * 2 + count_to(steps)

    x = torch.ones(3)
    with Watch() as watch:
        found = onegraph.compile(f, **SHORT)(x, 10_000)
    assert torch.equal(found, f(x, 10_000)) and len(watch.graphs) == 2
    assert {event.code for event in watch.of(ev.GraphBroken)} == {"long-trace"}
    assert [skipped.frame.function for skipped in watch.of(ev.FrameSkipped)] == ["count_to"]


def test_functions_that_a_long_loop_calls_are_compiled() -> None:
    def step(x: torch.Tensor) -> torch.Tensor:
        return x + 1

    def f(x: torch.Tensor) -> torch.Tensor:
        for number in range(10_000):
            if number % 5_000 == 0:
                x = step(x)
        return x

    compiled = onegraph.compile(f, **SHORT)
    with Watch() as watch:
        found = [compiled(torch.ones(3)) for _ in range(3)]
    assert all(torch.equal(each, torch.ones(3) + 2) for each in found)
    assert len(watch.graphs) == 1 and len(watch.of(ev.FrameSkipped)) == 1


def test_a_loop_of_operations_ends_somewhere() -> None:
    def f(x: torch.Tensor) -> torch.Tensor:
        for _ in range(500):
            x = x + 1
        return x

    with Watch() as watch:
        assert torch.equal(onegraph.compile(f, **SHORT)(torch.zeros(2)), torch.full((2,), 500.0))
    assert not watch.graphs
    with pytest.raises(onegraph.GraphBreakError, match="more than 20000 steps"):
        onegraph.compile(f, fullgraph=True, **SHORT)(torch.zeros(2))


def test_what_must_be_one_graph_may_take_its_time_in_python() -> None:
    def f(x: torch.Tensor) -> torch.Tensor:
        return x + count_to(2_000)

    x = torch.zeros(2)
    assert torch.equal(onegraph.compile(f, fullgraph=True, **SHORT)(x), f(x))


def test_what_takes_long_at_the_first_call_only_is_compiled_later() -> None:
    table: list[int] = []

    def f(x: torch.Tensor) -> torch.Tensor:
        if not table:
            for number in range(10_000):
                table.append(number)
        return x + table[7]

    compiled = onegraph.compile(f, **SHORT)
    with Watch() as watch:
        assert [compiled(torch.zeros(1)).item() for _ in range(3)] == [7, 7, 7]
    assert len(watch.graphs) == 1 and len(table) == 10_000


@pytest.mark.parametrize("fullgraph", [False, True])
def test_a_container_of_many_objects_is_not_guarded(fullgraph: bool) -> None:
    numbers = list(range(70_000))

    def f(x: torch.Tensor) -> torch.Tensor:
        return x + sum(numbers)

    x = torch.zeros(2)
    if fullgraph:
        with pytest.raises(onegraph.GraphBreakError, match="more than 65000 objects"):
            onegraph.compile(f, fullgraph=True, backend="eager")(x)
    else:
        began = time.process_time()
        assert torch.equal(onegraph.compile(f, backend="eager")(x), f(x))
        assert time.process_time() - began < 30


def test_many_values_are_not_written_out() -> None:
    def f(x: torch.Tensor) -> tuple[torch.Tensor, list[int]]:
        return x + 1, list(range(1_000_000))

    found, numbers = onegraph.compile(f, backend="eager")(torch.zeros(2))
    assert torch.equal(found, torch.ones(2)) and len(numbers) == 1_000_000


@pytest.mark.timeout(60)
def test_many_items_of_an_iterator_from_outside_take_linear_time() -> None:
    def f(x: torch.Tensor, items: Iterator[int]) -> torch.Tensor:
        return x + sum(list(items))

    x = torch.zeros(1)
    found = onegraph.compile(f, backend="eager")(x, iter(range(10_000)))
    assert torch.equal(found, f(x, iter(range(10_000))))
