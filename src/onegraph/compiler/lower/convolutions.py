"""Convolutions that run in tiles: each pixel of the result is a row of a product, with all that its filter sees.

No copy of the windows is made: with channels last, neighbours in a window's row lie side by side in the image. Source:
E. Georganas et al., "Anatomy of high-performance deep learning convolutions on SIMD architectures" (2018).

This is imported where such convolutions are made.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from onegraph.compiler.lower.arguments import tensor_type
from onegraph.compiler.lower.assembly import padded
from onegraph.compiler.lower.lowerer import Cell, Lowerer
from onegraph.compiler.lower.reduction import integer
from onegraph.compiler.lower.registry import MaybeView, lower
from onegraph.compiler.lower.scalars import Scalar
from onegraph.compiler.lower.views import Shape, View
from onegraph.ir.index import ONE, Index
from onegraph.ir.types import contiguous_strides
from onegraph.torchlib.tiled_convolution import TILED as TILED


@lower(TILED)
def tiled_convolution(
    g: Lowerer,
    x: View,
    panels: View,
    bias: View | None,
    filters: Sequence[Any],
    padding: Sequence[Any],
    stride: Sequence[Any],
    dilation: Sequence[Any],
    groups: Any,
) -> MaybeView:
    """See `torchlib.tiled_convolution`; the windows move over an image with zeros around it."""
    _, inputs, *size = map(integer, filters)
    around, steps, apart = (list(map(integer, numbers)) for numbers in (padding, stride, dilation))
    image: Any = g.node.args[0]
    if any(around):
        both = [(0, 0), (0, 0), *((n, n) for n in around)]
        shape = tuple(extent + 2 * before for extent, (before, _) in zip(x.shape, both, strict=True))
        x = padded(g, x, shape, both, 0.0, _strides(shape, tensor_type(image.meta["val"]).strides))
    count, outputs, *pixels = g.result.shape

    def seen(position: Sequence[Index], at: Sequence[Index]) -> list[Index]:
        return [p * s + a * d for p, s, a, d in zip(position[1:3], steps, at, apart, strict=False)]

    def product(cell: Cell, at: tuple[Index, ...]) -> Sequence[Scalar]:
        image, *_, column = cell.position
        if integer(groups) > 1:
            factor, channel = cell.load(panels, [*at, column]), column
        else:
            row, channel = (at[0] * size[1] + at[1]) * inputs + at[2], at[2]
            width = integer(panels.shape[2])
            factor = cell.load(panels, [column // width, row, column % width])
        return [cell.load(x, [image, channel, *seen(cell.position, at)]) * factor]

    inner = (*size, *[inputs] * (integer(groups) == 1))
    total = g.reduction("sum", (count, *pixels, outputs), tuple(map(Index.of, inner)), g.result.dtype, product)
    total = total.permuted([0, 3, 1, 2])
    if bias is None:
        return total
    shift = bias
    return g.pointwise(
        g.result.shape, g.result.dtype, lambda cell: cell.load(total) + cell.load(shift, [cell.position[1]])
    )


def _strides(shape: Shape, like: Sequence[Index]) -> tuple[Index, ...]:
    """Those of an image with its channels last, if they are in another one; else in the order of dimensions."""
    if like[1].constant != 1:
        return contiguous_strides(shape)
    _, channels, rows, columns = shape
    return rows * columns * channels, ONE, columns * channels, channels
