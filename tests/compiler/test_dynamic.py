"""Graphs with sizes that are known at the call only: compiled once, right at every length."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from compiler.graphs import compare, compiled
from torch import Tensor, randn

import onegraph
from onegraph.compiler.runtime.executor import Executor


def norm(x: Tensor) -> Tensor:
    centered = x - x.mean(-1, keepdim=True)
    return centered * torch.rsqrt((centered * centered).mean(-1, keepdim=True) + 1e-5)


# function, inputs of a length, the dimensions that have it
CASES: dict[str, tuple[Callable[..., Any], Callable[[int], tuple[Tensor, ...]], list[tuple[int, int]]]] = {
    "pointwise": (lambda x: x * 2 + 1, lambda n: (randn(n, 7),), [(0, 0)]),
    "transposed": (lambda x: x.t() * 2 + 1, lambda n: (randn(n, 7),), [(0, 0)]),
    "softmax of a length": (lambda x: torch.softmax(x, -1), lambda n: (randn(4, n),), [(0, 1)]),
    "softmax of rows": (lambda x: torch.softmax(x, -1), lambda n: (randn(n, 40),), [(0, 0)]),
    "norm": (norm, lambda n: (randn(3, n, 40),), [(0, 1)]),
    "heads": (lambda x: x.view(-1, 2, 4).transpose(0, 1).reshape(2, -1) + 1, lambda n: (randn(n, 8),), [(0, 0)]),
    "sum": (lambda x: x.sum(), lambda n: (randn(n, 8),), [(0, 0)]),
    "mean": (lambda x: x.mean(0) * x.shape[0], lambda n: (randn(n, 8),), [(0, 0)]),
    "matmul": (lambda x, y: x @ y + 1, lambda n: (randn(5, n), randn(n, 6)), [(0, 1), (1, 0)]),
    "neighbours": (lambda x: x[:, 1:] + x[:, :-1], lambda n: (randn(5, n),), [(0, 1)]),
    "flip": (lambda x: x.flip(1).reshape(-1) * 2, lambda n: (randn(5, n),), [(0, 1)]),
    "pairs": (lambda x: x.reshape(-1, 2).sum(1), lambda n: (randn(n, 6),), [(0, 0)]),
    "sizes": (lambda x: (x.shape[0] * 2 + 1, x + x.shape[0]), lambda n: (randn(n, 3),), [(0, 0)]),
    "outer": (lambda x: x.unsqueeze(0) * x.unsqueeze(1), lambda n: (randn(n),), [(0, 0)]),
    "positions": (lambda x: x + torch.arange(x.shape[0], device=x.device), lambda n: (randn(n),), [(0, 0)]),
}


@pytest.mark.parametrize("name", CASES)
def test_one_graph_for_all_lengths(name: str) -> None:
    function, inputs, dims = CASES[name]
    graph = compiled(function, *inputs(9), symbolic=dict.fromkeys(dims, "n"))
    for length in (9, 2, 64, 131, 700):
        given = inputs(length)
        compare(graph(*given), function(*given), rtol=1e-4, atol=1e-4)


def test_two_lengths() -> None:
    graph = compiled(
        lambda x, y: torch.softmax(x @ y.t(), -1) @ y, randn(5, 8), randn(7, 8), symbolic={(0, 0): "n", (1, 0): "m"}
    )
    for n, m in ((5, 7), (7, 5), (2, 90), (90, 2)):
        x, y = randn(n, 8), randn(m, 8)
        compare(graph(x, y), torch.softmax(x @ y.t(), -1) @ y, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", CASES)
def test_the_python_executor_agrees(name: str) -> None:
    function, inputs, dims = CASES[name]
    graph = compiled(function, *inputs(9), symbolic=dict.fromkeys(dims, "n"))
    executor = Executor(graph.plan, graph.addresses, {})
    given = inputs(21)
    compare(executor(*given), function(*given), rtol=1e-4, atol=1e-4)


def test_a_size_that_is_found_to_be_known() -> None:
    """A number that is computed from a size, where the program learns behind it that the size is another one's."""

    def f(x: Tensor, y: Tensor) -> Tensor:
        scale = y.numel() ** 0.5
        return y / scale if y.shape != x.shape else (x + y) / scale

    step = onegraph.compile(f, options={"raise_compiler_errors": True})
    x = randn(8)
    for length in (3, 4, 8, 5):
        y = randn(length)
        torch.testing.assert_close(step(x, y), f(x, y))
