from __future__ import annotations

import operator

import torch
from torch.fx import Graph, GraphModule

from onegraph.torchlib.graph_text import graph_text


def test_each_node_is_a_line_with_its_type() -> None:
    graph = Graph()
    x = graph.placeholder("x")
    x.meta["val"] = torch.empty(2, 3)
    total = graph.call_function(torch.ops.aten.sum.dim_IntList, (x, [1]), {"dtype": torch.float64})
    total.meta["val"] = torch.empty(2, dtype=torch.float64)
    parts = graph.call_method("split", (total, 1))
    first = graph.call_function(operator.getitem, (parts, 0))
    same = graph.call_function(torch.nn.functional.relu, (first,))
    graph.output((same, None, (first, 3)))
    assert graph_text(GraphModule(torch.nn.Module(), graph)).splitlines() == [
        "graph(x: f32[2, 3]):",
        "  sum_dim_int_list: f64[2] = aten.sum.dim_IntList(x, [1], dtype=torch.float64)",
        "  split = sum_dim_int_list.split(1)",
        "  getitem = getitem(split, 0)",
        "  relu = torch.nn.functional.relu(getitem)",
        "  return (relu, None, (getitem, 3))",
    ]


def test_types_of_lists_and_sizes_and_modules() -> None:
    graph = Graph()
    x = graph.placeholder("x")
    pair = graph.call_module("layer", (x,), {"index": slice(None, 2)})
    pair.meta["example_value"] = (torch.empty(1, dtype=torch.bool), None)
    graph.output((pair,))
    module = torch.nn.Module()
    module.layer = torch.nn.ReLU()
    assert graph_text(GraphModule(module, graph)).splitlines()[1] == (
        "  layer: (bool[1], ...) = self.layer(x, index=slice(None, 2, None))"
    )
