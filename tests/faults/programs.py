"""Small programs, one for each way through the stages: what is compiled, and what a call of it shows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

import onegraph


@dataclass(frozen=True)
class Program:
    """`make()` is a function to compile; `observe(it)` calls it and gives tensors to compare, always the same."""

    name: str
    make: Callable[[], Callable[..., Any]]
    observe: Callable[[Callable[..., Any]], list[Tensor]]
    settings: dict[str, Any]

    def compiled(self) -> Callable[..., Any]:
        return onegraph.compile(self.make(), options={"cache": False}, **self.settings)

    def expected(self) -> list[Tensor]:
        return self.observe(self.make())


def warm() -> None:
    """Load what compilations need, without gradients: a torch built for CUDA makes none in a child of one that has."""
    onegraph.compile(infer())(values(4, 3), values(3, 2))


def values(*shape: int) -> Tensor:
    return torch.linspace(-1, 1, torch.Size(shape).numel()).reshape(shape)


def infer() -> Callable[..., Any]:
    def program(x: Tensor, w: Tensor) -> Tensor:
        return torch.softmax(torch.relu(x @ w) * 2, -1).sum(0)

    return program


def observe_infer(f: Callable[..., Any]) -> list[Tensor]:
    return [f(values(8, 6), values(6, 6))]


def train() -> Callable[..., Any]:
    def program(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
        return torch.nn.functional.gelu(x @ w + b).square().mean()

    return program


def observe_train(f: Callable[..., Any]) -> list[Tensor]:
    w, b = values(6, 5).requires_grad_(), values(5).requires_grad_()
    loss = f(values(8, 6), w, b)
    loss.backward()
    assert w.grad is not None and b.grad is not None
    return [loss.detach(), w.grad, b.grad]


def module() -> Callable[..., Any]:
    made = torch.nn.Sequential(torch.nn.Linear(6, 5), torch.nn.ReLU(), torch.nn.Linear(5, 3))
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.copy_(values(*parameter.shape))
    return made


def observe_module(f: Any) -> list[Tensor]:
    f.zero_grad()
    result = f(values(4, 6))
    result.sum().backward()
    return [result.detach(), *[parameter.grad.clone() for parameter in f.parameters()]]


def broken() -> Callable[..., Any]:
    def program(x: Tensor, notes: list[Any]) -> Tensor:
        y = x.sin() + 1
        notes.append(y.shape[0])
        onegraph.graph_break("on purpose")
        notes.append(len(notes))
        z = y * 2
        z += x
        return z.cos()

    return program


def observe_broken(f: Callable[..., Any]) -> list[Tensor]:
    notes: list[Any] = []
    return [f(values(5, 3), notes), torch.tensor(notes)]


def sized() -> Callable[..., Any]:
    def program(x: Tensor, scale: float) -> Tensor:
        return (x.reshape(-1, x.shape[-1]) * scale + x.shape[0]).sum(0)

    return program


def observe_sized(f: Callable[..., Any]) -> list[Tensor]:
    return [f(values(n, 4, 3), n / 2) for n in (3, 4, 5)]


def written() -> Callable[..., Any]:
    def program(x: Tensor, rows: dict[str, Tensor]) -> Tensor:
        x[0] = 3.0
        rows["all"] = x.relu()
        rows["one"].mul_(2)
        return x.t() + 1

    return program


def observe_written(f: Callable[..., Any]) -> list[Tensor]:
    x, rows = values(4, 4), {"one": values(3)}
    return [f(x, rows), x, rows["all"], rows["one"]]


PROGRAMS = (
    Program("infer", infer, observe_infer, {}),
    Program("train", train, observe_train, {}),
    Program("module", module, observe_module, {}),
    Program("broken", broken, observe_broken, {}),
    Program("sized", sized, observe_sized, {"dynamic": True}),
    Program("resized", sized, observe_sized, {}),
    Program("written", written, observe_written, {}),
)
