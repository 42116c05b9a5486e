"""What kernels for GPUs must get right and chance seldom asks for: special values, ties, widths, lanes at the end."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from compiler.graphs import compare, compiled
from gpu.interpreted.interpreter import INTERPRETED
from torch import Tensor

from onegraph.compiler.pipeline import NativeGraph

nan, inf = float("nan"), float("inf")


def check(function: Callable[..., Any], *inputs: Tensor, symbolic: Any = None, **tolerance: float) -> NativeGraph:
    """The graph runs as kernels alone, and gives what eager does."""
    graph = compiled(function, *inputs, symbolic=symbolic, target=INTERPRETED, sanitize=True)
    assert graph.fallbacks == (), graph.fallbacks
    compare(graph(*inputs), function(*inputs), **tolerance)
    return graph


def test_a_gelu_over_a_sum() -> None:
    graph = check(lambda x, y: F.gelu(x + y), torch.randn(33, 70), torch.randn(33, 70))
    assert graph.kernels == 1


def test_a_softmax_holds_its_rows_in_registers() -> None:
    graph = check(lambda x: torch.softmax(x * 3, -1), torch.randn(40, 200))
    assert graph.kernels == 1
    text = graph.text("triton")
    assert text.count("tl.load") == 1 and "for " not in text


def test_a_long_row_is_looked_at_in_blocks() -> None:
    graph = check(lambda x: torch.softmax(x * 3, -1), torch.randn(3, 5000))
    assert "for begin" in graph.text("triton")


@pytest.mark.parametrize("shape", [(40, 70), (3, 40, 70), (64, 64)], ids=str)
def test_what_is_turned_is_turned_in_tiles(shape: tuple[int, ...]) -> None:
    graph = check(lambda x: x.transpose(-1, -2).contiguous() + 1, torch.randn(shape))
    assert "YBLOCK" in graph.text("triton")


SPECIAL = torch.tensor(
    [[nan, 1.0, 2.0, nan], [-inf, -inf, -inf, -inf], [inf, 1.0, inf, 0.0], [0.0, -0.0, -0.0, 0.0], [1, 5, 5, 3]]
)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: (x.amax(1), x.amin(1), x.sum(1), x.prod(1)),
        lambda x: (x.argmax(1), x.argmin(1), x.argmax(), x.argmin()),
        lambda x: (x.max(1).indices, x.min(1).indices, x.max(0).values),
        lambda x: (torch.maximum(x, x.flip(1)), torch.minimum(x, x.flip(1)), x.clamp(-1, 1)),
        lambda x: (x.sign(), x.isnan(), x.isinf(), torch.signbit(x), x.relu(), x.nan_to_num()),
        lambda x: ((x > 0).any(1), (x > 0).all(1), x.cummax(1).values, x.cumsum(1)),
        lambda x: (x.to(torch.bfloat16), x.half(), x.double(), x.bool()),
    ],
    ids=range(7),
)
def test_special_values(function: Callable[..., Any]) -> None:
    check(function, SPECIAL)


@pytest.mark.parametrize("dtype", [torch.int8, torch.int32, torch.int64, torch.uint8], ids=str)
def test_division_and_shifts_of_integers(dtype: torch.dtype) -> None:
    values = torch.tensor(
        [0, 1, 2, 7, 100, 127] + ([-1, -7, -100, -128] if dtype.is_signed else [200, 255]), dtype=dtype
    )
    x, y = values.repeat_interleave(len(values)), values.repeat(len(values))
    y = torch.where(y == 0, 3, y)

    def function(x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
        signs = (x.neg(), x.abs(), x.sign()) if x.dtype.is_signed else ()
        return x // y, x % y, torch.div(x, y, rounding_mode="trunc"), x + y, x * y, x << 3, x >> 2, ~x, x ^ y, *signs

    check(function, x, y, exact=True)


def test_numbers_that_do_not_fit_wrap_around() -> None:
    x = torch.tensor([0.0, 1.9, -1.9, 127.5, 128.0, 200.7, 255.0])
    check(lambda x: (x.to(torch.int8), x.to(torch.uint8), x.to(torch.int32), x.to(torch.int64)), x, exact=True)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64], ids=str)
def test_other_floats(dtype: torch.dtype) -> None:
    x, y = torch.randn(17, 60).to(dtype), torch.randn(17, 60).to(dtype)
    near = {} if dtype is torch.float64 else {"rtol": 2e-2, "atol": 2e-2}
    check(lambda x, y: (x * y + 0.1, F.gelu(x), torch.softmax(x + y, -1), (x / y).sum(0), x.sigmoid()), x, y, **near)


def test_sizes_that_are_known_at_the_call() -> None:
    def function(x: Tensor) -> tuple[Tensor, ...]:
        return x.t().contiguous() + 1, x.sum(1), x.softmax(0), x.flatten()[::2] * 2

    graph = compiled(
        function, torch.randn(40, 70), symbolic={(0, 0): "n", (0, 1): "m"}, target=INTERPRETED, sanitize=True
    )
    for shape in ((40, 70), (3, 5), (1, 2000), (70, 40)):
        x = torch.randn(shape)
        compare(graph(x), function(x))


def test_rows_that_are_looked_up_and_added_to() -> None:
    table, at = torch.randn(50, 16), torch.randint(0, 50, (7, 9))
    check(lambda table, at: (F.embedding(at, table) * 2, table[at[0]].sum(0)), table, at)
    check(lambda x, at, y: x.index_put((at,), y, accumulate=True), torch.zeros(50, 16), at, torch.randn(7, 9, 16))


def test_a_loop_whose_iterations_see_each_other() -> None:
    check(lambda x: (x.cumsum(0), x.cumsum(1), x.cumprod(1), x.logcumsumexp(1)), torch.randn(9, 30))


def test_windows_at_the_edge() -> None:
    def function(x: Tensor) -> tuple[Tensor, ...]:
        pooled = F.max_pool2d(x, 3, 2, 1), F.avg_pool2d(x, 3, 2, 1, ceil_mode=True)
        return *pooled, F.pad(x, (1, 2, 2, 1), "reflect")

    check(function, torch.randn(2, 3, 13, 11))


def test_a_total_of_many() -> None:
    check(lambda x: (x.sum(), x.mean(), x.amax(), x.var()), torch.randn(400, 1000), rtol=1e-4, atol=1e-4)


def test_nothing() -> None:
    check(lambda x: (x + 1, x.sum(1), x.sum(0)), torch.randn(0, 5))
