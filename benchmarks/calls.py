"""Call overhead: work so small that what is measured is the way to it: hook, guards, launch, operator dispatch."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from time import thread_time
from typing import Any

import torch
from torch import Tensor, nn

from benchmarks.contenders import CONTENDERS, reset
from benchmarks.measure import Result, Run, Settings, interleaved

SCALE = 2.0


def plus_one(x: Tensor) -> Tensor:
    return x + 1


def chain(x: Tensor, y: Tensor) -> Tensor:
    return ((x + y) * SCALE - x).relu() * y


def many_inputs(*xs: Tensor) -> Tensor:
    total = xs[0]
    for x in xs[1:]:
        total = total + x
    return total


def mlp() -> nn.Module:
    layers = [layer for _ in range(4) for layer in (nn.Linear(8, 8), nn.GELU())]
    return nn.Sequential(*layers).eval()


def cases() -> Iterator[tuple[str, Callable[..., object], tuple[Tensor, ...]]]:
    x, y = torch.randn(8), torch.randn(8)
    yield "x + 1", plus_one, (x,)
    yield "five operations", chain, (x, y)
    yield "sum of 16 inputs", many_inputs, tuple(torch.randn(8) for _ in range(16))
    yield "MLP 4 x 8", mlp(), (torch.randn(1, 8),)


def with_args(args: tuple[Tensor, ...], run: Callable[..., object]) -> Run:
    return partial(run, *args)


def with_pass(args: tuple[Tensor, ...], leaves: tuple[Tensor, ...], tangent: Tensor, run: Callable[..., Any]) -> Run:
    return lambda: torch.autograd.grad(run(*args), leaves, tangent)


def run(settings: Settings) -> Iterator[Result]:
    for name, target, args in cases():
        with torch.no_grad():
            yield measured("calls", name, target, settings, partial(with_args, args))


def run_recorded(settings: Settings) -> Iterator[Result]:
    """Calls that record gradients, alone and with their backward passes."""
    x, y = (torch.randn(8, requires_grad=True) for _ in range(2))
    net, row = mlp().train(), torch.randn(1, 8)
    works: list[tuple[str, Callable[..., Tensor], tuple[Tensor, ...], tuple[Tensor, ...]]] = [
        ("x + 1", plus_one, (x,), (x,)),
        ("five operations", chain, (x, y), (x, y)),
        ("MLP 4 x 8", net, (row,), tuple(net.parameters())),
    ]
    for name, target, args, leaves in works:
        tangent = torch.ones_like(target(*args))
        yield measured("calls_recorded", name, target, settings, partial(with_args, args))
        yield measured(
            "calls_recorded",
            f"{name}, forward and backward",
            target,
            settings,
            partial(with_pass, args, leaves, tangent),
        )


def measured(
    suite: str, name: str, target: Callable[..., object], settings: Settings, made: Callable[[Any], Run]
) -> Result:
    """Always with one thread and its CPU time: there is nothing to share out here."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    runs = {key: made(compile(target)) for key, compile in CONTENDERS.items()}
    result = Result(suite, name, "us", interleaved(runs, settings.rounds(31), thread_time))
    reset()
    torch.set_num_threads(threads)
    return result
