"""Windows of images as columns, and back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from onegraph.compiler.lower.arguments import listed, static
from onegraph.compiler.lower.lowerer import Cell, Lowerer, is_empty
from onegraph.compiler.lower.reduction import converted
from onegraph.compiler.lower.registry import MaybeView, lower
from onegraph.compiler.lower.scalars import Scalar, where
from onegraph.compiler.lower.views import View
from onegraph.ir.index import ZERO, Index
from onegraph.ir.types import BOOL

aten = torch.ops.aten


def _pairs(*values: Any) -> list[list[int]] | None:
    """Two plain numbers for each setting."""
    found = [[static(n) for n in listed(value)] for value in values]
    return None if any(None in pair for pair in found) else found  # type: ignore[return-value]


def _counts(size: Sequence[Index], kernel: Any, dilation: Any, padding: Any, stride: Any) -> list[Index]:
    """How many windows fit along each dimension."""
    ends = zip(size, kernel, dilation, padding, stride, strict=True)
    return [(n + (2 * p - d * (k - 1) - 1)) // s + 1 for n, k, d, p, s in ends]


@lower(aten.im2col.default)
def im2col(g: Lowerer, x: View, kernel: Any, dilation: Any, padding: Any, stride: Any) -> MaybeView:
    settings = _pairs(kernel, dilation, padding, stride)
    if settings is None or is_empty(x.shape):
        return NotImplemented
    kernel, dilation, padding, stride = settings
    across = _counts(x.shape[-2:], *settings)[1]

    def compute(cell: Cell) -> Scalar:
        *batch, row, column = cell.position
        inner, windows = row % (kernel[0] * kernel[1]), (column // across, column % across)
        at = (inner // kernel[1], inner % kernel[1])
        places = [w * s + k * d - p for w, k, s, d, p in zip(windows, at, stride, dilation, padding, strict=True)]
        inside = cell.within(places[0], ZERO, x.shape[-2]) & cell.within(places[1], ZERO, x.shape[-1])
        value = cell.load(x, [*batch, row // (kernel[0] * kernel[1]), *places], inside)
        return where(inside, value, cell.literal(0, x.dtype))

    return g.pointwise(g.result.shape, x.dtype, compute)


@lower(aten.col2im.default)
def col2im(g: Lowerer, x: View, size: Any, kernel: Any, dilation: Any, padding: Any, stride: Any) -> MaybeView:
    """Every element is the sum of what stands for it in the windows that hold it."""
    settings = _pairs(kernel, dilation, padding, stride)
    if settings is None or is_empty(x.shape):
        return NotImplemented
    kernel, dilation, padding, stride = settings
    result = g.result
    dtype = result.dtype.compute
    counts = _counts(result.shape[-2:], *settings)

    def element(cell: Cell, at: tuple[Index, ...]) -> Sequence[Scalar]:
        *outer, _, _ = cell.position
        inside, windows = Scalar(cell.body, True, BOOL), []
        ends = zip(cell.position[-2:], at, counts, kernel, dilation, padding, stride, strict=True)
        for p, k, count, reach, d, pad, s in ends:
            offset = (reach - 1) * d  # so that what is divided is never negative
            begin = p + pad - k * d
            held = cell.within(begin, ZERO, count * s)
            if s > 1:
                held = held & cell.index((begin + offset * s) % s).eq(0)
            inside = held if inside.operand is True else inside & held
            windows.append((begin + offset * s) // s - offset)
        row = (outer[-1] * kernel[0] + at[0]) * kernel[1] + at[1]
        value = cell.load(x, [*outer[:-1], row, windows[0] * counts[1] + windows[1]], inside)
        return [where(inside, value.to(dtype), 0)]

    total = g.reduction("sum", result.shape, tuple(map(Index.of, kernel)), dtype, element)
    return converted(g, total, result.dtype)
