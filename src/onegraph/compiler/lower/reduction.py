"""Reductions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from onegraph.compiler.lower.lowerer import Cell, Lowerer
from onegraph.compiler.lower.registry import lower
from onegraph.compiler.lower.scalars import Scalar, isnan, where
from onegraph.compiler.lower.views import View, flatten
from onegraph.ir.index import ONE, Index, least, product
from onegraph.ir.types import BOOL, I64, DType

aten = torch.ops.aten


def reduced_dims(x: View, dims: Any) -> tuple[int, ...]:
    """The dimensions named by an argument: none or an empty list means all."""
    if dims is None or (isinstance(dims, (list, tuple)) and not dims):
        return tuple(range(x.rank))
    listed = dims if isinstance(dims, (list, tuple)) else [dims]
    rank = max(x.rank, 1)
    return tuple(sorted({integer(d) % rank for d in listed})) if x.rank else ()


def integer(value: Index | int) -> int:
    """An argument that is a plain number in every call."""
    constant = Index.of(value).constant
    assert constant is not None
    return constant


def reduce(g: Lowerer, op: str, x: View, dims: Any, dtype: DType, keepdim: bool = False) -> View:
    """Reduce a tensor, its elements converted to `dtype` first. A sum of booleans is their disjunction."""
    op = "any" if op == "sum" and dtype is BOOL else op
    over = reduced_dims(x, dims)
    outer = tuple(n for d, n in enumerate(x.shape) if d not in over)

    def compute(cell: Cell, at: tuple[Index, ...]) -> Sequence[Scalar]:
        return [cell.load(x, merge(cell.position, at, over, x.rank)).to(dtype)]

    result = g.reduction(op, outer, tuple(x.shape[d] for d in over), dtype, compute)
    return kept(result, over, x.rank) if keepdim else result


def merge(outer: Sequence[Index], inner: Sequence[Index], over: Sequence[int], rank: int) -> list[Index]:
    """Coordinates of the operand from those of the result and those within the reduction."""
    rest, within = iter(outer), iter(inner)
    return [next(within) if d in over else next(rest) for d in range(rank)]


def kept(result: View, over: Sequence[int], rank: int) -> View:
    """Put the reduced dimensions back, with size 1."""
    sizes = iter(result.shape)
    return result.reshaped(tuple(ONE if d in over else next(sizes) for d in range(rank)))


def converted(g: Lowerer, x: View, dtype: DType) -> View:
    """The tensor in another element type."""
    if x.dtype is dtype:
        return x
    return g.pointwise(x.shape, dtype, lambda cell: cell.load(x).to(dtype))


@lower(aten.sum.default, aten.sum.dim_IntList)
def sum_(g: Lowerer, x: View, dims: Any = None, keepdim: bool = False, *, dtype: Any = None) -> View:
    result = g.result.dtype
    return converted(g, reduce(g, "sum", x, dims, result.compute, keepdim), result)


@lower(aten.mean.default, aten.mean.dim)
def mean(g: Lowerer, x: View, dims: Any = None, keepdim: bool = False, *, dtype: Any = None) -> View:
    result = g.result.dtype
    total = reduce(g, "sum", x, dims, result.compute, keepdim)
    count = product([x.shape[d] for d in reduced_dims(x, dims)])
    return g.pointwise(total.shape, result, lambda cell: cell.load(total) / cell.index(count).to(result.compute))


@lower(aten.amax.default)
def amax(g: Lowerer, x: View, dims: Any = None, keepdim: bool = False) -> View:
    return reduce(g, "max", x, dims, x.dtype, keepdim)


@lower(aten.amin.default)
def amin(g: Lowerer, x: View, dims: Any = None, keepdim: bool = False) -> View:
    return reduce(g, "min", x, dims, x.dtype, keepdim)


@lower(aten.any.default, aten.any.dim, aten.any.dims)
def any_(g: Lowerer, x: View, dims: Any = None, keepdim: bool = False) -> View:
    return converted(g, reduce(g, "any", x, dims, BOOL, keepdim), g.result.dtype)


@lower(aten.all.default, aten.all.dim, aten.all.dims)
def all_(g: Lowerer, x: View, dims: Any = None, keepdim: bool = False) -> View:
    return converted(g, reduce(g, "all", x, dims, BOOL, keepdim), g.result.dtype)


@lower(aten.nansum.default)
def nansum(g: Lowerer, x: View, dims: Any = None, keepdim: bool = False, *, dtype: Any = None) -> View:
    result = g.result.dtype
    without = g.pointwise(x.shape, result.compute, lambda cell: _number_or_zero(cell, x, result.compute))
    return converted(g, reduce(g, "sum", without, dims, result.compute, keepdim), result)


def _number_or_zero(cell: Cell, x: View, dtype: DType) -> Scalar:
    value = cell.load(x).to(dtype)
    return where(isnan(value), 0, value) if dtype.is_float else value


@lower(aten.trace.default)
def trace(g: Lowerer, x: View) -> View:
    size = least(x.shape[0], x.shape[1])
    result = g.result.dtype
    diagonal = x.reindexed((size,), lambda p: [p[0], p[0]])
    return converted(g, reduce(g, "sum", diagonal, None, result.compute), result)


@lower(aten.count_nonzero.default, aten.count_nonzero.dim_IntList)
def count_nonzero(g: Lowerer, x: View, dims: Any = None) -> View:
    marks = g.pointwise(x.shape, I64, lambda cell: cell.load(x).to(BOOL))
    return reduce(g, "sum", marks, dims, I64)


@lower(aten.prod.default)
def prod(g: Lowerer, x: View, *, dtype: Any = None) -> View:
    return prod_dim(g, x)


@lower(aten.prod.dim_int)
def prod_dim(g: Lowerer, x: View, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> View:
    result = g.result.dtype
    return converted(g, reduce(g, "prod", x, dim, result.compute, keepdim), result)


@lower(aten.max.default)
def max_(g: Lowerer, x: View) -> View:
    return reduce(g, "max", x, None, x.dtype)


@lower(aten.min.default)
def min_(g: Lowerer, x: View) -> View:
    return reduce(g, "min", x, None, x.dtype)


@lower(aten.aminmax.default)
def aminmax(g: Lowerer, x: View, *, dim: Any = None, keepdim: bool = False) -> tuple[View, View]:
    return reduce(g, "min", x, dim, x.dtype, keepdim), reduce(g, "max", x, dim, x.dtype, keepdim)


def position(g: Lowerer, op: str, x: View, dim: Any, keepdim: bool) -> View:
    """Where along a dimension (or in the flat tensor) the largest or smallest element stands."""
    over = reduced_dims(x, dim)
    outer = tuple(n for d, n in enumerate(x.shape) if d not in over)
    inner = tuple(x.shape[d] for d in over)

    def compute(cell: Cell, at: tuple[Index, ...]) -> Sequence[Scalar]:
        return [cell.load(x, merge(cell.position, at, over, x.rank)), cell.index(flatten(at, inner))]

    result = g.reduction(op, outer, inner, I64, compute)
    return kept(result, over, x.rank) if keepdim else result


@lower(aten.argmax.default)
def argmax(g: Lowerer, x: View, dim: Any = None, keepdim: bool = False) -> View:
    return position(g, "argmax", x, dim, keepdim)


@lower(aten.argmin.default)
def argmin(g: Lowerer, x: View, dim: Any = None, keepdim: bool = False) -> View:
    return position(g, "argmin", x, dim, keepdim)


@lower(aten.max.dim)
def max_dim(g: Lowerer, x: View, dim: Any, keepdim: bool = False) -> tuple[View, View]:
    return reduce(g, "max", x, dim, x.dtype, keepdim), position(g, "argmax", x, dim, keepdim)


@lower(aten.min.dim)
def min_dim(g: Lowerer, x: View, dim: Any, keepdim: bool = False) -> tuple[View, View]:
    return reduce(g, "min", x, dim, x.dtype, keepdim), position(g, "argmin", x, dim, keepdim)
