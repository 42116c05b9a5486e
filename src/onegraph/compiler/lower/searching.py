"""Places of values in sorted sequences, and values among others."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from onegraph.compiler.lower.lowerer import Cell, Lowerer
from onegraph.compiler.lower.registry import MaybeView, lower
from onegraph.compiler.lower.scalars import Scalar, compare, where
from onegraph.compiler.lower.scatter import is_number, number
from onegraph.compiler.lower.views import View
from onegraph.ir.index import Index
from onegraph.ir.types import BOOL, I64

aten = torch.ops.aten


def _place(cell: Cell, value: Scalar, sequence: View, at: Sequence[Index], right: bool) -> Scalar:
    """How many elements stand before the value: a search by halves, as many steps as the longest one takes."""
    size = sequence.shape[-1].constant or 0
    low, high = cell.literal(0, I64), cell.literal(size, I64)
    for _ in range(size.bit_length()):
        middle = low + Scalar(cell.body, cell.body.apply("shr", I64, (high - low).operand, 1), I64)
        open_ = low < high
        place = cell.symbol(middle)
        found = cell.load(sequence, [*at, place], open_)
        before = ~compare("gt" if right else "ge", found, value)
        low = where(open_ & before, middle + 1, low)
        high = where(open_ & ~before, middle, high)
    return low


def _searched(g: Lowerer, sequence: View, x: Any, right: bool) -> MaybeView:
    result = g.result
    if sequence.shape[-1].constant is None or (isinstance(x, View) and x.dtype is not sequence.dtype):
        return NotImplemented
    if not isinstance(x, View) and not is_number(x, sequence.dtype):
        return NotImplemented

    def compute(cell: Cell) -> Scalar:
        value = cell.load(x) if isinstance(x, View) else number(cell, x, sequence.dtype)
        value = (
            value
            if isinstance(value.operand, str)
            else Scalar(cell.body, cell.body.constant(value.dtype, value.operand), value.dtype)
        )
        at = cell.position[: sequence.rank - 1] if sequence.rank > 1 else ()
        return _place(cell, value, sequence, at, right)

    return g.pointwise(result.shape, result.dtype, compute)


@lower(aten.bucketize.Tensor, aten.bucketize.Scalar)
def bucketize(g: Lowerer, x: Any, boundaries: View, *, out_int32: bool = False, right: bool = False) -> MaybeView:
    if boundaries.rank != 1:
        return NotImplemented
    return _searched(g, boundaries, x, right)


@lower(aten.searchsorted.Tensor, aten.searchsorted.Scalar)
def searchsorted(
    g: Lowerer,
    sequence: View,
    x: Any,
    *,
    out_int32: bool = False,
    right: bool = False,
    side: str | None = None,
    sorter: View | None = None,
) -> MaybeView:
    if sorter is not None:  # the operator looks at all of it, before it follows it
        return NotImplemented
    return _searched(g, sequence, x, right or side == "right")


@lower(aten.isin.Tensor_Tensor)
def isin(g: Lowerer, x: View, among: View, *, assume_unique: bool = False, invert: bool = False) -> MaybeView:
    """Each compared with all, where these are few: else eager's way by sorting is the faster."""
    elements, count = x.numel.constant, among.numel.constant
    if elements is None or count is None or count == 0 or count >= 10 * max(elements, 1) ** 0.145:
        return NotImplemented
    if x.dtype is not among.dtype:
        return NotImplemented
    flat = among.reshaped((among.numel,))

    def element(cell: Cell, at: tuple[Index, ...]) -> Sequence[Scalar]:
        return [cell.load(x).eq(cell.load(flat, at))]

    found = g.reduction("any", x.shape, flat.shape, BOOL, element)
    return g.pointwise(x.shape, BOOL, lambda cell: ~cell.load(found) if invert else cell.load(found))
