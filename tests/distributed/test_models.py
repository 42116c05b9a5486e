"""Twenty steps of whole models under DistributedDataParallel, in two and four processes."""

from __future__ import annotations

import importlib
from collections.abc import Callable

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import onegraph
from tests.distributed.processes import two_processes

STEPS = 20


@pytest.fixture(scope="module", autouse=True)
def _imported() -> None:
    """What DistributedDataParallel imports when one is made takes seconds: here once, not in each process."""
    importlib.import_module("torch._dynamo")
    importlib.import_module("torch.distributed.fsdp")


class Block(nn.Module):
    """A layer of a transformer that looks back."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.before, self.between = nn.LayerNorm(width), nn.LayerNorm(width)
        self.project, self.join = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.widen, self.narrow = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        parts = self.project(self.before(x)).view(batch, length, 3, self.heads, width // self.heads)
        seen = nn.functional.scaled_dot_product_attention(*parts.permute(2, 0, 3, 1, 4), is_causal=True)
        x = x + self.join(seen.transpose(1, 2).reshape(x.shape))
        result: torch.Tensor = x + self.narrow(nn.functional.gelu(self.widen(self.between(x))))
        return result


class Residual(nn.Module):
    def __init__(self, channels: int) -> None:
        super().__init__()
        self.first, self.second = (nn.Conv2d(channels, channels, 3, padding=1, bias=False) for _ in range(2))
        self.norms = nn.ModuleList(nn.BatchNorm2d(channels) for _ in range(2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        inner = self.norms[0](self.first(x)).relu()
        return (x + self.norms[1](self.second(inner))).relu()


def layers() -> tuple[nn.Module, torch.Tensor]:
    return nn.Sequential(nn.Linear(16, 64), nn.GELU(), nn.Linear(64, 64), nn.GELU(), nn.Linear(64, 8)), torch.randn(
        8, 16
    )


def language() -> tuple[nn.Module, torch.Tensor]:
    model = nn.Sequential(nn.Embedding(50, 32), Block(32, 4), Block(32, 4), nn.LayerNorm(32), nn.Linear(32, 50))
    return model, torch.randint(0, 50, (2, 12))


def residual() -> tuple[nn.Module, torch.Tensor]:
    parts = [nn.Conv2d(3, 8, 3), Residual(8), Residual(8), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 4)]
    return nn.Sequential(*parts), torch.randn(4, 3, 10, 10)


MODELS: dict[str, Callable[[], tuple[nn.Module, torch.Tensor]]] = {
    "layers": layers, "language": language, "residual": residual,
}  # fmt: skip


def trained(name: str, compiled: Callable[[nn.Module], nn.Module]) -> list[torch.Tensor]:
    """The parameters and buffers behind all steps, of which each process has other data."""
    torch.manual_seed(0)
    model, _ = MODELS[name]()
    ddp = DistributedDataParallel(model, bucket_cap_mb=0.01)
    run, optimizer = compiled(ddp), torch.optim.SGD(ddp.parameters(), 0.02, momentum=0.9)
    torch.manual_seed(dist.get_rank())
    for _ in range(STEPS):
        _, inputs = MODELS[name]()
        optimizer.zero_grad()
        run(inputs).square().mean().backward()
        optimizer.step()
    return [value.detach().clone() for value in (*model.parameters(), *model.buffers())]


def compare(name: str) -> list[torch.Tensor]:
    wanted = trained(name, lambda model: model)
    found = trained(name, lambda model: onegraph.compile(model, fullgraph=True))
    torch.testing.assert_close(found, wanted, atol=1e-5, rtol=1e-4)
    return found[: len(list(MODELS[name]()[0].parameters()))]


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("size", [2, pytest.param(4, marks=pytest.mark.slow)])
def test_twenty_steps_are_eagers(name: str, size: int) -> None:
    first, *others = two_processes(compare, name, size=size)
    for other in others:
        torch.testing.assert_close(other, first, atol=0, rtol=0)
