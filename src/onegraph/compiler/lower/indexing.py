"""Operators that read at positions which other tensors hold, and those that write a piece into a tensor."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from onegraph.compiler.lower.lowerer import Cell, Lowerer
from onegraph.compiler.lower.registry import MaybeView, lower
from onegraph.compiler.lower.scalars import Scalar, where
from onegraph.compiler.lower.view import clamped, dim_of
from onegraph.compiler.lower.views import View
from onegraph.ir.index import ONE, Index
from onegraph.ir.types import BOOL, I64, U8

aten = torch.ops.aten
OUT_OF_RANGE = "index out of range in self"


def at_position(cell: Cell, number: Scalar, size: Index, error: str, message: str, from_end: bool = False) -> Index:
    """A number that a tensor holds as a position along a dimension; the program stops where it is outside."""
    number = number.to(I64)
    extent = cell.index(size)
    if from_end:
        number = where(number < 0, number + extent, number)
    cell.body.check(((number >= 0) & (number < extent)).operand, error, message)
    return cell.symbol(number)


@lower(aten.index_select.default)
def index_select(g: Lowerer, x: View, dim: Any, index: View) -> MaybeView:
    if not x.rank:
        return NotImplemented
    d = dim_of(dim, x.rank)

    def compute(cell: Cell) -> Scalar:
        p = cell.position
        number = cell.load(index, (p[d],) if index.rank else ())
        at = at_position(cell, number, x.shape[d], "IndexError", OUT_OF_RANGE)
        return cell.load(x, [*p[:d], at, *p[d + 1 :]])

    return g.pointwise(g.result.shape, x.dtype, compute)


@lower(aten.embedding.default)
def embedding(g: Lowerer, weight: View, indices: View, *_: Any, **__: Any) -> View:
    def compute(cell: Cell) -> Scalar:
        number = cell.load(indices, cell.position[:-1])
        at = at_position(cell, number, weight.shape[0], "IndexError", OUT_OF_RANGE)
        return cell.load(weight, (at, cell.position[-1]))

    return g.pointwise(g.result.shape, weight.dtype, compute)


@lower(aten.gather.default)
def gather(g: Lowerer, x: View, dim: Any, index: View, *, sparse_grad: bool = False) -> MaybeView:
    if not x.rank or index.rank != x.rank:
        return NotImplemented
    d = dim_of(dim, x.rank)

    def compute(cell: Cell) -> Scalar:
        p = cell.position
        at = at_position(cell, cell.load(index), x.shape[d], "RuntimeError", "index is out of bounds for dimension")
        return cell.load(x, [*p[:d], at, *p[d + 1 :]])

    return g.pointwise(g.result.shape, x.dtype, compute)


@lower(aten.take.default)
def take(g: Lowerer, x: View, index: View) -> View:
    flat = x.reshaped((x.numel,))

    def compute(cell: Cell) -> Scalar:
        at = at_position(cell, cell.load(index), x.numel, "IndexError", "out of range: tried to access index", True)
        return cell.load(flat, (at,))

    return g.pointwise(g.result.shape, x.dtype, compute)


@lower(aten.index.Tensor, aten._unsafe_index.Tensor)
def index_tensor(g: Lowerer, x: View, indices: Sequence[View | None]) -> MaybeView:
    """The dimensions that are indexed come first in the result, unless they stand together."""
    indices = [*indices, *[None] * (x.rank - len(indices))]
    named = [d for d, index in enumerate(indices) if index is not None]
    given = [index for index in indices if index is not None]
    if any(index.dtype in (BOOL, U8) for index in given):
        return NotImplemented
    rank = max(index.rank for index in given)
    together = named == list(range(named[0], named[-1] + 1))
    first = named[0] if together else 0
    message = "index is out of bounds for dimension"

    def compute(cell: Cell) -> Scalar:
        own, rest = cell.position[first : first + rank], iter(cell.position[:first] + cell.position[first + rank :])
        at = []
        for d, index in enumerate(indices):
            if index is None:
                at.append(next(rest))
                continue
            place = [Index.of(0) if n == ONE else p for n, p in zip(index.shape, own[rank - index.rank :], strict=True)]
            at.append(at_position(cell, cell.load(index, place), x.shape[d], "IndexError", message, from_end=True))
        return cell.load(x, at)

    return g.pointwise(g.result.shape, x.dtype, compute)


# ---- a piece of a tensor replaced ------------------------------------------------------------------------------------


@lower(aten.select_scatter.default)
def select_scatter(g: Lowerer, x: View, source: View, dim: Any, index: Any) -> MaybeView:
    d, number = dim_of(dim, x.rank), Index.of(index)
    if number.constant is None:
        return NotImplemented
    at = number + x.shape[d] if number.constant < 0 else number

    def compute(cell: Cell) -> Scalar:
        p = cell.position
        inside = cell.index(p[d]).eq(cell.index(at))
        return _replaced(cell, x, source, inside, [*p[:d], *p[d + 1 :]])

    return g.pointwise(x.shape, x.dtype, compute)


def _replaced(cell: Cell, x: View, source: View, inside: Scalar, at: Sequence[Index]) -> Scalar:
    if inside.operand is True:
        return cell.load(source, at).to(x.dtype)
    return where(inside, cell.load(source, at, inside).to(x.dtype), cell.load(x))


@lower(aten.slice_scatter.default)
def slice_scatter(
    g: Lowerer, x: View, source: View, dim: Any = 0, start: Any = None, end: Any = None, step: Any = 1
) -> MaybeView:
    d, by = dim_of(dim, x.rank), Index.of(step)
    first = clamped(start, x.shape[d])
    if first is None:
        return NotImplemented

    def compute(cell: Cell) -> Scalar:
        p = cell.position
        inside = cell.within(p[d] - first, 0, source.shape[d] * by)
        if by != ONE:
            inside = inside & cell.index((p[d] + by * x.shape[d] - first) % by).eq(0)
        return _replaced(cell, x, source, inside, [*p[:d], (p[d] - first) // by, *p[d + 1 :]])

    return g.pointwise(x.shape, x.dtype, compute)


@lower(aten.diagonal_scatter.default)
def diagonal_scatter(g: Lowerer, x: View, source: View, offset: Any = 0, dim1: Any = 0, dim2: Any = 1) -> MaybeView:
    a, b, shift = dim_of(dim1, x.rank), dim_of(dim2, x.rank), Index.of(offset).constant
    if shift is None:
        return NotImplemented

    def compute(cell: Cell) -> Scalar:
        p = cell.position
        inside = cell.index(p[a] + shift).eq(cell.index(p[b]))
        at = [*(p[d] for d in range(x.rank) if d not in (a, b)), p[a] if shift >= 0 else p[b]]
        return _replaced(cell, x, source, inside, at)

    return g.pointwise(x.shape, x.dtype, compute)


def _zeros(g: Lowerer) -> View:
    result = g.result
    return g.pointwise(result.shape, result.dtype, lambda cell: cell.literal(0, result.dtype))


@lower(aten.select_backward.default)
def select_backward(g: Lowerer, gradient: View, sizes: Any, dim: Any, index: Any) -> Any:
    return select_scatter(g, _zeros(g), gradient, dim, index)


@lower(aten.slice_backward.default)
def slice_backward(g: Lowerer, gradient: View, sizes: Any, dim: Any, start: Any, end: Any, step: Any) -> Any:
    return slice_scatter(g, _zeros(g), gradient, dim, start, end, step)


@lower(aten.diagonal_backward.default)
def diagonal_backward(g: Lowerer, gradient: View, sizes: Any, offset: Any, dim1: Any, dim2: Any) -> Any:
    return diagonal_scatter(g, _zeros(g), gradient, offset, dim1, dim2)


@lower(aten.copy.default)
def copy(g: Lowerer, x: View, source: View, non_blocking: bool = False) -> View:
    result = g.result
    return g.pointwise(result.shape, result.dtype, lambda cell: cell.load(source).to(result.dtype))
