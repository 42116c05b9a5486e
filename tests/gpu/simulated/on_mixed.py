"""Programs with tensors of several devices: results, where they are, what is written to, and gradients are eager's.

With kernels (`-p gpu.simulated.all_kernels`), operators on the GPU are kernels, and the others are called between them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from gpu.simulated.compare import check, on_cuda
from torch import Tensor, nn

Program = tuple[Callable[..., Any], Callable[[], tuple[Any, ...]]]


def leaf(*size: int, device: str = "cuda") -> Tensor:
    return torch.randn(*size, device=device, requires_grad=True)


def numbers(x: Tensor, factor: Tensor, count: Tensor) -> Any:
    y = (x * factor + count).sin() * factor
    return y, torch.where(x > 0, factor, x), x + torch.tensor(0.5), factor * 2, count + 1, x.masked_fill(x > 0, factor)


def numbers_of_other_types(x: Tensor, wide: Tensor, flag: Tensor) -> Any:
    half = x.half()
    return half * wide, half + 1, x.int() * flag, x.int() + wide, torch.maximum(half, wide), x * wide.item()


def there_and_back(x: Tensor) -> Any:
    y = (x.cuda() + 1).relu().cpu() * 2
    return y, y.sum(0), (y.to("cuda", non_blocking=True) * 3).sum()


def positions(x: Tensor, table: Tensor) -> Any:
    at = torch.arange(x.shape[0])
    mask = torch.ones(x.shape[0], x.shape[0]).tril().bool().to(x.device)
    scores = (x @ x.t()).masked_fill(~mask, float("-inf")).softmax(-1)
    return scores @ x + table[at].cuda(), x[at.flip(0)] * 2, at + 1


def reported(x: Tensor, log: Tensor, steps: Tensor) -> Any:
    loss = (x * x).mean(0)
    log.mul_(0.5).add_(loss.cpu())
    log[1:].copy_(loss[1:])
    steps.add_(1)
    return loss.sum(), loss.sum().cpu(), steps * 2, steps


def filled(x: Tensor, rows: Tensor) -> Any:
    x[0] = rows[0]
    x[1:].copy_(rows[1:])
    x[torch.tensor([2])] = 7.0
    x.mul_(2)
    return x.sum(1), rows * 2


def looked_at(x: Tensor, y: Tensor) -> Any:
    part = x.t()[1:]
    return part, part.cuda() * y.t()[1:], x.view(-1)[::2], x, x[1].expand(3, -1), (y + 1)[1:], (x + 1)[1:].t()


def negated(x: Tensor, y: Tensor) -> Any:
    z = torch.view_as_complex(x).conj().imag
    return z, z.cuda() + y[:, 0], z + 1, torch.view_as_complex(y).conj().imag.cpu() * 2


def products(x: Tensor, y: Tensor) -> Any:
    """A library's result on the CPU is no memory for kernels on the GPU, however large it is."""
    a = x @ x
    b = a.cuda()
    a = (a @ a).sum(1)
    c = (y + b).sin()
    d = c @ y
    return a, (d * c).cos(), (x @ x) + 1, y.exp() * b


def drawn(x: Tensor) -> Any:
    here = torch.randn(3, 4)
    return here, x + torch.randn_like(x) + here.cuda(), torch.rand(4), F.dropout(x, 0.5)


def sized(x: Tensor, count: int) -> Any:
    return (x * count).sum(), torch.zeros(count), count, torch.ones(count).cuda() + x.shape[0], None


class Halves(nn.Module):
    """An embedding in the CPU's memory, and what works with it on a GPU."""

    def __init__(self, other: str) -> None:
        super().__init__()
        self.embedding = nn.Embedding(20, 8, device=other)
        self.hidden = nn.Linear(8, 16, device="cuda")
        self.norm = nn.LayerNorm(16, device="cuda")
        self.head = nn.Linear(16, 3, device=other)
        self.scale = nn.Parameter(torch.tensor(0.5))

    def forward(self, at: Tensor) -> Any:
        x = self.embedding(at)
        y = F.gelu(self.norm(self.hidden(x.cuda()))) * self.scale
        return self.head(y.to(x.device)).log_softmax(-1), y.mean()


def called(model: nn.Module, x: Tensor) -> Any:
    return model(x)


def on_two(x: Tensor, y: Tensor) -> Any:
    z = (x * 2 + 1).to("cuda:1")
    w = (z + y).softmax(-1)
    return w, (w.cuda(0) * x).sum(0), x.cpu(), y.sum()


PROGRAMS: list[Program] = [
    (numbers, lambda: (on_cuda(3, 4), torch.tensor(1.5), torch.tensor(3))),
    (numbers, lambda: (leaf(3, 4), torch.tensor(1.5, requires_grad=True), torch.tensor(3))),
    (numbers_of_other_types, lambda: (on_cuda(3, 4), torch.tensor(0.1, dtype=torch.float64), torch.tensor(True))),
    (there_and_back, lambda: (torch.randn(3, 4),)),
    (there_and_back, lambda: (leaf(3, 4, device="cpu"),)),
    (positions, lambda: (on_cuda(5, 4), torch.randn(9, 4))),
    (positions, lambda: (leaf(5, 4), leaf(9, 4, device="cpu"))),
    (reported, lambda: (on_cuda(5, 4), torch.ones(4), torch.tensor(0))),
    (reported, lambda: (leaf(5, 4), torch.ones(4), torch.tensor(0))),
    (filled, lambda: (on_cuda(4, 4), torch.randn(4, 4))),
    (filled, lambda: (on_cuda(4, 8)[:, ::2], torch.randn(4, 4).t())),
    (looked_at, lambda: (torch.randn(3, 4), on_cuda(3, 4))),
    (looked_at, lambda: (leaf(3, 4, device="cpu"), leaf(3, 4))),
    (negated, lambda: (torch.randn(3, 2), on_cuda(3, 2))),
    (products, lambda: (torch.randn(520, 520) / 30, on_cuda(520, 520) / 30)),
    (drawn, lambda: (on_cuda(3, 4),)),
    (sized, lambda: (on_cuda(3, 4), 5)),
    (called, lambda: (Halves("cpu"), torch.tensor([1, 5, 5, 7]))),
    (called, lambda: (Halves("cuda:1"), torch.tensor([1, 5, 5, 7], device="cuda:1"))),
    (on_two, lambda: (on_cuda(3, 4), on_cuda(3, 4, device="cuda:1"))),
    (on_two, lambda: (leaf(3, 4), leaf(3, 4, device="cuda:1"))),
]


def named(number: int) -> str:
    return f"{PROGRAMS[number][0].__name__}-{number}"


@pytest.mark.parametrize("number", range(len(PROGRAMS)), ids=named)
def test_results_are_those_of_eager_mode(number: int) -> None:
    function, arguments = PROGRAMS[number]
    check(function, arguments, fullgraph=function is not numbers_of_other_types)


@pytest.mark.parametrize("function", [there_and_back, positions, reported, looked_at])
def test_sizes_that_change(function: Callable[..., Any]) -> None:
    makes: dict[Any, Callable[[int], tuple[Any, ...]]] = {
        there_and_back: lambda n: (torch.randn(n, 4),),
        positions: lambda n: (on_cuda(n, 4), torch.randn(9, 4)),
        reported: lambda n: (on_cuda(5, n), torch.ones(n), torch.tensor(0)),
        looked_at: lambda n: (torch.randn(n, 4), on_cuda(n, 4)),
    }
    make = makes[function]
    check(function, *(lambda n=n: make(n) for n in (3, 5, 4, 2)), dynamic=True)
