"""Random graphs equal eager; the checker runs after every pass."""

from __future__ import annotations

import pytest
import torch
from compiler.graphs import compare, compiled
from compiler.random_graphs import RandomGraph

TOLERANCE = {torch.float32: 1e-4, torch.float64: 1e-9}


def run(seeds: range) -> None:
    for seed in seeds:
        graph = RandomGraph(seed)
        expected = graph.function(*graph.inputs)
        tolerance = TOLERANCE.get(graph.dtype, 0.1)
        try:
            results = compiled(graph.function, *graph.inputs)(*graph.inputs)
            compare(results, expected, rtol=tolerance, atol=tolerance)
        except Exception as error:
            error.add_note(f"RandomGraph({seed}), {graph.dtype}")
            raise


@pytest.mark.parametrize("start", range(0, 120, 20))
def test_random_graphs(start: int) -> None:
    run(range(start, start + 20))


@pytest.mark.slow
@pytest.mark.parametrize("start", range(1000, 6000, 100))
def test_many_random_graphs(start: int) -> None:
    run(range(start, start + 100))


def symbolic_dims(graph: RandomGraph) -> dict[tuple[int, int], str]:
    """Every size of 2 or more as one that is known at the call only; equal sizes are one symbol."""
    return {
        (number, dim): f"n{size}"
        for number, tensor in enumerate(graph.inputs)
        for dim, size in enumerate(tensor.shape)
        if size >= 2 and tensor.is_contiguous()
    }


@pytest.mark.parametrize("seeds", [range(200, 230), pytest.param(range(6000, 7000), marks=pytest.mark.slow)])
def test_random_graphs_of_unknown_sizes(seeds: range) -> None:
    for seed in seeds:
        graph = RandomGraph(seed)
        dims = symbolic_dims(graph)
        if dims:
            tolerance = TOLERANCE.get(graph.dtype, 0.1)
            results = compiled(graph.function, *graph.inputs, symbolic=dims)(*graph.inputs)
            compare(results, graph.function(*graph.inputs), rtol=tolerance, atol=tolerance)
