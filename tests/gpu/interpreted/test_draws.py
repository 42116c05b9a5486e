"""Random numbers drawn in kernels for GPUs: those of eager's kernels, which `gpu.philox` replays."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from compiler.graphs import compiled
from gpu.interpreted.interpreter import INTERPRETED
from gpu.philox import Generator
from torch import Tensor

from onegraph.compiler.pipeline import NativeGraph
from onegraph.compiler.target import Target
from onegraph.compiler.triton.gpu import H100, machine_of, schedule
from onegraph.torchlib import philox

aten = torch.ops.aten
SIZES = (1, 255, 256, 257, 2049, 20_000, 300_000)
FLOATS = (torch.float32, torch.float16, torch.bfloat16, torch.float64)


def gpu(multiprocessors: int) -> Target:
    """A GPU of so many multiprocessors, whose tensors are the CPU's."""
    machine = replace(machine_of(replace(H100, multiprocessors=multiprocessors)), runs_in_order=True)
    return replace(INTERPRETED, machine=machine, passes=schedule(machine))


class Drawing:
    """Graphs that draw, beside the replay: both have a generator with the same seed."""

    def __init__(self, multiprocessors: int, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
        self.target = gpu(multiprocessors)
        self.ours, self.theirs = (Generator(seed, 0, multiprocessors * 2048) for _ in range(2))
        monkeypatch.setattr(philox, "generator_of", lambda device: self.ours)

    def graph(self, function: Callable[..., Any], *inputs: Tensor, symbolic: Any = None) -> NativeGraph:
        found = compiled(function, *inputs, symbolic=symbolic, target=self.target)
        assert found.fallbacks == ()
        return found

    def check(self, found: Any, *expected: Tensor, near: float = 0.0) -> None:
        """The same numbers, and as many taken."""
        for ours, theirs in zip(found, expected, strict=True):
            torch.testing.assert_close(ours.flatten(), theirs.flatten(), rtol=near, atol=near)
        assert self.ours.offset == self.theirs.offset


@pytest.fixture
def draw(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Drawing]:
    return lambda multiprocessors=1, seed=1234567890123456789: Drawing(multiprocessors, seed, monkeypatch)


def test_the_numbers_that_torch_publishes(draw: Callable[..., Drawing]) -> None:
    """Of `torch.manual_seed(0)`, on a GPU."""
    drawing = draw(132, 0)
    (numbers,) = drawing.graph(lambda: (torch.rand(8),))()
    expected = torch.tensor([0.3990, 0.5167, 0.0249, 0.9401, 0.9459, 0.7967, 0.4150, 0.8203])
    torch.testing.assert_close(numbers, expected, rtol=0, atol=6e-5)
    drawing.ours.offset = 0
    (numbers,) = drawing.graph(lambda: (torch.randn(20),))()
    expected = torch.tensor(
        [-0.9247, -0.4253, -2.6438, 0.1452, -0.1209, -0.5797, -0.6229, -0.3284, -1.0745, -0.3631]
        + [-1.6711, 2.2655, 0.3117, -0.1842, 1.2866, 1.1820, -0.1271, 1.2169, 1.4353, 1.0605]
    )
    torch.testing.assert_close(numbers, expected, rtol=0, atol=6e-5)


@pytest.mark.parametrize("count", SIZES)
def test_sizes(draw: Callable[..., Drawing], count: int) -> None:
    """Fewer elements than threads, more of them, and more than all threads make with one call."""
    drawing = draw()

    def function() -> tuple[Tensor, ...]:
        return torch.rand(count), torch.randn(count), torch.randint(3, 11, (count,)), torch.rand(count)

    found = drawing.graph(function)()
    theirs = drawing.theirs
    uniform, normal = theirs.uniform(count, torch.float32), theirs.normal(count, torch.float32)
    integers = theirs.integers(count, torch.int64, 3, 11)
    rest = theirs.uniform(count, torch.float32)
    drawing.check((found[0], *found[2:]), uniform, integers, rest)
    torch.testing.assert_close(found[1], normal, rtol=2e-6, atol=2e-6)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("count", [257, 20_000])
def test_other_floats(draw: Callable[..., Drawing], dtype: torch.dtype, count: int) -> None:
    drawing = draw()

    def function() -> tuple[Tensor, ...]:
        x = torch.empty(count, dtype=dtype)
        return aten.uniform(x, -1.5, 3), aten.bernoulli(x, 0.3), aten.random(x), aten.exponential(x, 1.7)

    uniform, kept, whole, waits = drawing.graph(function)()
    theirs = drawing.theirs
    drawing_of = theirs.uniform(count, dtype, -1.5, 3), theirs.bernoulli(count, dtype, 0.3), theirs.random(count, dtype)
    torch.testing.assert_close(waits, theirs.exponential(count, dtype, 1.7))
    drawing.check((uniform, kept, whole), *drawing_of)


@pytest.mark.parametrize("dtype", [torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64], ids=str)
def test_integers(draw: Callable[..., Drawing], dtype: torch.dtype) -> None:
    drawing = draw()
    ends = {torch.bool: (0, 2), torch.uint8: (3, 200), torch.int64: (-(1 << 62), 1 << 61)}.get(dtype, (-5, 90))

    def function() -> tuple[Tensor, ...]:
        x = torch.empty(9000, dtype=dtype)
        return aten.random(x), torch.randint_like(x, *ends), torch.bernoulli(x, 0.1)

    theirs, found = drawing.theirs, drawing.graph(function)()
    expected = theirs.random(9000, dtype), theirs.integers(9000, dtype, *ends), theirs.bernoulli(9000, dtype, 0.1)
    drawing.check(found, *expected)


def test_ends_of_integers(draw: Callable[..., Drawing]) -> None:
    """From 2**28 numbers on they are made of two words."""
    for size in ((1 << 28) - 1, 1 << 28, (1 << 63) - 1):
        drawing = draw()
        found = drawing.graph(lambda size=size: (torch.randint(size, (5000,)),))()
        drawing.check(found, drawing.theirs.integers(5000, torch.int64, 0, size))


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_chances_of_elements(draw: Callable[..., Drawing], dtype: torch.dtype) -> None:
    drawing, chances = draw(), torch.rand(70, 111).to(dtype)
    found = drawing.graph(lambda x: (torch.bernoulli(x), torch.rand(3)), chances)(chances)
    drawing.check(found, drawing.theirs.bernoulli_by(chances), drawing.theirs.uniform(3, torch.float32))


def dropped(x: Tensor, p: float) -> tuple[Tensor, Tensor]:
    return aten.native_dropout(x, p, True)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("count", [1, 254, 1024, 20_001, 20_000, 100_000])
def test_a_dropout(draw: Callable[..., Drawing], dtype: torch.dtype, count: int) -> None:
    """A thread makes as many elements at once as 16 bytes hold, if their number is a multiple of that."""
    drawing, x = draw(), torch.randn(count).to(dtype)
    found = drawing.graph(lambda x: dropped(x + 1, 0.1), x)(x)
    wide = max(n for n in (1, 2, 4, 8) if n <= 16 // dtype.itemsize and count % n == 0)
    drawing.check(found, *drawing.theirs.dropout(x + 1, 0.1, wide))


@pytest.mark.parametrize("p", [0.0, 0.1, 0.9, 1.0])
def test_chances_of_a_dropout(draw: Callable[..., Drawing], p: float) -> None:
    """Nothing is drawn where nothing is kept."""
    drawing, x = draw(), torch.randn(40, 100)
    found = drawing.graph(lambda x: (*dropped(x + 1, p), torch.rand(5)), x)(x)
    nothing = torch.zeros_like(x), torch.zeros_like(x, dtype=torch.bool)
    expected = nothing if p == 1 else drawing.theirs.dropout(x + 1, p, 4)
    drawing.check(found, *expected, drawing.theirs.uniform(5, torch.float32))


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("count", [640, 40_000])
@pytest.mark.parametrize("begin", [0, 1, 2, 4, 6])
def test_a_dropout_of_what_begins_anywhere(
    draw: Callable[..., Drawing], dtype: torch.dtype, count: int, begin: int
) -> None:
    """How many elements a thread makes at once depends on where they are in memory, also in a graph's input."""
    drawing, memory = draw(), torch.randn(count + 16).to(dtype)
    assert memory.data_ptr() % 16 == 0
    x = memory[begin : begin + count]
    wide = max(n for n in (1, 2, 4, 8) if n <= 16 // dtype.itemsize and begin % n == 0)
    drawing.check(drawing.graph(lambda x: dropped(x, 0.3), x)(x), *drawing.theirs.dropout(x, 0.3, wide))
    inside = drawing.graph(lambda x: dropped((x * 2)[begin : begin + count], 0.3), memory)
    drawing.check(inside(memory), *drawing.theirs.dropout(x * 2, 0.3, wide))
    of_input = drawing.graph(lambda x: dropped(x[begin : begin + count], 0.3), memory)
    drawing.check(of_input(memory), *drawing.theirs.dropout(x, 0.3, wide))


@pytest.mark.parametrize("count", [64, 9999, 10_000])
def test_a_dropout_of_what_is_turned(draw: Callable[..., Drawing], count: int) -> None:
    """Elements go as they are in memory where a thread makes several at once, else row by row."""
    drawing, x = draw(), torch.randn(count, 3 if count % 2 else 4)
    value, mask = drawing.graph(lambda x: dropped((x * 2).t(), 0.3), x)(x)
    turned = (x * 2).t()
    if count % 2:
        expected = drawing.theirs.dropout(turned.contiguous(), 0.3, 1)
    else:
        expected = tuple(each.t() for each in drawing.theirs.dropout(x * 2, 0.3, 4))
    drawing.check((value.contiguous(), mask.contiguous()), *(each.contiguous() for each in expected))


def test_sizes_that_are_known_at_the_call(draw: Callable[..., Drawing]) -> None:
    drawing, x = draw(), torch.randn(300, 7)

    def function(x: Tensor) -> tuple[Tensor, ...]:
        value, mask = dropped(x * 2, 0.2)
        return torch.rand_like(x), value, mask, torch.bernoulli(mask.float() / 2), torch.randint_like(x, 9)

    graph = drawing.graph(function, x, symbolic={(0, 0): "n"})
    for rows in (300, 3, 4, 4000, 1, 0, 2):
        x, theirs = torch.randn(rows, 7), drawing.theirs
        wide = next(n for n in (4, 2, 1) if rows % n == 0)
        value, mask = theirs.dropout(x * 2, 0.2, wide) if rows else (x, x)
        uniform = theirs.uniform(7 * rows, torch.float32)
        chances = theirs.bernoulli_by(mask.float() / 2) if rows else x
        integers = theirs.integers(7 * rows, torch.float32, 0, 9)
        drawing.check(graph(x), uniform, value, mask.to(torch.bool), chances, integers)


def test_what_a_draw_gives_is_computed_where_it_is_needed(draw: Callable[..., Drawing]) -> None:
    drawing, x = draw(), torch.randn(40, 50)
    graph = drawing.graph(lambda x: ((torch.rand_like(x) * x).sum(1),), x)
    assert graph.kernels == 1
    drawing.check(graph(x), (drawing.theirs.uniform(2000, torch.float32).view(40, 50) * x).sum(1), near=1e-5)


def test_draws_without_anything_between_are_taken_at_once(draw: Callable[..., Drawing]) -> None:
    drawing = draw()
    graph = drawing.graph(lambda: (torch.rand(5), torch.randn(9000), torch.rand(5)))
    assert graph.text("memory").count("philox_state") == 1
    graph()
    assert drawing.ours.offset == 4 + 8 + 4
