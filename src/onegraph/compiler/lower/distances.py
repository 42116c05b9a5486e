"""Distances between vectors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from onegraph.base.constants import inf
from onegraph.compiler.lower import scalars as s
from onegraph.compiler.lower.arguments import number_of, static
from onegraph.compiler.lower.lowerer import Cell, Lowerer
from onegraph.compiler.lower.reduction import converted
from onegraph.compiler.lower.registry import MaybeView, lower
from onegraph.compiler.lower.scalars import Scalar
from onegraph.compiler.lower.statistics import norm_root, norm_term
from onegraph.compiler.lower.views import Shape, View
from onegraph.ir.index import ZERO, Index
from onegraph.ir.types import F64, I64

aten = torch.ops.aten
FEW_ROWS = 25  # above so many, eager multiplies matrices for Euclidean distances
Difference = Callable[[Cell, tuple[Index, ...]], Scalar]


def _distances(g: Lowerer, shape: Shape, length: Index, power: float, difference: Difference) -> View:
    result = g.result
    dtype = result.dtype.compute

    def term(cell: Cell, at: tuple[Index, ...]) -> Sequence[Scalar]:
        return [norm_term(difference(cell, at).to(dtype), power)]

    total = g.reduction("max" if power == inf else "sum", shape, (length,), dtype, term)
    rooted = g.pointwise(shape, dtype, lambda cell: norm_root(cell.load(total), power))
    return converted(g, rooted, result.dtype)


@lower(aten._cdist_forward.default)
def cdist(g: Lowerer, x: View, y: View, p: Any, mode: Any = None) -> MaybeView:
    power, how = float(number_of(p)), static(mode) if mode is not None else 0
    shape = g.result.shape
    if not x.dtype.is_float or x.shape[-1].constant in (0, None) or power < 0:
        return NotImplemented
    if power == 2 and how != 2 and (how == 1 or any((n.constant or FEW_ROWS + 1) > FEW_ROWS for n in shape[-2:])):
        return NotImplemented
    left, right = (view.expanded((*shape[:-2], *view.shape[-2:])) for view in (x, y))

    def difference(cell: Cell, at: tuple[Index, ...]) -> Scalar:
        *batch, i, j = cell.position
        a, b = cell.load(left, [*batch, i, *at]), cell.load(right, [*batch, j, *at])
        return a.to(a.dtype.compute) - b.to(b.dtype.compute)

    return _distances(g, shape, x.shape[-1], power, difference)


@lower(aten._pdist_forward.default)
def pdist(g: Lowerer, x: View, p: Any = 2.0) -> MaybeView:
    """The pair (i, j) of the k-th distance, as eager finds it: in double precision."""
    power = float(number_of(p))
    rows = x.shape[0].constant
    if not x.dtype.is_float or rows is None or x.shape[1].constant in (0, None) or power < 0:
        return NotImplemented

    def difference(cell: Cell, at: tuple[Index, ...]) -> Scalar:
        k = cell.index(cell.position[0])
        half = rows - 0.5
        last = cell.index(Index.of(rows - 1))
        first = s.minimum(s.maximum((half - s.sqrt(half * half - 2 * k.to(F64) - 1)).to(I64), 0), last)
        product = first * (first + 1)
        second = k - first * rows + Scalar(k.body, k.body.apply("shr", I64, product.operand, 1), I64) + first + 1
        second = s.minimum(s.maximum(second, 0), last)  # as they are, but for roundings that nobody has seen
        a, b = (cell.load(x, (cell.symbol(row), *at)) for row in (first, second))
        return a.to(a.dtype.compute) - b.to(b.dtype.compute)

    return _distances(g, g.result.shape, x.shape[1], power, difference)


@lower(aten.dist.default)
def dist(g: Lowerer, x: View, y: View, p: Any = 2) -> MaybeView:
    power = float(number_of(p))
    if not x.dtype.is_float or x.dtype is not y.dtype or x.shape != y.shape or power < 0:
        return NotImplemented
    if power == inf and x.numel == ZERO:
        return NotImplemented
    flat = [view.reshaped((view.numel,)) for view in (x, y)]

    def difference(cell: Cell, at: tuple[Index, ...]) -> Scalar:
        a, b = (cell.load(view, at) for view in flat)
        return (a.to(a.dtype.compute) - b.to(b.dtype.compute)).to(a.dtype)

    return _distances(g, (), x.numel, power, difference)
