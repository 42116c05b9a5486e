"""Weights in large pages are the program's own, wherever they lie."""

from __future__ import annotations

import gc

import pytest
import torch
from torch import nn

import onegraph
from onegraph import _C

PAGE = 2 << 20


@pytest.mark.parametrize("size", [0, 1, 4096, PAGE - 1, PAGE, 3 * PAGE + 17])
def test_memory_keeps_its_contents(size: int) -> None:
    before = torch.randint(0, 256, (size + 64,), dtype=torch.uint8)
    memory = before.clone()
    address = memory.data_ptr()
    moved = _C.move_to_large_pages(address + 64, size)
    assert moved % PAGE == 0 and moved <= size + 2 * PAGE
    assert memory.data_ptr() == address and torch.equal(memory, before)
    _C.prefer_large_pages(address, size)
    assert torch.equal(memory, before)


def test_memory_that_is_not_there_is_no_error() -> None:
    assert _C.move_to_large_pages(PAGE, 4 * PAGE) == 0
    _C.prefer_large_pages(PAGE, 4 * PAGE)


class Step(nn.Module):
    """One row through a weight with a row for each column of the result, and one with a column."""

    def __init__(self) -> None:
        super().__init__()
        self.wide = nn.Linear(512, 2048)
        self.tall = nn.Parameter(torch.randn(2048, 512) / 50)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.wide(x)) @ self.tall


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("freeze", [False, True])
def test_weights_are_read_where_they_are(dtype: torch.dtype, freeze: bool) -> None:
    model = Step().to(dtype)
    places = [weight.data_ptr() for weight in model.parameters()]
    compiled = onegraph.compile(model, options={"large_pages": True, "freeze_parameters": freeze})
    x = torch.randn(1, 512, dtype=dtype)
    close = {"rtol": 1e-4, "atol": 1e-4} if dtype is torch.float32 else {"rtol": 2e-2, "atol": 2e-2}
    with torch.no_grad():
        torch.testing.assert_close(compiled(x), model(x), **close)
        assert [weight.data_ptr() for weight in model.parameters()] == places
        for weight in model.parameters():
            weight.mul_(2)
            torch.testing.assert_close(compiled(x), model(x), **close)
        model.wide.weight.data = torch.randn_like(model.wide.weight) / 20
        torch.testing.assert_close(compiled(x), model(x), **close)
        model.wide.weight.data.fill_(0.5)  # which no version shows, and nothing needs to
        torch.testing.assert_close(compiled(x), model(x), **close)
    onegraph.reset()


def test_equal_weights_are_two() -> None:
    first, second = nn.Linear(256, 1024, bias=False), nn.Linear(256, 1024, bias=False)
    with torch.no_grad():
        first.weight.zero_()
        second.weight.zero_()
    compiled = onegraph.compile(lambda x: (first(x), second(x)), options={"large_pages": True})
    with torch.no_grad():
        compiled(torch.ones(1, 256))
        first.weight.fill_(1)
        ours, theirs = compiled(torch.ones(1, 256))
    assert (ours == 256).all() and (theirs == 0).all()
    onegraph.reset()


def test_memory_goes_with_its_weight() -> None:
    compiled = onegraph.compile(lambda x, layer: layer(x), options={"large_pages": True})
    layer = nn.Linear(512, 2048, bias=False)
    storage = layer.weight.untyped_storage()
    with torch.no_grad():
        compiled(torch.randn(1, 512), layer)
    held = torch._C._storage_Use_Count(storage._cdata)
    del layer
    gc.collect()
    assert torch._C._storage_Use_Count(storage._cdata) == held - 2  # the weight's, and what was kept of it
    onegraph.reset()
