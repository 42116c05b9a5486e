"""Rows that are read twice: while the second loop runs, the next row is on its way from memory."""

from __future__ import annotations

import pytest
import torch
from compiler.graphs import record

from onegraph.base.context import Context
from onegraph.compiler import compile_graph
from onegraph.compiler.cpu import CPU


@pytest.mark.parametrize(("columns", "asks"), [(512, False), (20_000, True), (20_011, True), (300_000, False)])
@pytest.mark.parametrize("way", ["softmax", "cross_entropy"])
def test_the_next_row_is_asked_for(way: str, columns: int, asks: bool) -> None:
    x, target = torch.randn(70, columns), torch.randint(columns, (70,))

    def function(x: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        return x.softmax(-1) if way == "softmax" else torch.nn.functional.cross_entropy(x, target)

    graph = compile_graph(record(function, x, target), Context(), CPU)
    assert ("@llvm.prefetch" in graph.text("llvm")) is asks
    (found,) = graph(x, target)
    torch.testing.assert_close(found, function(x, target))


def test_a_row_that_is_read_once_asks_for_nothing() -> None:
    x = torch.randn(7, 20_000)
    graph = compile_graph(record(lambda x: (x.sum(-1), x + 1), x), Context(), CPU)
    assert "@llvm.prefetch" not in graph.text("llvm")
