"""Graphs from aten to native code, compared with eager: layouts, types, sizes, aliases, errors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from compiler.graphs import check, compare, compiled
from torch import Tensor, randn

import onegraph

CLOSE = {"rtol": 2e-5, "atol": 1e-5}


def strange(kind: str, *shape: int) -> Tensor:
    """A tensor of this shape with an uncommon layout."""
    match kind:
        case "transposed":
            return randn(*reversed(shape)).permute(*reversed(range(len(shape))))
        case "stepped":
            return randn(*shape[:-1], shape[-1] * 3)[..., ::3]
        case "expanded":
            return randn(1, *shape[1:]).expand(*shape)
        case "offset":
            return randn(shape[0] + 2, *shape[1:])[2:]
        case "overlapping":
            return randn(sum(shape)).as_strided(shape, (1,) * len(shape))
        case "channels last":
            return randn(*shape).contiguous(memory_format=torch.channels_last)
    raise ValueError(kind)


LAYOUTS = ("transposed", "stepped", "expanded", "offset", "overlapping", "channels last")


@pytest.mark.parametrize("kind", LAYOUTS)
def test_layouts(kind: str) -> None:
    x, y = strange(kind, 3, 4, 5, 70), randn(3, 4, 5, 70)
    check(lambda x, y: (x * 2 + y, x.exp()), x, y, kernels=1, **CLOSE)
    check(lambda x: (x.sum(1), x.amax((0, 3)), x.mean()), x, **CLOSE)
    check(lambda x, y: torch.softmax(x, -1) + y, x, y, **CLOSE)
    check(lambda x: x.transpose(1, 3).contiguous(), x, exact=True)


MOVES: dict[str, Callable[[Tensor], Any]] = {
    "reshape": lambda x: x.view(2, 3, 4, 5).permute(2, 0, 1, 3).reshape(8, 15) * 2,
    "heads": lambda x: (x.view(6, 4, 5).transpose(0, 1).reshape(4, 30) + 1).sum(1),
    "slices": lambda x: x[1:, ::2] + x[:-1, 1::2],
    "flips": lambda x: x.flip(0) * x.flip(-1),
    "split": lambda x: [piece * 2 for piece in x.split(4)],
    "expand": lambda x: x.unsqueeze(1).expand(6, 3, 20) + 1,
    "diagonal": lambda x: x.diagonal(1) + 1,
    "unfold": lambda x: x.unfold(1, 3, 2) * 2,
    "squeeze": lambda x: (x.unsqueeze(0).squeeze() + 1, x.select(1, -1)),
    "input": lambda x: (x, x, x + 1),
    "square": lambda x: x[:, :6] + x[:, :6].t(),
    "chain": lambda x: x.t().contiguous().view(-1).flip(0)[3:50].view(47),
}


@pytest.mark.parametrize("name", MOVES)
def test_moves(name: str) -> None:
    check(MOVES[name], torch.arange(120.0).view(6, 20), exact=True)


@pytest.mark.parametrize("shape", [(), (1,), (0,), (0, 4), (4, 0), (1, 1, 1), (5, 1, 3), (2, 3, 1, 65)])
def test_sizes(shape: tuple[int, ...]) -> None:
    check(lambda x: (x + 1, x * x.sum(), x.exp().sum(-1) if x.dim() else x), randn(shape), **CLOSE)


TYPES = (torch.float32, torch.float64, torch.bfloat16, torch.float16, torch.int32, torch.int64, torch.int8, torch.uint8)


@pytest.mark.parametrize("dtype", [*TYPES, torch.bool], ids=str)
def test_types(dtype: torch.dtype) -> None:
    x, y = (torch.randint(0, 7, (33, 18)).to(dtype) for _ in range(2))
    check(lambda x, y: (x + y, x * y, x > y, torch.where(x == y, x, y), torch.maximum(x, y)), x, y, exact=True)
    check(lambda x: (x.sum(0), x.sum(), x.amax(1), (x > 2).any(1)), x, exact=True)
    for to in (torch.float32, torch.bfloat16, torch.int64, torch.bool):
        check(lambda x, to=to: x.to(to), x, exact=True)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_sixteen_bits_round_where_eager_rounds(dtype: torch.dtype) -> None:
    x, y = ((randn(50, 70) * 1e3**power).to(dtype) for power in (1, -1))
    check(lambda x, y: (x * y + x - y, (x * y).to(torch.float32)), x, y, exact=True)
    tiny = torch.tensor([2.0**-126, 2.0**-130, -(2.0**-133), 6e-8, 0.0, -0.0, float("nan"), float("inf")], dtype=dtype)
    check(lambda x: (x * 0.5, x + x, x.to(torch.float32)), tiny, exact=True)


SPECIAL = [0.0, -0.0, 1e-45, -1e-38, 3.4e38, float("inf"), -float("inf"), float("nan"), 1.0, -2.5]


def test_special_values() -> None:
    x = torch.tensor(SPECIAL).repeat(7)
    y = torch.tensor(SPECIAL).repeat_interleave(7)

    def functions(x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
        return x + y, x * y, x / y, x - y, torch.maximum(x, y), torch.minimum(x, y), x > y, x == y, torch.relu(x), -x

    graph = check(functions, x, y, exact=True)
    for result, want in zip(graph(x, y), functions(x, y), strict=True):
        assert torch.equal(torch.signbit(result), torch.signbit(want)) or want.isnan().any()
    check(lambda x: (x.amax(), x.amin(), x.sum(), x[:4].sum(), x[:6].amax()), x, exact=True)
    check(lambda x: (torch.argmax(x), torch.argmin(x), torch.argmax(x[:6])), x, fallbacks=None, exact=True)


def test_views_of_one_memory() -> None:
    x = randn(40)
    check(lambda a, b: (a + b, a * 2), x[:20], x[10:30], exact=True)
    check(lambda a, b: a + b.t(), x[:36].view(6, 6), x[:36].view(6, 6), exact=True)


def test_library_calls_see_views_and_give_views() -> None:
    check(lambda a, b: torch.relu(a.t() @ (b + 1)), randn(6, 5), randn(6, 7), kernels=2, fallbacks=1, **CLOSE)
    check(lambda a, b: (a.view(2, 3, 4) @ b).transpose(1, 2) * 2, randn(6, 4), randn(2, 4, 5), fallbacks=1, **CLOSE)
    check(lambda x: x.flip(0)[1:].cumsum(0) + 1, randn(6, 4), fallbacks=None, **CLOSE)


def test_complex_is_left_to_the_library() -> None:
    check(lambda x: (x * x).real + 1, torch.randn(5, 4, dtype=torch.complex64), fallbacks=None, **CLOSE)


def test_many_calls_of_one_graph_share_nothing() -> None:
    graph = compiled(lambda x: torch.softmax(x * 2, -1) @ x.t(), randn(8, 8))
    inputs = [randn(8, 8) for _ in range(5)]
    results = [graph(x)[0] for x in inputs]
    for x, result in zip(inputs, results, strict=True):
        compare([result], torch.softmax(x * 2, -1) @ x.t(), **CLOSE)


def test_memory_of_operands_is_not_written() -> None:
    x = randn(300, 40)
    copy = x.clone()
    graph = compiled(lambda x: ((x.exp() @ x.t()).tanh().sum(1) + 1, x * 2), x)
    graph(x)
    assert torch.equal(x, copy)


def test_equal_kernels_are_compiled_once() -> None:
    def layers(x: Tensor, w: Tensor) -> Tensor:
        for _ in range(4):
            x = torch.softmax(x @ w, -1) + 1
        return x

    graph = check(layers, randn(5, 9), randn(9, 9), fallbacks=4, **CLOSE)
    assert graph.kernels == 4 and len(graph.plan.kernels) == 1


def test_long_work_is_shared_out() -> None:
    x, y = randn(700, 1000), randn(1000)
    threads = torch.get_num_threads()
    try:
        for count in (1, 2, 3):
            torch.set_num_threads(count)
            check(lambda x, y: (x.tanh() * y, x.sum(), x.sum(0), torch.softmax(x, 1)), x, y, rtol=1e-4, atol=1e-4)
    finally:
        torch.set_num_threads(threads)


def test_long_sums_are_exact_enough() -> None:
    x = torch.rand(1 << 21)
    (result,) = compiled(lambda x: x.sum(), x)(x)
    assert abs(result.item() - x.double().sum().item()) < 0.5
    x = torch.rand(1 << 15, 3)
    (result,) = compiled(lambda x: x.sum(0), x)(x)
    torch.testing.assert_close(result, x.double().sum(0).float(), rtol=2e-6, atol=0)


def test_every_stage_has_a_text() -> None:
    graph = compiled(lambda x: torch.softmax(x, -1), randn(4, 30))
    texts = {stage: graph.text(stage) for stage in ("aten", "loops", "fused", "memory", "llvm", "asm")}
    assert "_softmax" in texts["aten"] and "exp(" in texts["loops"] and "vector" in texts["fused"]
    assert "define i64 @" in texts["llvm"] and "ret" in texts["asm"]
    with pytest.raises(ValueError, match="unknown stage 'nothing'; accepted: aten"):
        graph.text("nothing")


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64, torch.int64, torch.bool], ids=str)
@pytest.mark.parametrize("shape", [(100, 37), (16, 16), (17, 33), (3, 40, 50)], ids=str)
def test_transposition_in_tiles(shape: tuple[int, ...], dtype: torch.dtype) -> None:
    x, y = (torch.randint(0, 99, shape).to(dtype) for _ in range(2))
    graph = check(lambda x: x.transpose(-1, -2).contiguous(), x, kernels=1, exact=True)
    assert "across" in graph.text("fused")
    y = y.transpose(-1, -2).contiguous()
    check(lambda x, y: torch.maximum(x.transpose(-1, -2), y), x, y, kernels=1, exact=True)


def test_of_two_zeros_the_second_is_the_larger_and_the_smaller() -> None:
    """Where eager computes whole vectors, it is so there too."""
    zeros = torch.zeros(64)

    def extremes(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return torch.maximum(x, y), torch.minimum(x, y), x.clamp(min=0.0), x.clamp(max=0.0)

    for x, y in ((zeros, -zeros), (-zeros, zeros)):
        actual, expected = onegraph.compile(extremes)(x, y), extremes(x, y)
        for a, b in zip(actual, expected, strict=True):
            assert torch.equal(a.signbit(), b.signbit())
