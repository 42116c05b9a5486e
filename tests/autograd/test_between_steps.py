"""What happens to parameters between the steps of training is seen, and many steps leave nothing behind."""

from __future__ import annotations

import gc
import traceback
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import onegraph
from tests.capture.test_flat_memory import resident


def network() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 4))


def other(scale: float) -> nn.Parameter:
    return nn.Parameter(torch.full((4, 4), scale))


def halved(model: nn.Module) -> dict[str, Tensor]:
    return {name: value * 0.5 + 0.1 for name, value in model.state_dict().items()}


CHANGES: dict[str, Callable[[Any], Any]] = {
    "nothing": lambda model: None,
    "replaced": lambda model: setattr(model[0], "weight", other(0.3)),
    "frozen": lambda model: model[0].weight.requires_grad_(False),
    "unfrozen": lambda model: model[0].weight.requires_grad_(True),
    "tied": lambda model: setattr(model[2], "weight", model[0].weight),
    "untied": lambda model: setattr(model[2], "weight", other(0.2)),
    "loaded": lambda model: model.load_state_dict(halved(model)),
    "loaded anew": lambda model: model.load_state_dict(halved(model), assign=True),
    "without a bias": lambda model: setattr(model[0], "bias", None),
    "in double precision": lambda model: model.double(),
}


@pytest.mark.parametrize("backend", ["aot_eager", "native"])
def test_changes_of_parameters_are_seen(backend: str) -> None:
    eager, shared = network(), network()
    compiled = onegraph.compile(shared, backend=backend)
    for name, change in CHANGES.items():
        for _ in range(2):
            x = torch.randn(3, 4, dtype=eager[2].weight.dtype)
            for model, call in ((eager, eager), (shared, compiled)):
                model.zero_grad()
                call(x).pow(2).mean().backward()
            check_and_step(name, eager, shared)
        change(eager), change(shared)


def check_and_step(name: str, eager: nn.Module, compiled: nn.Module) -> None:
    with torch.no_grad():
        for a, b in zip(eager.parameters(), compiled.parameters(), strict=True):
            assert (a.grad is None) == (b.grad is None), name
            if a.grad is not None:
                torch.testing.assert_close(b.grad, a.grad, msg=lambda text: f"{name}: {text}")
                a -= 0.1 * a.grad
                b -= 0.1 * b.grad


def test_errors_are_raised_at_the_line_of_the_program() -> None:
    compiled = onegraph.compile(network())
    product = onegraph.compile(lambda x, w: (x * w).sum())
    x, w = torch.randn(4, 4), torch.randn(4, 4, requires_grad=True)

    def other_device() -> None:
        compiled(torch.randn(3, 4, device="meta"))

    def twice() -> None:
        loss = compiled(x).sum()
        loss.backward()
        loss.backward()

    def written() -> None:
        loss = product(x, w)
        x.add_(1)
        loss.backward()

    for wrong, message in (
        (other_device, "device"),
        (twice, "a second time"),
        (written, "modified by an inplace operation"),
    ):
        with pytest.raises(RuntimeError, match=message) as raised:
            wrong()
        lines = [frame.name for frame in traceback.extract_tb(raised.value.__traceback__) if frame.filename == __file__]
        assert lines[-1] == wrong.__name__


def trained() -> Callable[[], None]:
    model = nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.Dropout(0.1), nn.LayerNorm(32), nn.Linear(32, 4))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 10_000)
    loss_of = onegraph.compile(lambda x, y: nn.functional.cross_entropy(model(x), y))

    def step() -> None:
        loss_of(torch.randn(8, 16), torch.randint(4, (8,))).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        schedule.step()

    return step


@pytest.mark.parametrize("count", [300, pytest.param(10_000, marks=pytest.mark.slow)])
def test_steps_leave_nothing_behind(count: int) -> None:
    step = trained()
    for _ in range(count // 5):
        step()
    gc.collect()
    before, small = len(gc.get_objects()), resident()
    for _ in range(count):
        step()
    gc.collect()
    assert len(gc.get_objects()) - before < count // 10
    assert resident() - small < 16_384  # kilobytes, of which the process takes some at once
