"""What a graph writes to its inputs is written there by its kernels, where nothing needs the old values later."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

import onegraph
from onegraph.base.events import MemoryPlanned
from onegraph.compile import EVENTS
from onegraph.tools.record import recording


def scaled(x: Tensor, y: Tensor) -> Any:
    x.mul_(2).add_(y)


def scaled_and_used(x: Tensor, y: Tensor) -> Any:
    x.mul_(2).add_(y)
    return x * y


def used_before(x: Tensor, y: Tensor) -> Any:
    old = x + y
    x.mul_(2)
    return old


def old_elsewhere(x: Tensor, y: Tensor) -> Any:
    old = x.flip(0) * y
    x.mul_(2)
    return old


def transposed(x: Tensor, y: Tensor) -> Any:
    x.copy_(x.t() + y)


def swapped(x: Tensor, y: Tensor) -> Any:
    old = x.clone()
    x.copy_(y * 1.0)
    y.copy_(old)


def crossed(x: Tensor, y: Tensor) -> Any:
    old = x * 1.0
    x.add_(y)
    y.add_(old)


def normalized(x: Tensor, y: Tensor) -> Any:
    x.div_(x.sum(0, keepdim=True) + y)


def shifted(x: Tensor, y: Tensor) -> Any:
    x[1:] += x[:-1] * y[1:]


def returned(x: Tensor, y: Tensor) -> Any:
    x.mul_(2)
    return x, x.clone(), x.view(-1)


def summed(x: Tensor, y: Tensor) -> Any:
    y.add_(x.cumsum(0))
    x.sub_(y.mean())
    return x.max()


PROGRAMS = (
    scaled, scaled_and_used, used_before, old_elsewhere, transposed, swapped, crossed, normalized, shifted, returned,
    summed,
)  # fmt: skip


def inputs(size: int) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    return torch.rand(size, size, generator=generator), torch.rand(size, size, generator=generator)


@pytest.mark.parametrize("size", [5, 300])
@pytest.mark.parametrize("program", PROGRAMS)
def test_is_as_in_eager(program: Callable[..., Any], size: int) -> None:
    theirs, ours = inputs(size), inputs(size)
    places = [tensor.data_ptr() for tensor in ours]
    compiled = onegraph.compile(program, fullgraph=True)
    for _ in range(3):
        expected, found = program(*theirs), compiled(*ours)
        torch.testing.assert_close(found, expected)
        torch.testing.assert_close(ours, theirs)
        assert [tensor._version for tensor in ours] == [tensor._version for tensor in theirs]
    assert [tensor.data_ptr() for tensor in ours] == places


def planned(program: Callable[..., Any]) -> str:
    with recording(EVENTS, (MemoryPlanned,)) as recorded:
        onegraph.compile(program, fullgraph=True)(*inputs(5))
    return str(recorded[-1].event.text())


@pytest.mark.parametrize("program", [scaled, crossed])
def test_no_memory_is_taken(program: Callable[..., Any]) -> None:
    assert "alloc" not in planned(program)


def test_what_is_needed_later_has_its_place() -> None:
    assert "alloc" in planned(transposed)


def test_inputs_are_held_as_often_as_before() -> None:
    x, y = inputs(5)
    compiled = onegraph.compile(scaled, fullgraph=True)
    compiled(x, y)
    before = sys.getrefcount(x), sys.getrefcount(y)
    for _ in range(100):
        compiled(x, y)
    assert (sys.getrefcount(x), sys.getrefcount(y)) == before
