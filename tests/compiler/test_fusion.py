"""How many kernels graphs become, and that what ought to be one is one."""

from __future__ import annotations

import pytest
import torch
from compiler.graphs import check
from torch import Tensor, randn
from torch.nn import functional as F

CLOSE = {"rtol": 2e-5, "atol": 1e-5}


def softmax(x: Tensor) -> Tensor:
    e = torch.exp(x - x.amax(-1, keepdim=True))
    return e / e.sum(-1, keepdim=True)


def layer_norm(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
    centered = x - x.mean(-1, keepdim=True)
    return centered * torch.rsqrt((centered * centered).mean(-1, keepdim=True) + 1e-5) * w + b


def test_softmax_is_one_kernel() -> None:
    x = randn(40, 6, 700)
    graph = check(softmax, x, kernels=1, **CLOSE)
    assert graph.text("fused").count("exp(") == 1
    check(lambda x: torch.softmax(x * 0.5 + 1, -1), x, kernels=1, **CLOSE)
    check(lambda x: torch.log_softmax(x, 1), x, kernels=1, **CLOSE)


def test_what_is_kept_for_the_next_loop_is_kept_for_every_lane() -> None:
    x, y = randn(16, 2, 20, 1), randn(20, 1)
    graph = check(lambda x, y: torch.softmax(torch.softmax(y, 0) * x, 1), x, y, **CLOSE)
    assert "local" in graph.text("fused") and "vector i" in graph.text("fused")
    check(lambda x: torch.softmax(x.exp().transpose(0, 1), 0), randn(70, 9), **CLOSE)


def test_layer_norm_is_one_kernel() -> None:
    x, w, b = randn(30, 6, 700), randn(700), randn(700)
    check(layer_norm, x, w, b, kernels=1, **CLOSE)
    check(lambda x, w, b: F.layer_norm(x, (700,), w, b), x, w, b, kernels=1, **CLOSE)


def test_what_surrounds_a_reduction_joins_it() -> None:
    def block(x: Tensor, y: Tensor, w: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
        total = x + y
        return total, torch.tanh(layer_norm(total, w, b)) * 2

    check(block, randn(64, 300), randn(64, 300), randn(300), randn(300), kernels=1, **CLOSE)


def test_columns_reduce_with_their_rows() -> None:
    check(lambda x: (x.sum(0), x.amax(0), x * 2), randn(50, 40), kernels=1, **CLOSE)
    check(lambda x: (x - x.mean((0, 2), keepdim=True)).sum((0, 2)), randn(20, 30, 40), kernels=1, rtol=1e-3, atol=1e-3)


def test_independent_work_on_one_input_is_one_kernel() -> None:
    check(lambda x: (x.exp(), x.tanh(), (x + 1).t()), randn(60, 50), kernels=1, **CLOSE)


def test_cheap_values_are_computed_again_and_expensive_ones_are_not() -> None:
    check(lambda x: ((x + 1) @ x, (x + 1).sum(1) + (x + 1).sum(0)), randn(200, 200), fallbacks=1, rtol=1e-3, atol=1e-3)

    def twice(x: Tensor) -> Tensor:
        e = x.exp()
        return e.t() + e

    graph = check(twice, randn(300, 300), **CLOSE)
    assert graph.text("fused").count("exp(") == 1


def test_no_fusion_across_what_must_come_between() -> None:
    def between(x: Tensor) -> Tensor:
        y = x.exp()
        return (y @ x).sum(1) + y.sum(1)

    check(between, randn(40, 40), fallbacks=1, rtol=1e-3, atol=1e-3)


def test_rotated_positions_are_one_kernel() -> None:
    def rotate(x: Tensor, c: Tensor, s: Tensor) -> Tensor:
        return x * c + torch.cat([-x[..., 32:], x[..., :32]], -1) * s

    check(rotate, randn(1, 12, 50, 64), randn(50, 64), randn(50, 64), kernels=1, **CLOSE)


@pytest.mark.parametrize("rows", [1, 3, 200])
def test_losses(rows: int) -> None:
    target = torch.randint(0, 50, (rows,))
    check(lambda x, t: F.cross_entropy(x, t), randn(rows, 50), target, fallbacks=None, **CLOSE)


def test_a_gelu_is_one_kernel() -> None:
    check(lambda x: F.gelu(x), randn(100, 70), kernels=1, **CLOSE)
    check(lambda x: F.gelu(x, approximate="tanh") * 2, randn(100, 70), kernels=1, **CLOSE)


@pytest.mark.parametrize("rows", [32, 33, 39, 40])
def test_rows_of_a_tile_that_does_not_fit_are_not_looked_at(rows: int) -> None:
    """Positions behind the last row are whatever stands in memory there: reading them failed a check."""

    def select(x: Tensor, indices: Tensor) -> tuple[Tensor, Tensor]:
        rows = x.index_select(0, indices)
        return rows + 0, torch.minimum(rows, x) * 2

    x = torch.randint(-5, 6, (64, rows)).t()
    room = torch.full((rows + 16,), 1 << 40)
    indices = room[:rows].copy_(torch.arange(rows) * 7 % 11)
    graph = check(select, x, indices)
    assert "across" in graph.text("fused")


def test_groups_do_not_wait_for_each_other() -> None:
    """A kernel that the total waits for wants the mean of each row early: sums of rows must not join the last one."""

    def function(x: Tensor) -> tuple[Tensor, ...]:
        total = x.sum() + 1
        return F.layer_norm(x, (70,)), total, torch.where(x > total, x, total) - total

    check(function, randn(17, 5, 70), **CLOSE)
