"""Programs on devices: results, where they are, what is written to, and gradients are those of eager mode."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from gpu.simulated.compare import BACKENDS, check, messages, on_cuda, same
from torch import nn

import onegraph
from onegraph.compiler import targets

Program = tuple[Callable[..., Any], Callable[[], tuple[Any, ...]]]


def leaf(*size: int) -> torch.Tensor:
    return on_cuda(*size, requires_grad=True)


def made(x: torch.Tensor) -> Any:
    y = torch.zeros(3, device="cuda") + x.sum()
    return (
        y,
        torch.arange(3, device=x.device),
        torch.full((2,), 3.0, device="cuda:1"),
        torch.tensor([1.0], device="cuda"),
    )


def made_like(x: torch.Tensor) -> Any:
    return (
        torch.zeros_like(x),
        torch.full_like(x, 2),
        x.new_ones(3),
        x.new_tensor([1.0]),
        torch.ones_like(x, device="cpu"),
    )


def made_in_context(x: torch.Tensor) -> Any:
    with torch.device("cuda"):
        y = torch.ones(3)
    return y, torch.ones(3), x


def made_by_default(x: torch.Tensor) -> Any:
    torch.set_default_device("cuda")
    y = torch.ones(3)
    torch.set_default_device(None)
    return y, torch.ones(3), x


def drawn(x: torch.Tensor) -> Any:
    return torch.rand(3, device="cuda"), torch.randn_like(x), F.dropout(x, 0.5), torch.randperm(5, device="cuda")


def moved(x: torch.Tensor) -> Any:
    return x.to("cuda", non_blocking=True) + 1, x.cuda() * 2, x.cpu() - 1, x.to("cuda:1").to(torch.float64)


def told(x: torch.Tensor) -> Any:
    return x + 1, x.is_cuda, x.is_cpu, x.device, x.device.type, x.device.index, x.get_device()


def scaled(x: torch.Tensor, scale: torch.Tensor) -> Any:
    return x * scale + scale, torch.where(x > 0, torch.tensor(1.0), x), x[torch.tensor([1, 0])]


def written(x: torch.Tensor, y: torch.Tensor) -> Any:
    x[0] = y[0]
    x[1] = torch.tensor(5.0)
    x[torch.tensor([2])] = 7.0
    y.copy_(x)
    return x.t().mul_(2), y[1:]


def normalized(x: torch.Tensor) -> Any:
    return torch.softmax(x.view(-1, 2).sum(-1), 0) * x.shape[0], torch.zeros(x.shape[0], device="cuda")


def attended(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> Any:
    return F.scaled_dot_product_attention(q, k, v, is_causal=True)


def cast(x: torch.Tensor, y: torch.Tensor) -> Any:
    with torch.autocast("cuda"):
        half = x @ y
    with torch.autocast(device_type=x.device.type, dtype=torch.bfloat16):
        other = x @ y
    return half, other.softmax(-1), torch.is_autocast_enabled("cuda"), torch.get_autocast_dtype("cuda")


def branched(x: torch.Tensor) -> Any:
    return torch.cond(x.sum() > 0, lambda x: x + 1, lambda x: x - 1, (x,)), torch.func.vmap(torch.sum)(x)


def called(model: nn.Module, x: torch.Tensor) -> Any:
    return model(x)


def perceptron() -> nn.Module:
    return nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.LayerNorm(16), nn.Dropout(0.1), nn.Linear(16, 4)).cuda()


def convolutions() -> nn.Module:
    return nn.Sequential(nn.Conv2d(3, 8, 3, bias=False), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2)).cuda()


PROGRAMS: list[Program] = [
    (made, lambda: (on_cuda(3),)),
    (made_like, lambda: (on_cuda(3, 4),)),
    (made_in_context, lambda: (on_cuda(3),)),
    (made_by_default, lambda: (on_cuda(3),)),
    (drawn, lambda: (on_cuda(4, 8),)),
    (moved, lambda: (on_cuda(3),)),
    (moved, lambda: (torch.randn(3, requires_grad=True),)),
    (told, lambda: (on_cuda(3, device="cuda:1"),)),
    (scaled, lambda: (on_cuda(3, 4), torch.tensor(2.0))),
    (scaled, lambda: (leaf(3, 4), torch.tensor(2.0, requires_grad=True))),
    (scaled, lambda: (on_cuda(3, 4), torch.randn(4))),  # which raises
    (written, lambda: (on_cuda(3, 3), torch.randn(3, 3).cuda())),
    (written, lambda: (on_cuda(3, 3), on_cuda(3, 3, device="cuda:1").t())),
    (attended, lambda: (leaf(2, 2, 4, 8), leaf(2, 2, 4, 8), leaf(2, 2, 4, 8))),
    (cast, lambda: (leaf(3, 4), leaf(4, 5))),
    (branched, lambda: (on_cuda(3, 4),)),
    (called, lambda: (perceptron(), leaf(5, 8))),
    (called, lambda: (convolutions(), leaf(2, 3, 12, 12))),
    (called, lambda: (nn.Embedding(10, 4).cuda(), torch.tensor([1, 2, 2]).cuda())),
]


@pytest.mark.parametrize("number", range(len(PROGRAMS)), ids=lambda number: f"{PROGRAMS[number][0].__name__}-{number}")
def test_results_are_those_of_eager_mode(number: int) -> None:
    function, arguments = PROGRAMS[number]
    check(function, arguments, fullgraph=function is not scaled or number != 10)


def placed(x: torch.Tensor) -> Any:
    y = x.pin_memory()
    z = torch.zeros(3, pin_memory=True)
    return y.to("cuda", non_blocking=True) + 1, y.is_pinned(), z.is_pinned()


def read(x: torch.Tensor) -> Any:
    return x.tolist(), x[0].item() + 1, bool(x.any()), x.cpu().numpy().sum(), x[x > 0], x.nonzero()


@pytest.mark.parametrize("function", [placed, read])
def test_what_leaves_the_graph(function: Callable[..., Any]) -> None:
    check(function, lambda: (torch.randn(3) if function is placed else on_cuda(3),), fullgraph=False)


@pytest.mark.parametrize("dynamic", [None, True])
def test_sizes_that_change(dynamic: bool | None) -> None:
    check(normalized, *(lambda size=size: (on_cuda(size),) for size in (4, 6, 10, 2)), dynamic=dynamic)


@pytest.mark.parametrize("backend", BACKENDS)
def test_each_device_has_a_version(backend: str) -> None:
    onegraph.reset()

    def doubled(x: torch.Tensor) -> Any:
        return (x * 2).sum(), x.device

    compiled = onegraph.compile(doubled, backend=backend)
    for device in ("cpu", "cuda:0", "cuda:1", "cpu", "cuda:1"):
        x = torch.randn(3).to(device)
        same(compiled(x), doubled(x))


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_module_is_moved_after_it_was_compiled(backend: str) -> None:
    onegraph.reset()
    model = nn.Linear(3, 3)
    compiled = onegraph.compile(model, backend=backend)
    for number, device in enumerate(("cpu", "cuda:0", "cuda:1", "cpu")):
        (model if number % 2 else compiled).to(device)
        x = torch.randn(2, 3).to(device)
        same(compiled(x), model(x))
        compiled(x).sum().backward()
        assert model.weight.grad is not None and model.weight.grad.device == x.device


@pytest.mark.parametrize("default", ["cuda", "cuda:1"])
def test_default_devices(default: str) -> None:
    def made(x: torch.Tensor) -> Any:
        return torch.ones(3), torch.get_default_device(), torch.tensor(1.0), x

    torch.set_default_device(default)
    try:
        check(made, lambda: (on_cuda(3),))
    finally:
        torch.set_default_device(None)
    with torch.device(default):
        check(made, lambda: (on_cuda(3),))


def test_a_device_without_a_compiler_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(targets.TARGETS, "cuda")

    def both(x: torch.Tensor, y: torch.Tensor) -> Any:
        return x + 1, y * 2

    for device in ("cuda", "cpu"):
        onegraph.reset()
        compiled = onegraph.compile(both)
        with messages() as found:
            for _ in range(2):
                compiled(on_cuda(3), torch.ones(2, device=device))
        where = "cuda:0" if device == "cuda" else "cuda:0 and cpu"
        assert [text.rpartition("runs")[2] for text in found] == [
            f" operator by operator: there is no compiler for graphs on {where}"
        ]
