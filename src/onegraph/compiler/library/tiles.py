"""Matrix products as loops of ours: sums over a weight whose columns are packed in panels, which run in tiles.

addmm(b, x, t(w))      sum(unsqueeze(x, 2) * unsqueeze(seen(in_panels(w)), 0), 1) + b

A panel is as wide as a tile (`schedule.tile_products`), so that what a tile reads of the weight lies together. What is
computed of the result is computed where the tile is. No elements are moved by `seen`: it is the weight as it was.

convolution(x, w, b, ...)     permute(sum(windows(pad(x)) * seen(filter_panels(w)), [3, 4, 5]) + b)

A pixel of an image that a convolution makes is a row of a product, with all that its filter sees. No copy is made of
the windows: with channels last, neighbours in a window's row lie side by side in the image. Source: E. Georganas et
al., "Anatomy of high-performance deep learning convolutions on SIMD architectures" (2018).
"""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.fx import Graph, GraphModule, Node

from onegraph.base.config import Config
from onegraph.compiler.library.measure import FEW, Runs, copies, times
from onegraph.compiler.library.nodes import call
from onegraph.compiler.library.recipe import Recipe
from onegraph.compiler.library.window import Window
from onegraph.compiler.target import Compile, Machine
from onegraph.torchlib.graph import LazyGraphModule

aten = torch.ops.aten

LEAST = 16  # elements that are summed up, so that a tile does more than begin and end
MOST = 1 << 18  # elements of a panel, so that a near cache holds it while tiles go through it
ENDS = 16  # steps of a sum, which a tile takes as long to begin and to end
COPIED = 16  # multiplications that take as long as to copy an element
EXAMPLE = ((1, 256, 14, 15), (256, 256))  # the image, and the filters of one pixel, that are timed


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


def tiles_of_image(graph: Graph, x: Node, panels: Node, bias: Node | None, filters: tuple[int, ...], w: Window) -> Node:
    """The convolution of an image with the filters in the panels, in float32, channels last in memory.

    To be called in the fakes' own mode.

    Args:
        filters: their shape: output channels, input channels, rows, columns.
        w: how they move.
    """
    outputs, inputs, *size = filters
    seen, dims = _windows(graph, x, size, w), list(range(3, 3 + len(size) + 1))
    count, inner, width = panels.meta["val"].shape
    rows = call(graph, aten.permute.default, panels, [1, 0, 2])
    columns = graph.call_function(aten.view.default, (rows, [*size, inputs, count * width]))
    columns.meta["val"] = torch.empty(*size, inputs, count * width)  # loops load by coordinates, wherever it lies
    columns = call(graph, aten.slice.Tensor, columns, 3, 0, outputs)
    factors = call(graph, aten.unsqueeze.default, seen, 6), columns
    total = call(graph, aten.sum.dim_IntList, call(graph, aten.mul.Tensor, *factors), dims)
    if bias is not None:
        total = call(graph, aten.add.Tensor, total, bias)
    return call(graph, aten.permute.default, total, [0, 3, 1, 2])


def _windows(graph: Graph, x: Node, size: list[int], w: Window) -> Node:
    """What the filter sees: images, rows and columns of the result, rows and columns of the filter, input channels."""
    if any(w.padding):
        down, across = w.padding
        x = call(graph, aten.constant_pad_nd.default, x, [across, across, down, down], 0.0)
    for dim, (length, stride, apart) in enumerate(zip(size, w.stride, w.dilation, strict=True), 2):
        x = call(graph, aten.unfold.default, x, dim, apart * (length - 1) + 1, stride)
        if apart > 1:
            x = call(graph, aten.slice.Tensor, x, dim + 2, 0, sys.maxsize, apart)
    return call(graph, aten.permute.default, x, [0, 2, 3, 4, 5, 1])


class ConvolutionTiler:
    """Tiles of a machine, and how fast they are: measured once for it, as they are not a library's."""

    def __init__(self, compiled: Compile, machine: Machine, config: Config) -> None:
        self.compiled, self.config = compiled, config
        self.rows, self.width = machine.tile_rows, machine.tile_columns

    def fits(self, filters: tuple[int, ...], w: Window, pixels: int) -> bool:
        """Whether tiles can be as fast as a library: many pixels, panels that are not mostly empty, and stay near."""
        outputs, inputs, *size = filters
        inner = inputs * math.prod(size)
        return w.groups == 1 and pixels > FEW and 2 * outputs >= self.width and LEAST <= inner <= MOST // self.width

    def seconds(self, mode: Any, filters: tuple[int, ...], pixels: int, padded: int) -> float:
        """What a convolution of these filters takes for so many pixels of the result, at the speed of the example;
        with so many elements of a padded copy of the image.

        `mode` is that of the fakes, which must see what is called.
        """
        what = f"convolution in tiles {EXAMPLE} {self.rows} {self.width}"
        (time,) = times(what, ["tiles"], partial(self._example, mode), self.config).values()
        count, _, *size = EXAMPLE[0]
        work = self._work(filters, pixels) + padded * COPIED
        return time * work / self._work((*EXAMPLE[1], 1, 1), count * math.prod(size))

    def _work(self, filters: tuple[int, ...], pixels: int) -> int:
        """Multiplications, with those in vain in tiles that are not full; a tile begins and ends, too."""
        outputs, inputs, *size = filters
        whole, rest = divmod(outputs, self.width)
        columns = whole * self.width + (max(1 << (rest - 1).bit_length(), self.width // 4) if rest else 0)
        return -(-pixels // self.rows) * self.rows * columns * (inputs * math.prod(size) + ENDS)

    def _example(self, mode: Any) -> Mapping[str, Runs]:
        (count, channels, *size), (outputs, inputs) = EXAMPLE
        graph = Graph()
        x, panels = graph.placeholder("x"), graph.placeholder("panels")
        with mode:
            x.meta["val"] = torch.empty(count, channels, *size).to(memory_format=torch.channels_last)
            panels.meta["val"] = torch.empty(-(-outputs // self.width), inputs, self.width)
            window = Window((0, 0), (1, 1), (1, 1), 1)
            graph.output((tiles_of_image(graph, x, panels, None, (outputs, inputs, 1, 1), window),))
        run = self.compiled(LazyGraphModule(torch.nn.Module(), graph))
        image = torch.full((count, channels, *size), 0.5).to(memory_format=torch.channels_last)
        weights = copies(torch.full((outputs, inputs), 0.5), count * math.prod(size))
        return {"tiles": [partial(run, image, in_panels(weight, False, self.width)) for weight in weights]}
