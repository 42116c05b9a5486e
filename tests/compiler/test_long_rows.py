"""What is on its way from memory while a loop runs: the next row, where two read each; what a stream reads next."""

from __future__ import annotations

import pytest
import torch
from compiler.graphs import record

from onegraph.base.context import Context
from onegraph.compiler import compile_graph
from onegraph.compiler.codegen.memory import AHEAD
from onegraph.compiler.cpu import CPU


def asked_for(text: str) -> set[int]:
    """How many bytes behind what is read, in the code of kernels, something is that they ask for."""
    if "@llvm.prefetch" not in text:
        return set()
    return {int(line.rpartition(" i64 ")[2]) for line in text.splitlines() if "getelementptr i8, ptr %v" in line}


@pytest.mark.parametrize(("columns", "asks"), [(512, False), (20_000, True), (20_011, True), (300_000, False)])
@pytest.mark.parametrize("way", ["softmax", "cross_entropy"])
def test_the_next_row_is_asked_for(way: str, columns: int, asks: bool) -> None:
    x, target = torch.randn(70, columns), torch.randint(columns, (70,))

    def function(x: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        return x.softmax(-1) if way == "softmax" else torch.nn.functional.cross_entropy(x, target)

    graph = compile_graph(record(function, x, target), Context(), CPU)
    assert (4 * columns in asked_for(graph.text("llvm"))) is asks
    (found,) = graph(x, target)
    torch.testing.assert_close(found, function(x, target))


def test_a_row_that_is_read_once_asks_for_nothing() -> None:
    x = torch.randn(7, 20_000)
    graph = compile_graph(record(lambda x: (x.sum(-1), x + 1), x), Context(), CPU)
    assert not asked_for(graph.text("llvm"))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int8])
@pytest.mark.parametrize(("rows", "asks"), [(64, False), (2048, True), (2047, True)])
def test_a_stream_asks_ahead(rows: int, asks: bool, dtype: torch.dtype) -> None:
    weight, x = torch.randint(-9, 9, (rows, 1024)).to(dtype), torch.randint(-9, 9, (1024,)).float()

    def product(weight: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        return (weight.float() * x).sum(-1)

    graph = compile_graph(record(product, weight, x), Context(), CPU)
    assert (AHEAD in asked_for(graph.text("llvm"))) is asks
    (found,) = graph(weight, x)
    torch.testing.assert_close(found, product(weight, x))


def test_what_is_read_again_and_again_is_no_stream() -> None:
    x, y = torch.randn(1, 1024, 512), torch.randn(64, 1024, 512)
    graph = compile_graph(record(lambda x, y: x + y, x, y), Context(), CPU)
    assert graph.text("llvm").count("call void @llvm.prefetch") == 2  # the lines of one vector of y
    (found,) = graph(x, y)
    torch.testing.assert_close(found, x + y)
