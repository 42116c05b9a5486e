"""Results and gradients are as near to those in float64 as eager's are, in the median of several draws."""

from __future__ import annotations

import copy
from collections.abc import Callable
from statistics import median

import pytest
import torch
from torch import Tensor, nn

import onegraph

DRAWS, NOISE = range(1, 16), 2.0


def block(channels: int, made: int) -> tuple[nn.Module, ...]:
    return nn.Conv2d(channels, made, 1, bias=False), nn.BatchNorm2d(made), nn.SiLU()


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.query, self.key, self.value = (nn.Linear(16, 16) for _ in range(3))

    def forward(self, x: Tensor) -> Tensor:
        return (self.query(x) @ self.key(x).transpose(1, 2) / 4).softmax(-1) @ self.value(x)


#: Modules, and the shapes that they are called with: batch norms over two, eight and many elements.
CASES: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "batch norms over two": (lambda: nn.Sequential(*block(8, 16), *block(16, 8)), (2, 8, 1, 1)),
    "batch norms over eight": (lambda: nn.Sequential(*block(8, 16), *block(16, 8)), (2, 8, 2, 2)),
    "batch norm": (lambda: nn.BatchNorm2d(16), (4, 16, 16, 16)),
    "group norm": (lambda: nn.GroupNorm(4, 16), (4, 16, 8, 8)),
    "layer norms": (lambda: nn.Sequential(nn.Linear(16, 32), nn.LayerNorm(32), nn.GELU(), nn.LayerNorm(32)), (8, 16)),
    "attention": (Attention, (2, 8, 16)),
}


@pytest.mark.parametrize("offset", [0.0, 10.0])
@pytest.mark.parametrize("case", CASES)
def test_distances_from_float64_are_eagers(case: str, offset: float) -> None:
    make, shape = CASES[case]
    torch.manual_seed(0)
    theirs = make().train()
    for parameter in theirs.parameters():
        nn.init.normal_(parameter, 0.5 if parameter.dim() == 1 else 0.0, 0.5)
    exact, ours = copy.deepcopy(theirs).double(), copy.deepcopy(theirs)
    compiled = onegraph.compile(ours, options={"raise_compiler_errors": True})
    ratios = []
    for seed in DRAWS:
        torch.manual_seed(seed)
        x = torch.randn(shape) + offset
        direction = torch.randn(theirs(x).shape)
        truth, *found = (
            step(module, function, x.to(dtype), direction.to(dtype))
            for module, function, dtype in (
                (exact, exact, torch.float64),
                (theirs, theirs, torch.float32),
                (ours, compiled, torch.float32),
            )
        )
        eagers, own = ([distance(a, b) for a, b in zip(truth, tensors, strict=True)] for tensors in found)
        ratios.append([b / max(a, 1e-9) for a, b in zip(eagers, own, strict=True)])
    medians = [median(column) for column in zip(*ratios, strict=True)]
    assert max(medians) < NOISE, medians


def step(module: nn.Module, function: nn.Module, x: Tensor, direction: Tensor) -> list[Tensor]:
    """The result, and all gradients."""
    module.zero_grad()
    leaf = x.clone().requires_grad_()
    result = function(leaf)
    result.backward(direction)
    return [result.detach(), *[p.grad for p in (leaf, *module.parameters()) if p.grad is not None]]


def distance(exact: Tensor, found: Tensor) -> float:
    """By norm."""
    return float((exact - found.double()).norm() / exact.norm().clamp_min(1e-12))
