"""Matrix products as loops of ours: sums over a weight whose columns are packed in panels, which run in tiles.

addmm(b, x, t(w))      sum(unsqueeze(x, 2) * unsqueeze(seen(in_panels(w)), 0), 1) + b

A panel is as wide as a tile (`schedule.tile_products`), so that what a tile reads of the weight lies together. What is
computed of the result is computed where the tile is. No elements are moved by `seen`: it is the weight as it was.

"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.fx import Graph, GraphModule, Node

from onegraph.compiler.library.nodes import call
from onegraph.compiler.library.recipe import Recipe
from onegraph.compiler.target import Compile
from onegraph.torchlib.graph import LazyGraphModule

aten = torch.ops.aten


def in_panels(weight: Tensor, tall: bool, width: int) -> Tensor:
    """The columns of the result in panels of `width`, the last one filled up with zeros: for each panel, what is summed
    over by columns."""
    columns = weight if tall else weight.t()
    inner, count = columns.shape
    panels = columns.new_empty(-(-count // width), inner, width)
    whole = count // width
    panels[:whole].copy_(columns[:, : whole * width].unflatten(1, (whole, width)).transpose(0, 1))
    if count % width:
        panels[whole].zero_()[:, : count % width] = columns[:, whole * width :]
    return panels


def packing(weight: Tensor, tall: bool, width: int) -> Recipe:
    return Recipe(in_panels, (tall, width), (weight.element_size(),))


def as_tiles(graph: Graph, x: Node, panels: Node, bias: Node | None, columns: int) -> Node:
    """The product with the weight in the panels, in float32. To be called in the fakes' own mode."""
    count, inner, width = panels.meta["val"].shape
    rows = call(graph, aten.permute.default, panels, [1, 0, 2])
    seen = graph.call_function(aten.view.default, (rows, [inner, count * width]))
    seen.meta["val"] = torch.empty(inner, count * width)  # loops load by coordinates: how it lies is not seen
    seen = call(graph, aten.slice.Tensor, seen, 1, 0, columns)
    factors = call(graph, aten.unsqueeze.default, x, 2), call(graph, aten.unsqueeze.default, seen, 0)
    total = call(graph, aten.sum.dim_IntList, call(graph, aten.mul.Tensor, *factors), [1])
    return total if bias is None else call(graph, aten.add.Tensor, total, bias)


class Tiler:
    """Tiles of a width, and what times products of them: of equal ones once for a graph."""

    def __init__(self, compiled: Compile, width: int) -> None:
        self.compiled, self.width = compiled, width
        self._graphs: dict[tuple[int, ...], GraphModule] = {}

    def graph(self, mode: Any, sizes: tuple[int, int, int], biased: bool) -> GraphModule:
        """A product of so many rows, inner elements and columns alone: of x, the panels, and the bias if there is one.

        `mode` is that of the fakes, which must see what is called.
        """
        key = (*sizes, biased)
        if key not in self._graphs:
            rows, inner, columns = sizes
            graph = Graph()
            shapes = [(rows, inner), (-(-columns // self.width), inner, self.width), *[(columns,)] * biased]
            given = [graph.placeholder(f"x{number}") for number in range(len(shapes))]
            with mode:
                for node, shape in zip(given, shapes, strict=True):
                    node.meta["val"] = torch.empty(shape)
                graph.output((as_tiles(graph, given[0], given[1], given[2] if biased else None, columns),))
            self._graphs[key] = LazyGraphModule(torch.nn.Module(), graph)
        return self._graphs[key]
