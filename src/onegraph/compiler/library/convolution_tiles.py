"""Convolutions of images as loops of ours, which run in tiles: with their filters in panels, see `lower.convolutions`.

Filters that see their own channel alone need no panels: for each of their pixels they are a row of numbers.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.fx import Graph, Node

from onegraph.base.config import Config
from onegraph.compiler.library.measure import FEW, Runs, copies, times
from onegraph.compiler.library.tiles import in_panels
from onegraph.compiler.library.window import Window
from onegraph.compiler.lower.convolutions import TILED
from onegraph.compiler.target import Compile, Machine
from onegraph.torchlib.graph import LazyGraphModule

LEAST = 16  # elements that are summed up, so that a tile does more than begin and end
MOST = 1 << 18  # elements of a panel, so that a near cache holds it while tiles go through it
ENDS = 16  # steps of a sum, which a tile takes as long to begin and to end
NARROWEST = 4  # how many of the narrowest panels are as wide as a tile
COPIED = 16  # multiplications that take as long as to copy an element
EXAMPLE = ((1, 256, 14, 15), (256, 256, 1, 1))  # the image, and the filters, that are timed
DEPTHWISE = ((1, 256, 14, 15), (256, 1, 3, 3))  # and those of which each sees its own channel alone


def filter_panels(weight: Tensor, width: int) -> Tensor:
    """The filters as panels: for each output channel a column, of which the input channels lie together.

    Width 0: each of them sees its own channel alone, and the channels of each of their pixels lie together.
    """
    if not width:
        return weight.permute(2, 3, 0, 1).flatten(2).contiguous()
    return in_panels(weight.permute(0, 2, 3, 1).flatten(1), False, width)


def tiles_of_image(graph: Graph, x: Node, packed: Node, bias: Node | None, filters: tuple[int, ...], w: Window) -> Node:
    """The convolution of an image with the filters in panels, in float32, channels last in memory.

    To be called in the fakes' own mode.

    Args:
        packed: see `filter_panels`.
        filters: their shape: output channels, input channels of a group, rows, columns.
        w: how they move.
    """
    node = graph.call_function(TILED, (x, packed, bias, list(filters), *w.arguments()))
    image = x.meta["val"]
    pixels = [
        (size + 2 * around - apart * (length - 1) - 1) // step + 1
        for size, length, around, step, apart in zip(
            image.shape[2:], filters[2:], w.padding, w.stride, w.dilation, strict=True
        )
    ]
    node.meta["val"] = image.new_empty(image.shape[0], *pixels, filters[0]).permute(0, 3, 1, 2)
    return node


class ConvolutionTiler:
    """Tiles of a machine, and how fast they are: measured once for it, as they are not a library's."""

    def __init__(self, compiled: Compile, machine: Machine, config: Config) -> None:
        self.compiled, self.config = compiled, config
        self.rows, self.width = machine.tile_rows, machine.tile_columns

    def fits(self, filters: tuple[int, ...], w: Window, pixels: int) -> bool:
        """Whether tiles can be as fast as a library: many pixels, panels that are not mostly empty, and stay near."""
        outputs, inputs, *size = filters
        if pixels <= FEW or 2 * outputs < self.width // NARROWEST:
            return False
        inner = inputs * math.prod(size)
        panel = self.panel(filters, w)
        return (w.groups, inputs) == (outputs, 1) if not panel else LEAST <= inner <= MOST // panel

    def panel(self, filters: tuple[int, ...], w: Window) -> int:
        """The columns of a panel, fewer where there are few; 0 for filters that need none."""
        if w.groups > 1:
            return 0
        widths = (self.width // part for part in (NARROWEST, NARROWEST // 2))
        return next((width for width in widths if filters[0] <= width), self.width)

    def seconds(self, mode: Any, filters: tuple[int, ...], w: Window, pixels: int, padded: int) -> float:
        """What a convolution of these filters takes for so many pixels of the result, at the speed of the example;
        with so many elements of a padded copy of the image.

        `mode` is that of the fakes, which must see what is called.
        """
        image, timed = DEPTHWISE if w.groups > 1 else EXAMPLE
        still = Window((0, 0), (1, 1), (1, 1), image[1] // timed[1])
        what = f"convolution in tiles {image} {timed} {self.rows} {self.width}"
        (time,) = times(what, ["tiles"], partial(self._example, mode, image, timed, still), self.config).values()
        shape = [size - length + 1 for size, length in zip(image[2:], timed[2:], strict=True)]
        work = self._work(filters, pixels) + padded * COPIED
        return time * work / self._work(timed, image[0] * math.prod(shape))

    def _work(self, filters: tuple[int, ...], pixels: int) -> int:
        """Multiplications, with those in vain in tiles that are not full; a tile begins and ends, too."""
        outputs, inputs, *size = filters
        whole, rest = divmod(outputs, self.width)
        columns = whole * self.width + (max(1 << (rest - 1).bit_length(), self.width // NARROWEST) if rest else 0)
        return -(-pixels // self.rows) * self.rows * columns * (inputs * math.prod(size) + ENDS)

    def _example(self, mode: Any, image: tuple[int, ...], filters: tuple[int, ...], w: Window) -> Mapping[str, Runs]:
        graph = Graph()
        x, packed = graph.placeholder("x"), graph.placeholder("packed")
        weight = torch.full(filters, 0.5)
        panel = self.panel(filters, w)
        weights = [filter_panels(item, panel) for item in copies(weight, math.prod(image))]
        with mode:
            x.meta["val"] = torch.empty(image).to(memory_format=torch.channels_last)
            packed.meta["val"] = torch.empty(weights[0].shape)
            graph.output((tiles_of_image(graph, x, packed, None, filters, w),))
        run = self.compiled(LazyGraphModule(torch.nn.Module(), graph))
        last = torch.full(image, 0.5).to(memory_format=torch.channels_last)
        return {"tiles": [partial(run, last, item) for item in weights]}
