"""What a graph writes to its inputs is written there by its kernels, where nothing needs the old values later."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import nullcontext
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


def attended(keys: Tensor, values: Tensor, new: Tensor, place: Tensor) -> Tensor:
    keys.index_copy_(1, place, new)
    values.index_copy_(1, place, new + 1)
    return (new @ keys.transpose(1, 2)).softmax(-1) @ values


def attended_to_old(keys: Tensor, values: Tensor, new: Tensor, place: Tensor) -> Tensor:
    old = keys @ keys.transpose(1, 2)
    values.index_copy_(1, place, old[:, :1, :4] + new)
    keys.index_copy_(1, place, new)
    return keys @ values.transpose(1, 2) + old


def looked_at_between(keys: Tensor, values: Tensor, new: Tensor, place: Tensor) -> Tensor:
    keys.index_copy_(1, place, new)
    seen = keys @ values.transpose(1, 2)
    keys.index_copy_(1, place + 1, new * 2)
    return seen + keys @ values.transpose(1, 2)


def added_to(keys: Tensor, values: Tensor, new: Tensor, place: Tensor) -> Tensor:
    keys.index_add_(1, place, new)
    values.add_(1)
    return keys @ values.transpose(1, 2)


@pytest.mark.parametrize("program", [attended, attended_to_old, looked_at_between, added_to])
def test_caches_that_libraries_read(program: Callable[..., Tensor]) -> None:
    """A place that is not there: what was written before the error was written once."""
    theirs, ours = ([torch.ones(2, 6, 4) for _ in range(2)] for _ in range(2))
    compiled = onegraph.compile(program, fullgraph=True)
    with torch.no_grad():
        for place in (0, 3, 2, 17, 4):
            given = torch.full((2, 1, 4), place / 9), torch.tensor([place])
            if place < 6:
                torch.testing.assert_close(compiled(*ours, *given), program(*theirs, *given))
            else:
                for function, caches in ((program, theirs), (compiled, ours)):
                    pytest.raises(IndexError, function, *caches, *given)
            torch.testing.assert_close(ours, theirs)


def test_a_cache_that_a_library_reads_is_not_copied() -> None:
    """Libraries that are called later, with weights packed for them, fail for want of memory only."""
    layer = torch.nn.Linear(4, 4)

    def projected(*given: Tensor) -> Any:
        return layer(attended(*given))

    with recording(EVENTS, (MemoryPlanned,)) as recorded, torch.no_grad():
        caches = [torch.ones(2, 6, 4) for _ in range(2)]
        compiled = onegraph.compile(projected, fullgraph=True, options={"library_calls": "packed"})
        compiled(*caches, torch.ones(2, 1, 4), torch.tensor([1]))
    lines = str(recorded[-1].event.text()).splitlines()
    assert any("recipe" in line or "packed" in line for line in lines)
    assert not any("alloc" in line and "[2, 6, 4]" in line for line in lines)


def test_what_is_written_before_an_error_is_written_once() -> None:
    def counted(count: Tensor, cache: Tensor, place: Tensor) -> Tensor:
        count.add_(1)
        cache.index_copy_(0, place, torch.ones(1))
        return count.sum()

    theirs, ours = ((torch.zeros(4), torch.zeros(8)) for _ in range(2))
    compiled = onegraph.compile(counted, fullgraph=True)
    for place in (3, 9):
        for function, tensors in ((counted, theirs), (compiled, ours)):
            with pytest.raises(IndexError) if place == 9 else nullcontext():
                function(*tensors, torch.tensor([place]))
        torch.testing.assert_close(ours, theirs)
