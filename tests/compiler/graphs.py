"""Aten graphs for the tests of the compiler: recorded from functions on fake tensors."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor
from torch.fx import GraphModule

from onegraph.base.config import Config
from onegraph.base.context import Context
from onegraph.compiler import compile_graph
from onegraph.compiler.cpu import CPU
from onegraph.compiler.pipeline import NativeGraph
from onegraph.compiler.target import Target
from onegraph.torchlib.fake import FakeMode
from onegraph.torchlib.recorder import AtenRecorder

CHECKED = Config(verify=True, cache=False)
SymbolicDims = Mapping[tuple[int, int], str]  # (input, dimension) -> name of its size


def record(function: Callable[..., Any], *inputs: Tensor, symbolic: SymbolicDims | None = None) -> GraphModule:
    """The aten graph of a functional function; the dimensions in `symbolic` have sizes known at the call only."""
    fake = FakeMode()
    recorder = AtenRecorder(fake, {})
    named: dict[str, Any] = {}
    fakes = []
    for number, tensor in enumerate(inputs):
        dims = {}
        for (at, dim), name in (symbolic or {}).items():
            if at == number:
                named[name] = named.get(name) or fake.sizes.new(tensor.shape[dim], name)
                dims[dim] = named[name]
        fakes.append(fake.fakeify(tensor, dims) if dims else fake.fakeify(tensor))
    with torch.no_grad(), fake, recorder:
        for number, tensor in enumerate(fakes):
            recorder.placeholder(tensor, f"x{number}")
        results = function(*fakes)
        results = results if isinstance(results, (tuple, list)) else (results,)
        recorder.graph.output(tuple(recorder.as_argument(list(results))))
    holder = torch.nn.Module()
    for name, tensor in recorder.constants.items():
        holder.register_buffer(name, tensor, persistent=False)
    return GraphModule(holder, recorder.graph)


def compiled(
    function: Callable[..., Any],
    *inputs: Tensor,
    symbolic: SymbolicDims | None = None,
    parameters: frozenset[int] = frozenset(),
    target: Target = CPU,
    **options: Any,
) -> NativeGraph:
    """`parameters` are the positions of the inputs that are parameters, `options` those of the configuration."""
    return compile_graph(
        record(function, *inputs, symbolic=symbolic), Context(replace(CHECKED, **options)), target, parameters
    )


def check(
    function: Callable[..., Any],
    *inputs: Tensor,
    kernels: int | None = None,
    fallbacks: int | None = 0,
    exact: bool = False,
    **tolerance: float,
) -> NativeGraph:
    """Compile, run, and compare with eager: values, types, sizes, strides; and what was compiled."""
    graph = compiled(function, *inputs)
    compare(graph(*inputs), function(*inputs), exact, **tolerance)
    if kernels is not None:
        assert graph.kernels == kernels, graph.text("fused")
    if fallbacks is not None:
        assert len(graph.fallbacks) == fallbacks, graph.fallbacks
    return graph


def compare(results: Any, expected: Any, exact: bool = False, **tolerance: float) -> None:
    expected = expected if isinstance(expected, (tuple, list)) else (expected,)
    assert len(results) == len(expected)
    for result, want in zip(results, expected, strict=True):
        if not isinstance(want, Tensor):
            assert result == want
            continue
        assert result.dtype is want.dtype and result.shape == want.shape
        assert _strides(result) == _strides(want)
        if exact:
            torch.testing.assert_close(result, want, rtol=0, atol=0, equal_nan=True)
        else:
            torch.testing.assert_close(result, want, equal_nan=True, **tolerance)


def _strides(tensor: Tensor) -> list[int]:
    """Strides where they matter."""
    if tensor.numel() == 0:
        return []
    return [stride for stride, size in zip(tensor.stride(), tensor.shape, strict=True) if size > 1]
