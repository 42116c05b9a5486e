"""Steps of training on a device: forward, backward, optimizer, scaler."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from gpu.simulated.compare import BACKENDS, check, on_cuda, same
from torch import nn
from torch.utils.checkpoint import checkpoint

import onegraph


def trained(compiled: Callable[[Any], Any], is_scaled: bool) -> Any:
    """Three steps: their losses, and the parameters behind them."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Dropout(0.1), nn.Linear(16, 4)).cuda()
    optimizer = torch.optim.Adam(model.parameters())
    scaler = torch.amp.GradScaler("cuda", enabled=is_scaled)

    def plain(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        loss = F.mse_loss(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.detach()

    def scaled(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        with torch.autocast("cuda", torch.float16):
            loss = F.mse_loss(model(x), y)
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        return loss.detach()

    step = compiled(scaled if is_scaled else plain)
    losses = [step(torch.randn(5, 8).cuda(), torch.randn(5, 4).cuda()) for _ in range(3)]
    return losses, list(model.state_dict().values()), scaler.get_scale()


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("is_scaled", [False, True], ids=["float32", "scaled"])
def test_steps_are_those_of_eager_mode(backend: str, is_scaled: bool) -> None:
    onegraph.reset()
    expected = trained(lambda step: step, is_scaled)
    same(trained(lambda step: onegraph.compile(step, backend=backend), is_scaled), expected)


class Exponential(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(x)
        return x.exp()

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:  # type: ignore[override]
        return gradient * ctx.saved_tensors[0]


def custom(x: torch.Tensor) -> Any:
    return Exponential.apply(x) + 1


def checkpointed(model: nn.Module, x: torch.Tensor) -> Any:
    return checkpoint(model, x, use_reentrant=False)


def clipped(model: nn.Module, x: torch.Tensor) -> Any:
    model(x).sum().backward()
    return nn.utils.clip_grad_norm_(model.parameters(), 1.0)


def to_the_cpu(x: torch.Tensor, y: torch.Tensor) -> Any:
    return (x.cpu() * y).sum(), y.cuda() + x


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_backward_pass_under_autocast(backend: str) -> None:
    """Its products are of half precision, as in eager mode."""

    def product(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return x @ y

    onegraph.reset()
    found = []
    for function in (product, onegraph.compile(product, backend=backend)):
        for _ in range(2):
            torch.manual_seed(0)
            x, y = on_cuda(8, 8, requires_grad=True), on_cuda(8, 8, requires_grad=True)
            result = function(x, y)
            with torch.autocast("cuda"):
                result.backward(x.detach())
            found.append((x.grad, y.grad))
    assert all(map(torch.equal, found[1], found[3])) and not torch.equal(found[1][0], x.detach() @ y.detach().t())


def test_gradients() -> None:
    check(custom, lambda: (on_cuda(3, requires_grad=True),))
    check(to_the_cpu, lambda: (on_cuda(3, requires_grad=True), torch.randn(3, requires_grad=True)))
    check(
        checkpointed,
        lambda: (nn.Sequential(nn.Linear(3, 3), nn.Dropout(0.5)).cuda(), on_cuda(2, 3, requires_grad=True)),
        fullgraph=False,
    )
    check(clipped, lambda: (nn.Linear(3, 3).cuda(), on_cuda(2, 3)), fullgraph=False)
