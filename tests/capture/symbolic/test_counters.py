"""Integers that change from call to call are symbols from the second compilation on; those of other objects are not."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import onegraph
from onegraph.base import events as ev
from tests.capture.resume.test_breaks import Watch

TOTAL = 0


class Counting:
    total = 0

    def __init__(self, width: int = 3) -> None:
        self.calls = 0
        self.table = {"calls": 0}
        self.width = width


class Model(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(3, 3)
        self.calls = 0

    def forward(self, x):
        self.calls += 1
        return self.linear(x) * self.calls


def only_counted(it, x):
    it.calls += 1
    return x * 2


def an_attribute(it, x):
    it.calls += 1
    return x * it.calls


def an_item(it, x):
    it.table["calls"] += 1
    return x * it.table["calls"]


def a_global(it, x):
    global TOTAL
    TOTAL += 1
    return x + TOTAL


def a_class(it, x):
    type(it).total += 1
    return x + Counting.total


def a_size(it, x):
    it.calls += 1
    return torch.arange(it.calls) + x.sum()


def a_text(it, x):
    it.calls += 1
    it.name = f"call {it.calls}"
    return x * 2


def a_range(it, x):
    it.calls += 1
    for i in range(it.calls):
        x = x + i
    return x


def an_index(it, x):
    it.calls += 1
    return x * [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13][it.calls]


def every_third(it, x):
    it.calls += 1
    if it.calls % 3 == 0:
        x = x + 1
    return x * 2


def run(function: Any, calls: int) -> tuple[Any, ...]:
    global TOTAL
    TOTAL = Counting.total = 0
    it = Counting()
    results = [function(it, torch.ones(3)).tolist() for _ in range(calls)]
    return results, vars(it), TOTAL, Counting.total, type(it.calls)


@pytest.mark.parametrize("backend", ["eager", "native"])
@pytest.mark.parametrize("program", [only_counted, an_attribute, an_item, a_global, a_class, a_size])
def test_a_counter_is_compiled_twice(program: Any, backend: str) -> None:
    onegraph.reset()
    with Watch() as watch:
        seen = run(onegraph.compile(program, backend=backend), 12)
    assert seen == run(program, 12)
    assert len(watch.graphs) == 2
    assert not watch.of(ev.RecompileLimitReached)


def test_what_is_asked_of_a_counter_is_a_guard() -> None:
    onegraph.reset()
    with Watch() as watch:
        seen = run(onegraph.compile(every_third, backend="eager", fullgraph=True), 12)
    assert seen == run(every_third, 12)
    assert len(watch.graphs) == 3


@pytest.mark.parametrize("program", [a_text, a_range, an_index])
def test_what_needs_the_digits_is_compiled_for_each_number(program: Any) -> None:
    onegraph.reset()
    with Watch() as watch:
        seen = run(onegraph.compile(program, backend="eager", fullgraph=True), 6)
    assert seen == run(program, 6)
    assert len(watch.graphs) == 6


def test_an_argument_that_changes() -> None:
    onegraph.reset()
    compiled = onegraph.compile(lambda x, n: x * n + n // 2, backend="eager", fullgraph=True)
    with Watch() as watch:
        for n in (3, 5, 7, 0, 1, 100):
            assert torch.equal(compiled(torch.ones(2), n), torch.ones(2) * n + n // 2)
    assert len(watch.graphs) == 2
    assert torch.equal(compiled(torch.ones(2), -3), torch.ones(2) * -3 - 2)
    assert torch.equal(compiled(torch.ones(2), True), torch.ones(2))


def test_a_counter_of_a_module() -> None:
    onegraph.reset()
    model, twin = Model(), Model()
    twin.load_state_dict(model.state_dict())
    compiled = onegraph.compile(model, backend="eager", fullgraph=True)
    with Watch() as watch:
        for _ in range(6):
            x = torch.rand(2, 3)
            assert torch.equal(compiled(x), twin(x))
    assert model.calls == twin.calls == 6
    assert len(watch.graphs) == 2


def test_numbers_of_different_objects_stay_constants() -> None:
    """One function for layers of different widths: each has its own version."""

    def widen(it, x):
        return x.expand(it.width, 2) + 1

    onegraph.reset()
    compiled = onegraph.compile(widen, backend="eager")
    layers = [Counting(width) for width in (3, 4, 5)]
    with Watch() as watch:
        for layer in layers:
            assert compiled(layer, torch.ones(1, 2)).shape == (layer.width, 2)
    assert len(watch.graphs) == 3
    calls = [node for event in watch.of(ev.GraphCaptured) for node in event.module.graph.find_nodes(op="call_method")]
    assert all(type(size) is int for node in calls for size in node.meta["example_value"].shape)


def test_a_number_that_does_not_change_any_more_is_the_result_of_its_own_call() -> None:
    def f(it, x):
        it.calls += 1
        return it.calls, x + it.calls

    onegraph.reset()
    compiled = onegraph.compile(f, backend="eager")
    it = Counting()
    numbers = [compiled(it, torch.zeros(1))[0] for _ in range(5)]
    assert numbers == [1, 2, 3, 4, 5] and all(type(number) is int for number in numbers)


def test_no_symbols_without_dynamic_shapes() -> None:
    onegraph.reset()
    with Watch() as watch:
        assert run(onegraph.compile(an_attribute, backend="eager", dynamic=False), 4) == run(an_attribute, 4)
    assert len(watch.graphs) == 4
