"""The order of elements that the compiler chooses stays inside: what the program sees is eager's."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from compiler.graphs import record
from torch import Tensor, nn

import onegraph
from onegraph.base.config import Config
from onegraph.compiler.cpu import CPU
from onegraph.compiler.library import convolution


def unmeasured(module: torch.fx.GraphModule) -> Callable[..., Any]:
    raise AssertionError("nothing here becomes kernels of ours")


def residual_stream(x: Tensor, table: Tensor, weight: Tensor) -> tuple[Tensor, ...]:
    """Eager keeps the order of the permuted operand in every sum behind it."""
    x = x.permute(0, 2, 1) + table
    y = x + F.gelu(x.reshape(-1, 6) @ weight).view(x.shape)
    return F.layer_norm(y, (6,)), y * 2, x.as_strided((2, 2), (1, 3)), x.sum((0, 1))


def test_rows_in_order_where_eager_keeps_a_transposed_order() -> None:
    inputs = torch.randn(2, 6, 5), torch.randn(5, 6), torch.randn(6, 6)
    graph = CPU.library(record(residual_stream, *inputs), frozenset(), Config(cache=False), unmeasured).graph
    first = next(node for node in graph.nodes if node.target is torch.ops.aten.add.Tensor)
    assert first.meta["val"].is_contiguous()
    compiled = onegraph.compile(residual_stream, fullgraph=True)
    for ours, theirs in zip(compiled(*inputs), residual_stream(*inputs), strict=True):
        assert ours.stride() == theirs.stride()
        torch.testing.assert_close(ours, theirs)


def test_a_graph_without_library_calls_is_left_as_it_is() -> None:
    module = record(lambda x: x.t() + 1, torch.randn(3, 4))
    assert CPU.library(module, frozenset(), Config(cache=False), unmeasured) is module


def test_the_order_of_channels_spreads_without_copies() -> None:
    layers = nn.Sequential(nn.Conv2d(8, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Conv2d(8, 8, 1), nn.Hardswish()).eval()
    parameters = dict(layers.named_parameters()) | dict(layers.named_buffers())
    names = [name for name in parameters if "num_batches" not in name]

    def run(x: Tensor, *values: Tensor) -> Tensor:
        return torch.func.functional_call(layers, dict(zip(names, values, strict=True)), (x,))

    x = torch.randn(1, 8, 9, 9)
    module = record(run, x, *(parameters[name].detach() for name in names))
    graph = CPU.library(
        module, frozenset(range(1, len(names) + 1)), Config(library_calls="packed", cache=False), unmeasured
    ).graph
    copies = [node for node in graph.nodes if node.target is torch.ops.aten.clone.default]
    assert len(copies) == 2  # of the image that comes in, and of the one that goes out


def test_the_copies_of_images_that_the_graph_returns_count(monkeypatch: pytest.MonkeyPatch) -> None:
    convolutions, copy = {"aten": 1.0, "plain": 0.5}, {"copy": 0.4}
    monkeypatch.setattr(convolution, "times", lambda what, *_: copy if what.startswith("copy") else convolutions)

    def twice(x: Tensor, weight: Tensor, returned: bool) -> tuple[Tensor, ...]:
        inner = torch.conv2d(x, weight).relu()
        result = torch.conv2d(inner, weight).sum()
        return (inner, result) if returned else (result,)

    def copies(returned: bool) -> int:
        module = record(partial(twice, returned=returned), torch.randn(1, 8, 9, 9), torch.randn(8, 8, 1, 1))
        graph = CPU.library(module, frozenset(), Config(cache=False), unmeasured).graph
        return sum(node.target is torch.ops.aten.clone.default for node in graph.nodes)

    assert (copies(False), copies(True)) == (1, 2)  # two convolutions gain 1.0: it is worth a copy
    copy["copy"] = 1.1
    assert (copies(False), copies(True)) == (1, 0)
