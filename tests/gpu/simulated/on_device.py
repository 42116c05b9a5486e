"""The devices themselves: operators in eager mode give what those of the CPU give, and the same tensors come back."""

from __future__ import annotations

import copy
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
from torch import nn


def close(found: torch.Tensor, expected: torch.Tensor) -> None:
    assert found.is_cuda
    torch.testing.assert_close(found.cpu(), expected, rtol=1e-4, atol=1e-5)


def test_memory_is_shared_by_views() -> None:
    x = torch.arange(12.0, device="cuda").reshape(3, 4)
    row = x[1]
    assert row.storage_offset() == 4 and row.untyped_storage().data_ptr() == x.untyped_storage().data_ptr()
    assert row.mul_(2) is row and row._base is not None
    close(x, torch.tensor([[0.0, 1, 2, 3], [8, 10, 12, 14], [8, 9, 10, 11]]))
    assert x.t().is_cuda and x.resize_(5, 5).shape == (5, 5) and x.untyped_storage().nbytes() == 100
    out = torch.empty(0, device="cuda")
    torch.add(row, 1, out=out)
    close(out, row.cpu() + 1)
    assert out.set_(row).data_ptr() == row.data_ptr()
    z = torch.complex(row, row).conj()
    assert z.is_conj() and (z * 2).sum().cpu() == 88 - 88j


def test_copies_between_devices() -> None:
    x = torch.randn(3)
    there = x.to("cuda:1", non_blocking=True).cuda(0)
    assert there.get_device() == 0 and torch.equal(there.cpu(), x) and there.tolist() == x.tolist()
    assert x.pin_memory().is_pinned() and not x.is_pinned()
    x.copy_(there.add_(1))
    close(there, x)
    assert copy.deepcopy(there).data_ptr() != there.data_ptr()


@pytest.mark.parametrize("device", ["cpu", "cuda:1"])
def test_devices_are_not_mixed(device: str) -> None:
    x = torch.ones(3, 3, device="cuda")
    for operator in (torch.add, torch.mm):
        with pytest.raises(RuntimeError, match="on the same device"):
            operator(x, torch.ones(3, 3, device=device))
    close(x + torch.tensor(2.0), torch.full((3, 3), 3.0))
    with pytest.raises(TypeError, match="cuda:0"):
        x.numpy()


def test_random_numbers_are_those_of_the_seed() -> None:
    torch.manual_seed(0)
    first = torch.rand(3, device="cuda"), nn.functional.dropout(torch.ones(9, device="cuda")), torch.rand(3)
    torch.manual_seed(0)
    second = torch.rand(3, device="cuda"), nn.functional.dropout(torch.ones(9, device="cuda")), torch.rand(3)
    assert all(map(torch.equal, first, second)) and not torch.equal(second[0], torch.rand(3, device="cuda"))
    assert not torch.equal(torch.randn(3, device="cuda"), torch.randn(3, device="cuda"))
    generator = torch.Generator("cuda").manual_seed(5)
    x = torch.randn(3, device="cuda", generator=generator)
    torch.cuda.manual_seed(5)
    assert torch.equal(torch.randn(3, device="cuda"), x)
    state = torch.cuda.get_rng_state()
    y = torch.randn(3, device="cuda")
    torch.cuda.set_rng_state(state)
    assert torch.equal(torch.randn(3, device="cuda"), y)


MODELS: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "perceptron": (lambda: nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.LayerNorm(16), nn.Linear(16, 4)), (5, 8)),
    "transformer": (partial(nn.TransformerEncoderLayer, 16, 4, 32, dropout=0.0, batch_first=True), (2, 5, 16)),
    "convolutions": (
        lambda: nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.MaxPool2d(2), nn.Conv2d(8, 8, 3, groups=8)),
        (2, 3, 12, 12),
    ),
}


@pytest.mark.parametrize("name", MODELS)
def test_training_is_that_of_the_cpu(name: str) -> None:
    torch.manual_seed(0)
    make, size = MODELS[name]
    models, inputs = [make()], [torch.randn(size)]
    models.append(copy.deepcopy(models[0]).to("cuda"))
    inputs.append(inputs[0].cuda())
    for model, x in zip(models, inputs, strict=True):
        optimizer = torch.optim.SGD(model.parameters(), 0.01)
        for _ in range(2):
            optimizer.zero_grad()
            result: Any = model(x.requires_grad_())
            (result.flatten() * torch.linspace(0, 1, result.numel(), device=x.device)).sum().backward()
            optimizer.step()
    for there, here in zip(models[1].parameters(), models[0].parameters(), strict=True):
        close(there, here)
        assert there.grad is not None and there.grad.is_cuda
    assert inputs[1].grad is not None and inputs[0].grad is not None
    close(inputs[1].grad, inputs[0].grad)
