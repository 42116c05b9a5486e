"""Compiled kernels are shared by the graphs that live, and freed with the last of them."""

from __future__ import annotations

import gc

import torch
from compiler.graphs import compiled

from onegraph.compiler.codegen import kernels
from onegraph.ir.plan import Launch


def test_kernels_die_with_their_graphs() -> None:
    x = torch.randn(30)
    gc.collect()
    before = len(kernels._CACHE)
    first = compiled(lambda x: (x * 3.141).sin(), x)
    second = compiled(lambda x: (x * 3.141).sin(), x)
    assert first.addresses == second.addresses
    assert len(kernels._CACHE) == before + 1
    del first
    torch.testing.assert_close(second(x)[0], (x * 3.141).sin())
    run = second.run
    del second
    gc.collect()
    torch.testing.assert_close(run(x)[0], (x * 3.141).sin())
    del run
    gc.collect()
    assert len(kernels._CACHE) == before


def test_equal_layers_are_compiled_once() -> None:
    """Each kernel of a layer is one, however many layers there are."""

    def layers(x: torch.Tensor, w: torch.Tensor, count: int) -> torch.Tensor:
        for _ in range(count):
            normed = torch.nn.functional.layer_norm(x, (64,))
            x = x + torch.nn.functional.gelu(normed @ w) @ w
        return x

    x, w = torch.randn(8, 64), torch.randn(64, 64) / 8
    graphs = [compiled(lambda x, w, n=n: layers(x, w, n), x, w) for n in (8, 24)]
    assert [graph.kernels for graph in graphs] == [2 * 8 + 1, 2 * 24 + 1]
    assert len(graphs[0].plan.kernels) == len(graphs[1].plan.kernels) <= 8
    assert max(len(step.operands) for step in graphs[1].plan.steps if isinstance(step, Launch)) <= 6
