"""Variance, norms and the logarithm of a sum of exponentials."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch

from onegraph.base.constants import inf
from onegraph.compiler.lower import scalars as s
from onegraph.compiler.lower.arguments import number_of
from onegraph.compiler.lower.lowerer import Cell, Lowerer
from onegraph.compiler.lower.reduction import converted, reduce, reduced_dims
from onegraph.compiler.lower.registry import MaybeView, lower
from onegraph.compiler.lower.scalars import Scalar, where
from onegraph.compiler.lower.views import View
from onegraph.ir.index import Index, product
from onegraph.ir.types import DType

aten = torch.ops.aten


def mean_of(g: Lowerer, x: View, dims: Any, dtype: DType) -> View:
    """The mean along dimensions, which stay with size 1."""
    count = product([x.shape[d] for d in reduced_dims(x, dims)])
    total = reduce(g, "sum", x, dims, dtype, keepdim=True)
    return g.pointwise(total.shape, dtype, lambda cell: cell.load(total) / cell.index(count).to(dtype))


def moments(g: Lowerer, x: View, dims: Any, dtype: DType, correction: float = 0.0) -> tuple[View, View]:
    """Mean and variance along dimensions, which stay with size 1.

    The corrected two-pass algorithm (Chan, Golub and LeVeque, 1983): the sum of the distances from the mean tells how
    it was rounded. Equal elements have themselves as their mean, and no variance.
    """
    near = mean_of(g, x, dims, dtype)
    count = product([x.shape[d] for d in reduced_dims(x, dims)])

    def distance(cell: Cell) -> Scalar:
        return cell.load(x).to(dtype) - cell.load(near)

    def total(term: Callable[[Cell], Scalar]) -> View:
        return reduce(g, "sum", g.pointwise(x.shape, dtype, term), dims, dtype, keepdim=True)

    drift = total(distance)
    squares = total(lambda cell: distance(cell) * distance(cell))

    def shift(cell: Cell) -> Scalar:
        return cell.load(drift) / cell.index(count).to(dtype)

    def mean(cell: Cell) -> Scalar:
        value = cell.load(near) + shift(cell)
        return where(s.isnan(value), cell.load(near), value)  # where an infinity has no distance from itself

    def variance(cell: Cell) -> Scalar:
        divisor = cell.index(count).to(dtype) - correction
        return s.maximum(cell.load(squares) - cell.load(drift) * shift(cell), 0) / s.maximum(divisor, 0)

    return g.pointwise(near.shape, dtype, mean), g.pointwise(near.shape, dtype, variance)


def without(view: View, dims: Any, x: View, keepdim: bool) -> View:
    """Drop the dimensions that a reduction of x along `dims` left with size 1, unless they shall stay."""
    if keepdim:
        return view
    over = reduced_dims(x, dims)
    return view.reshaped(tuple(n for d, n in enumerate(x.shape) if d not in over))


def _variance(
    g: Lowerer, x: View, dims: Any, correction: Any, keepdim: bool, result: DType, root: bool
) -> tuple[View, View] | None:
    by = 1 if correction is None else correction.constant if isinstance(correction, Index) else correction
    if by is None:
        return None
    mean, variance = moments(g, x, dims, result.compute, float(by))

    def finished(cell: Cell) -> Scalar:
        value = cell.load(variance)
        return s.sqrt(value) if root else value

    spread = g.pointwise(variance.shape, result, finished)
    return without(spread, dims, x, keepdim), without(converted(g, mean, result), dims, x, keepdim)


@lower(aten.var.correction)
def var(g: Lowerer, x: View, dim: Any = None, *, correction: Any = None, keepdim: bool = False) -> MaybeView:
    found = _variance(g, x, dim, correction, keepdim, g.result.dtype, root=False)
    return NotImplemented if found is None else found[0]


@lower(aten.std.correction)
def std(g: Lowerer, x: View, dim: Any = None, *, correction: Any = None, keepdim: bool = False) -> MaybeView:
    found = _variance(g, x, dim, correction, keepdim, g.result.dtype, root=True)
    return NotImplemented if found is None else found[0]


@lower(aten.var_mean.correction)
def var_mean(g: Lowerer, x: View, dim: Any = None, *, correction: Any = None, keepdim: bool = False) -> Any:
    return _variance(g, x, dim, correction, keepdim, g.results[0].dtype, root=False) or NotImplemented


@lower(aten.std_mean.correction)
def std_mean(g: Lowerer, x: View, dim: Any = None, *, correction: Any = None, keepdim: bool = False) -> Any:
    return _variance(g, x, dim, correction, keepdim, g.results[0].dtype, root=True) or NotImplemented


@lower(aten.logsumexp.default)
def logsumexp(g: Lowerer, x: View, dim: Any, keepdim: bool = False) -> MaybeView:
    if any(x.shape[d].constant == 0 for d in reduced_dims(x, dim)):
        return NotImplemented
    result = g.result.dtype
    dtype = result.compute
    largest = reduce(g, "max", x, dim, dtype, keepdim=True)

    def finite(cell: Cell) -> Scalar:
        value = cell.load(largest)
        return where(s.isinf(value), 0, value)

    exponentials = g.pointwise(x.shape, dtype, lambda cell: s.exp(cell.load(x).to(dtype) - finite(cell)))
    total = reduce(g, "sum", exponentials, dim, dtype, keepdim=True)
    value = g.pointwise(total.shape, result, lambda cell: s.log(cell.load(total)) + finite(cell))
    return without(value, dim, x, keepdim)


@lower(aten.linalg_vector_norm.default)
def vector_norm(
    g: Lowerer, x: View, ord: Any = 2, dim: Any = None, keepdim: bool = False, *, dtype: Any = None
) -> MaybeView:
    power = float(number_of(ord))
    empty = any(x.shape[d].constant == 0 for d in reduced_dims(x, dim))
    if not x.dtype.is_float or (math.isinf(power) and empty):
        return NotImplemented
    result = g.result.dtype
    gather = "max" if power == inf else "min" if power == -inf else "sum"
    compute = result.compute
    terms = g.pointwise(x.shape, compute, lambda cell: norm_term(cell.load(x).to(compute), power))
    total = reduce(g, gather, terms, dim, compute, keepdim)
    return g.pointwise(total.shape, result, lambda cell: norm_root(cell.load(total), power))


def norm_term(x: Scalar, power: float) -> Scalar:
    """What an element adds to the norm's sum (or its extreme)."""
    if power == 0:
        return x.ne(0).to(x.dtype)
    if power == 2:
        return x * x
    size = s.absolute(x)
    return size if power == 1 or math.isinf(power) else s.power(size, power)


def norm_root(total: Scalar, power: float) -> Scalar:
    """The norm, from that sum."""
    if power == 2:
        return s.sqrt(total)
    return total if power in (0, 1) or math.isinf(power) else s.power(total, 1 / power)
