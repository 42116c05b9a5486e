"""Tensors that the program replaces by others of another size: their sizes are symbols from the first time on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

import onegraph
from onegraph.base import events as ev
from tests.capture.resume.test_breaks import Watch


class Holder:
    def __init__(self, keys: Tensor) -> None:
        self.keys = keys


def attribute() -> tuple[Callable[[Tensor], Tensor], Callable[[], Tensor]]:
    holder = Holder(torch.arange(6.0).view(2, 3))

    def step(x: Tensor) -> Tensor:
        holder.keys = torch.cat([holder.keys, x], 1)
        return holder.keys.softmax(1).sum(0) if holder.keys.shape[1] < 100 else x

    return step, lambda: holder.keys


def item() -> tuple[Callable[[Tensor], Tensor], Callable[[], Tensor]]:
    kept = [torch.zeros(2), torch.arange(6.0).view(2, 3)]

    def step(x: Tensor) -> Tensor:
        kept[1] = torch.cat([kept[1], x], -1)
        return kept[1].mean() + kept[0]

    return step, lambda: kept[1]


def buffer() -> tuple[Callable[[Tensor], Tensor], Callable[[], Tensor]]:
    module = torch.nn.Module()
    module.register_buffer("seen", torch.arange(12.0).view(2, 6))

    def step(x: Tensor) -> Tensor:
        module.seen = torch.cat([module.seen, x, x], 1)
        return module.seen.cumsum(1)[:, -1]

    return step, lambda: module.seen


def cell() -> tuple[Callable[[Tensor], Tensor], Callable[[], Tensor]]:
    window = torch.arange(80.0).view(2, 40)

    def step(x: Tensor) -> Tensor:
        nonlocal window
        window = window[:, 1:].clone()
        return window + x

    return step, lambda: window


@pytest.mark.parametrize("make", [attribute, item, buffer, cell])
@pytest.mark.parametrize("backend", ["eager", "native"])
def test_a_size_that_the_program_changes_has_one_version(make: Callable[[], Any], backend: str) -> None:
    (step, state), (eager, expected) = make(), make()
    compiled = onegraph.compile(step, fullgraph=True, backend=backend)
    with Watch() as watch, torch.no_grad():
        for n in range(12):
            x = torch.full((2, 1), float(n))
            torch.testing.assert_close(compiled(x), eager(x))
            assert torch.equal(state(), expected())
    assert len(watch.of(ev.GraphCaptured)) == 1


def test_before_a_graph_break() -> None:
    holder = Holder(torch.zeros(2, 3))

    @onegraph.compile
    def step(x: Tensor) -> Tensor:
        holder.keys = torch.cat([holder.keys, x], 1)
        onegraph.graph_break()
        return holder.keys.sum() + 1

    with Watch() as watch:
        for n in range(5):
            assert step(torch.ones(2, 1)) == 2 * (n + 1) + 1
    assert len(watch.of(ev.GraphCaptured)) == 3  # the second part sees another size, and changes none


def test_sizes_of_one_and_other_ranks_stay_as_they_are() -> None:
    holder = Holder(torch.zeros(2, 1))

    @onegraph.compile
    def step(x: Tensor) -> Tensor:
        holder.keys = torch.cat([holder.keys, x], 1) if holder.keys.shape[1] < 4 else holder.keys.sum(1)
        return holder.keys + 1

    eager = Holder(torch.zeros(2, 1))
    for _ in range(4):
        wide = eager.keys.shape[1] < 4
        eager.keys = torch.cat([eager.keys, torch.ones(2, 1)], 1) if wide else eager.keys.sum(1)
        assert torch.equal(step(torch.ones(2, 1)), eager.keys + 1)


def test_known_sizes_where_they_are_asked_for() -> None:
    holder = Holder(torch.zeros(2, 3))

    @onegraph.compile(dynamic=False)
    def step(x: Tensor) -> Tensor:
        holder.keys = torch.cat([holder.keys, x], 1)
        return holder.keys.sum()

    with Watch() as watch:
        for _ in range(3):
            step(torch.ones(2, 1))
    assert len(watch.of(ev.GraphCaptured)) == 3
