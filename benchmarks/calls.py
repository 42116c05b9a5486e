"""Call overhead: work so small that what is measured is the way to it: hook, guards, launch, operator dispatch."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from time import thread_time

import torch
from torch import Tensor, nn

from benchmarks.contenders import CONTENDERS, reset
from benchmarks.measure import Result, Settings, interleaved

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


def run(settings: Settings) -> Iterator[Result]:
    """Always with one thread and its CPU time: there is nothing to share out here."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    for name, target, args in cases():
        with torch.no_grad():
            runs = {key: partial(compile(target), *args) for key, compile in CONTENDERS.items()}
            yield Result("calls", name, "us", interleaved(runs, settings.rounds(31), thread_time))
        reset()
    torch.set_num_threads(threads)
