"""Loops of many turns: few graphs, whatever their number, and eager's results."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import onegraph
from onegraph.base import events as ev
from tests.capture.resume.test_breaks import Watch

TURNS = 700


def numbers(x: torch.Tensor) -> torch.Tensor:
    for turn in range(TURNS):
        x = torch.sin(x) * 0.5 + turn
    return x


def called(x: torch.Tensor) -> torch.Tensor:
    return numbers(x) * 2 + numbers(x + 1)


def items(x: torch.Tensor) -> torch.Tensor:
    state = torch.zeros(8)
    for turn in range(TURNS):
        state = torch.tanh(state * 0.5 + x[turn % 4] + x[:, turn % 8].sum())
    return state


def while_loop(x: torch.Tensor) -> torch.Tensor:
    turn = 0
    while turn < TURNS:
        x = torch.sin(x) * 0.5 + turn
        turn += 1
    return x


def inside(x: torch.Tensor) -> tuple[torch.Tensor, list[int]]:
    seen = []
    with torch.no_grad():
        for turn, other in enumerate(range(TURNS)):
            try:
                if turn % 7 == 3:
                    continue
                x = torch.sin(x) * 0.5 + other
            finally:
                x = x - 1
        else:
            seen.append(turn)
    return x, seen


def in_place(x: torch.Tensor) -> torch.Tensor:
    y = x.clone()
    for turn in range(TURNS):
        y.mul_(0.99).add_(turn * 0.001)
        y[turn % 4] = turn
    return y


@pytest.mark.parametrize("function", [numbers, called, items, while_loop, inside, in_place])
def test_a_long_loop_takes_few_graphs(function: Callable[[torch.Tensor], Any]) -> None:
    x = torch.randn(4, 8)
    compiled = onegraph.compile(function, backend="eager")
    with Watch() as watch:
        results = [compiled(x) for _ in range(2)]
    assert "long-loop" in {event.code for event in watch.of(ev.GraphBroken)}
    for result in results:
        torch.testing.assert_close(result, function(x))
    assert len(watch.graphs) <= 12
    assert max(watch.graphs) < 60


class Layers(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = torch.nn.ModuleList(torch.nn.Linear(4, 4) for _ in range(220))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = layer(x)
        return x


class NumberedLayers(Layers):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for number, (layer, name) in enumerate(zip(self.layers, map(str, range(220)), strict=True)):
            x = layer(x) + number + len(name)
        return x


def whole(compiled: Callable[..., Any], *args: Any) -> int:
    with Watch() as watch:
        compiled(*args)
    return len(watch.graphs)


def test_loops_that_are_unrolled() -> None:
    options = {"loop_limit": 100}
    x = torch.randn(4, 8)
    with torch.no_grad():
        for layers in (Layers(), NumberedLayers()):
            assert whole(onegraph.compile(layers, backend="eager", options=options), torch.randn(2, 4)) == 1
    assert whole(onegraph.compile(numbers, backend="eager", fullgraph=True), x) == 1
    assert whole(onegraph.compile(numbers, backend="eager", options={"loop_limit": 10_000}), x) == 1
    recorded = torch.randn(4, 8, requires_grad=True)
    assert whole(onegraph.compile(numbers, backend="eager"), recorded) == 1


def test_a_loop_in_a_function_that_is_called_is_unrolled_where_breaks_may_not_be_in_it() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        with onegraph.disable_nested_graph_breaks():
            return numbers(x) * 2

    x = torch.randn(4, 8)
    with Watch() as watch:
        found = onegraph.compile(function, backend="eager")(x)
    torch.testing.assert_close(found, function(x))
    assert "long-loop" not in {event.code for event in watch.of(ev.GraphBroken)} and len(watch.graphs) == 1
