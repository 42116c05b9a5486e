"""Operators that make tensors from numbers."""

from __future__ import annotations

from typing import Any

import torch

from onegraph.compiler.lower.arguments import Fraction, fits, specialized, static
from onegraph.compiler.lower.lowerer import Cell, Lowerer
from onegraph.compiler.lower.registry import FRACTIONAL, MaybeView, lower
from onegraph.compiler.lower.scalars import Scalar, where
from onegraph.compiler.lower.view import dim_of
from onegraph.compiler.lower.views import View
from onegraph.ir.index import Index
from onegraph.ir.types import F64

aten = torch.ops.aten
FRACTIONAL |= {aten.full.default, aten.full_like.default, aten.fill.Scalar, aten.new_full.default}
FRACTIONAL |= {aten.scalar_tensor.default}


def filled(g: Lowerer, value: Any) -> MaybeView:
    """A tensor of the result's type that holds a number everywhere."""
    result = g.result
    if isinstance(value, Fraction) and not result.dtype.is_float:
        value = specialized(value)
    if isinstance(value, complex) or not (isinstance(value, Fraction) or fits(value, result.dtype)):
        return NotImplemented

    def compute(cell: Cell) -> Scalar:
        if isinstance(value, Index) and value.constant is None:
            return cell.index(value)
        return cell.number(value, result.dtype)

    return g.pointwise(result.shape, result.dtype, compute)


# Memory that nobody has written to may hold anything: zeros, which fuse into whatever reads them.
@lower(
    aten.zeros.default,
    aten.zeros_like.default,
    aten.new_zeros.default,
    aten.zero.default,
    aten._efficientzerotensor.default,
    aten.empty.memory_format,
    aten.empty_like.default,
    aten.empty_strided.default,
    aten.empty_permuted.default,
    aten.new_empty.default,
    aten.new_empty_strided.default,
)
def zeros(g: Lowerer, *_: Any, **__: Any) -> View:
    return filled(g, 0)


@lower(aten.ones.default, aten.ones_like.default, aten.new_ones.default)
def ones(g: Lowerer, *_: Any, **__: Any) -> View:
    return filled(g, 1)


@lower(aten.full.default, aten.full_like.default, aten.fill.Scalar)
def full(g: Lowerer, size: Any, value: Any, **_: Any) -> View:
    return filled(g, value)


@lower(aten.new_full.default)
def new_full(g: Lowerer, x: View, size: Any, value: Any, **_: Any) -> View:
    return filled(g, value)


@lower(aten.fill.Tensor)
def fill_tensor(g: Lowerer, x: View, value: View) -> View:
    result = g.result
    return g.pointwise(result.shape, result.dtype, lambda cell: cell.load(value).to(result.dtype))


@lower(aten.scalar_tensor.default)
def scalar_tensor(g: Lowerer, value: Any, **_: Any) -> View:
    return filled(g, value)


@lower(aten.arange.default)
def arange(g: Lowerer, end: Any, **_: Any) -> View:
    return arange_step(g, 0, end)


@lower(aten.arange.start)
def arange_start(g: Lowerer, start: Any, end: Any, **_: Any) -> View:
    return arange_step(g, start, end)


@lower(aten.arange.start_step)
def arange_step(g: Lowerer, start: Any, end: Any, step: Any = 1, **_: Any) -> View:
    """Integers count exactly, from what is whole of start and step; fractions are computed in double precision."""
    result = g.result
    if result.dtype.is_integer:
        start, step = (int(value) if isinstance(value, float) else value for value in (start, step))

    def compute(cell: Cell) -> Scalar:
        at = cell.position[0]
        if all(isinstance(value, Index | int) for value in (start, step)):
            return cell.index(Index.of(start) + at * step)
        first, by = (number(cell, value) for value in (start, step))
        return first + cell.index(at).to(F64) * by

    return g.pointwise(result.shape, result.dtype, compute)


@lower(aten.linspace.default)
def linspace(g: Lowerer, start: Any, end: Any, steps: Any, **_: Any) -> MaybeView:
    """The second half counts back from the end, so that both ends are exact."""
    result = g.result
    count = static(steps)
    if count is None or not result.dtype.is_float:
        return NotImplemented
    if not all(isinstance(v, Index | float) and fits(v, result.dtype) for v in (start, end)):
        return NotImplemented
    dtype = result.dtype.compute

    def compute(cell: Cell) -> Scalar:
        first, last = (number(cell, value).to(dtype) for value in (start, end))
        if count == 1:
            return first
        step = (last - first) / (count - 1)
        at = cell.index(cell.position[0])
        from_end = last - (count - 1 - at).to(dtype) * step
        return where(at < count // 2, first + at.to(dtype) * step, from_end)

    return g.pointwise(result.shape, result.dtype, compute)


def number(cell: Cell, value: Any) -> Scalar:
    """A Python number in double precision."""
    if isinstance(value, Index):
        return cell.index(value).to(F64)
    return cell.literal(value, F64)


@lower(aten.eye.default, aten.eye.m)
def eye(g: Lowerer, *_: Any, **__: Any) -> View:
    result = g.result

    def compute(cell: Cell) -> Scalar:
        row, column = (cell.index(at) for at in cell.position)
        return row.eq(column)

    return g.pointwise(result.shape, result.dtype, compute)


@lower(aten.diag_embed.default)
def diag_embed(g: Lowerer, x: View, offset: Any = 0, dim1: Any = -2, dim2: Any = -1) -> MaybeView:
    rank, by = x.rank + 1, static(offset)
    a, b = dim_of(dim1, rank), dim_of(dim2, rank)
    if by is None:
        return NotImplemented

    def compute(cell: Cell) -> Scalar:
        p = cell.position
        inside = cell.index(p[a] + by).eq(cell.index(p[b]))
        at = [*(p[d] for d in range(rank) if d not in (a, b)), p[a] if by >= 0 else p[b]]
        return where(inside, cell.load(x, at, inside), cell.literal(0, x.dtype))

    return g.pointwise(g.result.shape, x.dtype, compute)


@lower(aten.tril.default)
def tril(g: Lowerer, x: View, diagonal: Any = 0) -> View:
    return triangle(g, x, diagonal, lower_part=True)


@lower(aten.triu.default)
def triu(g: Lowerer, x: View, diagonal: Any = 0) -> View:
    return triangle(g, x, diagonal, lower_part=False)


def triangle(g: Lowerer, x: View, diagonal: Any, lower_part: bool) -> MaybeView:
    by = static(diagonal)
    if by is None:
        return NotImplemented

    def compute(cell: Cell) -> Scalar:
        row, column = cell.index(cell.position[-2]), cell.index(cell.position[-1])
        kept = column <= row + by if lower_part else column >= row + by
        return where(kept, cell.load(x), cell.literal(0, x.dtype))

    return g.pointwise(x.shape, x.dtype, compute)
