"""Runs a Python function as a captured graph would run, without capture."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.fx import Graph, GraphModule

from onegraph.autograd.graphs import FunctionalGraph, functional_graph
from onegraph.autograd.runtime import bind
from onegraph.base.context import Context
from onegraph.torchlib.fake import FakeMode


def as_module(function: Callable[..., Any], inputs: int) -> GraphModule:
    """A captured graph of one node that calls the function."""
    graph = Graph()
    placeholders = [graph.placeholder(f"x{i}") for i in range(inputs)]
    graph.output(graph.call_function(function, tuple(placeholders)))
    return GraphModule({}, graph)


def functional(function: Callable[..., Any], *inputs: torch.Tensor) -> FunctionalGraph:
    """The functional graph of a function of tensors that returns a tuple."""
    mode = FakeMode()
    return functional_graph(as_module(function, len(inputs)), [mode.fakeify(x) for x in inputs], Context())


def operators(graph: FunctionalGraph) -> list[str]:
    """The names of the operators, in order, without the plumbing."""
    names = [str(node.target) for node in graph.module.graph.nodes if node.op == "call_function"]
    return [name.removeprefix("aten.").removesuffix(".default") for name in names if "getitem" not in name]


def check(function: Callable[..., Any], *inputs: torch.Tensor) -> FunctionalGraph:
    """The functional graph does to its inputs and returns what the function does, and its outputs alias likewise."""
    graph = functional(function, *inputs)
    theirs, ours = copied(inputs), copied(inputs)
    with torch.no_grad():
        torch.manual_seed(0)
        expected = function(*theirs)
        torch.manual_seed(0)
        actual = bind(graph.spec, graph.module.forward)(*ours)
    assert len(actual) == len(expected)
    for a, b in zip((*actual, *ours), (*expected, *theirs), strict=True):
        same(a, b)
    assert sharing((*actual, *ours)) == sharing((*expected, *theirs))
    written = [x for x in expected if isinstance(x, torch.Tensor) and not x.is_conj() and 0 not in x.stride()]
    for a, b in zip(actual, expected, strict=True):
        if any(b is x for x in written) and b.is_floating_point():
            a.fill_(7)
            b.fill_(7)
    for a, b in zip((*actual, *ours), (*expected, *theirs), strict=True):
        same(a, b)  # what else changed when the outputs were written to
    return graph


def copied(inputs: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """The same tensors, with their strides and offsets, in memory of their own."""
    fresh = [torch.empty(0, dtype=x.dtype) for x in inputs]
    storages = [x.untyped_storage().clone() for x in inputs]
    return [
        new.set_(storage, x.storage_offset(), x.shape, x.stride())
        for new, storage, x in zip(fresh, storages, inputs, strict=True)
    ]


def same(a: Any, b: Any) -> None:
    if not isinstance(b, torch.Tensor):
        assert a == b
        return
    assert (a.shape, a.stride(), a.dtype) == (b.shape, b.stride(), b.dtype)
    torch.testing.assert_close(a, b, rtol=0, atol=0, equal_nan=True)


def sharing(values: Sequence[Any]) -> list[tuple[int, bool]]:
    """For each tensor, the first that has its storage, and whether it is the same object."""
    tensors = [value for value in values if isinstance(value, torch.Tensor)]
    found = []
    for tensor in tensors:
        place = tensor.untyped_storage().data_ptr()
        first = next(n for n, other in enumerate(tensors) if other.untyped_storage().data_ptr() == place)
        found.append((first, tensors[first] is tensor))
    return found
