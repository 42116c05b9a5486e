"""Operators that write at positions which other tensors hold. Where several meet in one place they act in order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from onegraph.base.constants import inf
from onegraph.compiler.lower.arguments import fits, number_of, static
from onegraph.compiler.lower.indexing import at_position
from onegraph.compiler.lower.lowerer import Cell, Lowerer
from onegraph.compiler.lower.reduction import converted
from onegraph.compiler.lower.registry import MaybeView, lower
from onegraph.compiler.lower.scalars import Scalar, maximum, minimum, where
from onegraph.compiler.lower.sequential import Update, scan
from onegraph.compiler.lower.view import dim_of
from onegraph.compiler.lower.views import View, broadcast, unflatten
from onegraph.ir.index import ONE, ZERO, Index, product
from onegraph.ir.types import BOOL, I64, U8, DType, TensorType, contiguous_strides

aten = torch.ops.aten
Combine = Callable[[Scalar, Scalar], Scalar]
OUTSIDE = "index is out of bounds for dimension"
OUT_OF_RANGE = "index out of range in self"
FAR_OUTSIDE = "out of range: tried to access index"


def replaced(old: Scalar, new: Scalar) -> Scalar:
    return new


def added(old: Scalar, new: Scalar) -> Scalar:
    return old | new if old.dtype is BOOL else old + new


def multiplied(old: Scalar, new: Scalar) -> Scalar:
    return old & new if old.dtype is BOOL else old * new


_REDUCTIONS: dict[str, tuple[Combine, Callable[[DType], float]]] = {
    "sum": (added, lambda dtype: 0),
    "mean": (added, lambda dtype: 0),
    "prod": (multiplied, lambda dtype: 1),
    "amax": (maximum, lambda dtype: _limits(dtype)[0]),
    "amin": (minimum, lambda dtype: _limits(dtype)[1]),
}


def _limits(dtype: DType) -> tuple[float, float]:
    if dtype.is_float:
        return -inf, inf
    if dtype is BOOL:
        return False, True
    bits = dtype.bits
    return (-(1 << bits - 1), (1 << bits - 1) - 1) if dtype.kind == "int" else (0, (1 << bits) - 1)


def number(cell: Cell, value: Any, dtype: DType) -> Scalar:
    """An argument that is a number, in this type."""
    if isinstance(value, Index) and value.constant is None:
        return cell.index(value).to(dtype)
    return cell.literal(number_of(value), dtype)


def is_number(value: Any, dtype: DType) -> bool:
    return not isinstance(value, (View, complex)) and fits(value, dtype)


# ---- along one dimension ---------------------------------------------------------------------------------------------


class Along:
    """Places of a tensor that are told along one dimension by an index of as many dimensions."""

    def __init__(self, g: Lowerer, x: View, dim: Any, index: View) -> None:
        self.g = g
        self.x = x if x.rank else x.reshaped((ONE,))
        self.index = index if index.rank else index.reshaped((ONE,))
        self.d = dim_of(dim, self.x.rank)
        # A tensor without elements is written to by nobody, and the operator says so.
        self.fits = self.index.rank == self.x.rank and index.dtype is I64 and x.numel.constant != 0

    def update(self, into: Update, element: Callable[[Cell, list[Index]], Scalar], combine: Combine) -> None:
        """`combine(old, element(position in the index))`, for every position in order."""
        d, index = self.d, self.index

        def step(cell: Cell, at: tuple[Index, ...]) -> None:
            place = [*cell.position[:d], *at, *cell.position[d:]]
            target = at_position(cell, cell.load(index, place), self.x.shape[d], "RuntimeError", OUTSIDE)
            into.put(cell, [*place[:d], target, *place[d + 1 :]], lambda old: combine(old, element(cell, place)))

        into.loop((*index.shape[:d], *index.shape[d + 1 :]), (index.shape[d],), step)

    def start(self, dtype: DType) -> Update:
        return Update(self.g, self.x.shape, dtype, lambda cell: cell.load(self.x).to(dtype))

    def finish(self, into: Update) -> View:
        result = self.g.result
        return converted(self.g, into.view, result.dtype).reshaped(result.shape)


def scattered(g: Lowerer, x: View, dim: Any, index: View, source: Any, combine: Combine, exact: bool) -> MaybeView:
    """One pass over the index; `exact` where elements are moved and not computed with."""
    along = Along(g, x, dim, index)
    if not along.fits:
        return NotImplemented
    dtype = x.dtype if exact else x.dtype.compute
    if isinstance(source, View):
        values = source if source.rank else source.reshaped((ONE,))

        def element(cell: Cell, at: list[Index]) -> Scalar:
            return cell.load(values, at).to(dtype)
    elif is_number(source, x.dtype):

        def element(cell: Cell, at: list[Index]) -> Scalar:
            return number(cell, source, dtype)
    else:
        return NotImplemented
    into = along.start(dtype)
    along.update(into, element, combine)
    return along.finish(into)


@lower(aten.scatter.src, aten.scatter.value)
def scatter(g: Lowerer, x: View, dim: Any, index: View, source: Any) -> Any:
    return scattered(g, x, dim, index, source, replaced, exact=True)


@lower(aten.scatter_add.default)
def scatter_add(g: Lowerer, x: View, dim: Any, index: View, source: View) -> Any:
    return scattered(g, x, dim, index, source, added, exact=False)


@lower(aten.scatter.reduce, aten.scatter.value_reduce)
def scatter_with(g: Lowerer, x: View, dim: Any, index: View, source: Any, *, reduce: str) -> Any:
    return scattered(g, x, dim, index, source, added if reduce == "add" else multiplied, exact=False)


@lower(aten.scatter_reduce.two)
def scatter_reduce(
    g: Lowerer, x: View, dim: Any, index: View, source: View, reduce: str, *, include_self: bool = True
) -> MaybeView:
    along = Along(g, x, dim, index)
    if not along.fits or (x.dtype is BOOL and reduce == "mean"):
        return NotImplemented
    values = source if source.rank else source.reshaped((ONE,))
    return reduced_into(g, along, lambda cell, at: cell.load(values, at), reduce, include_self)


def reduced_into(
    g: Lowerer, along: Along, element: Callable[[Cell, list[Index]], Scalar], reduce: str, include_self: bool
) -> View:
    """Elements gathered at their places; a place that none meets keeps what it had."""
    x, dtype = along.x, along.x.dtype.compute
    combine, identity = _REDUCTIONS[reduce]
    into = along.start(dtype)
    if not include_self:
        along.update(into, lambda cell, at: cell.literal(identity(dtype), dtype), replaced)
    along.update(into, lambda cell, at: element(cell, at).to(dtype), combine)
    if reduce != "mean":
        return along.finish(into)
    counts = Update(g, x.shape, I64, lambda cell: cell.literal(int(include_self), I64))
    along.update(counts, lambda cell, at: cell.literal(1, I64), added)

    def mean(cell: Cell) -> Scalar:
        count = maximum(cell.load(counts.view), 1).to(dtype)
        total = cell.load(into.view)
        return total / count if dtype.is_float else floor_divided(total, count)

    result = g.result
    return g.pointwise(x.shape, result.dtype, mean).reshaped(result.shape)


def floor_divided(a: Scalar, b: Scalar) -> Scalar:
    return Scalar(a.body, a.body.apply("floor_div", a.dtype, a.operand, b.operand), a.dtype)


# ---- slices along one dimension --------------------------------------------------------------------------------------


class Slices(Along):
    """Whole slices along a dimension, told by an index of one dimension."""

    def __init__(self, g: Lowerer, x: View, dim: Any, index: View) -> None:
        super().__init__(g, x, dim, index)
        self.fits = index.rank <= 1 and index.dtype.is_integer

    def update(self, into: Update, element: Callable[[Cell, list[Index]], Scalar], combine: Combine) -> None:
        d, index = self.d, self.index

        def step(cell: Cell, at: tuple[Index, ...]) -> None:
            place = [*cell.position[:d], *at, *cell.position[d:]]
            target = at_position(cell, cell.load(index, at), self.x.shape[d], "IndexError", OUT_OF_RANGE)
            into.put(cell, [*place[:d], target, *place[d + 1 :]], lambda old: combine(old, element(cell, place)))

        into.loop((*self.x.shape[:d], *self.x.shape[d + 1 :]), index.shape, step)


def _slices(g: Lowerer, x: View, dim: Any, index: View, source: View, combine: Combine, exact: bool) -> MaybeView:
    slices = Slices(g, x, dim, index)
    dtype = x.dtype if exact else x.dtype.compute
    if not slices.fits or (source.rank != x.rank and x.rank and source.rank):
        return NotImplemented
    values = source.reshaped((ONE,) * slices.x.rank) if not source.rank else source
    into = slices.start(dtype)
    slices.update(into, lambda cell, at: cell.load(values, at).to(dtype), combine)
    return slices.finish(into)


@lower(aten.index_add.default)
def index_add(g: Lowerer, x: View, dim: Any, index: View, source: View, *, alpha: Any = 1) -> MaybeView:
    if x.dtype is BOOL or not is_number(alpha, x.dtype):
        return NotImplemented
    factor = static(alpha) if isinstance(alpha, Index) else alpha
    if factor is None:
        return NotImplemented

    def combine(old: Scalar, new: Scalar) -> Scalar:
        return old + (new if factor == 1 else new * factor)

    return _slices(g, x, dim, index, source, combine, exact=False)


@lower(aten.index_copy.default)
def index_copy(g: Lowerer, x: View, dim: Any, index: View, source: View) -> Any:
    return _slices(g, x, dim, index, source, replaced, exact=True)


@lower(aten.index_fill.int_Scalar, aten.index_fill.int_Tensor)
def index_fill(g: Lowerer, x: View, dim: Any, index: View, value: Any) -> MaybeView:
    slices = Slices(g, x, dim, index)
    if not slices.fits or not (isinstance(value, View) or is_number(value, x.dtype)):
        return NotImplemented

    def element(cell: Cell, at: list[Index]) -> Scalar:
        if isinstance(value, View):
            return cell.load(value, ()).to(x.dtype)
        return number(cell, value, x.dtype)

    into = slices.start(x.dtype)
    d, size = slices.d, slices.x.shape[slices.d]

    def step(cell: Cell, at: tuple[Index, ...]) -> None:
        place = [*cell.position[:d], *at, *cell.position[d:]]
        target = at_position(cell, cell.load(slices.index, at), size, "IndexError", OUT_OF_RANGE, True)
        into.put(cell, [*place[:d], target, *place[d + 1 :]], lambda old: element(cell, place))

    into.loop((*slices.x.shape[:d], *slices.x.shape[d + 1 :]), slices.index.shape, step)
    return slices.finish(into)


@lower(aten.index_reduce.default)
def index_reduce(
    g: Lowerer, x: View, dim: Any, index: View, source: View, reduce: str, *, include_self: bool = True
) -> MaybeView:
    slices = Slices(g, x, dim, index)
    if not slices.fits or not source.rank or x.dtype is BOOL:
        return NotImplemented
    return reduced_into(g, slices, lambda cell, at: cell.load(source, at), reduce, include_self)


@lower(aten.embedding_dense_backward.default)
def embedding_dense_backward(
    g: Lowerer, gradient: View, indices: View, count: Any, padding: Any, scale_by_frequency: bool
) -> MaybeView:
    skipped, result = static(padding), g.result
    if scale_by_frequency or skipped is None or not gradient.dtype.is_float:
        return NotImplemented
    dtype = result.dtype.compute
    rows = gradient.reshaped((indices.numel, result.shape[1]))
    flat = indices.reshaped((indices.numel,))
    into = Update(g, result.shape, dtype, lambda cell: cell.literal(0, dtype))

    def step(cell: Cell, at: tuple[Index, ...]) -> None:
        number = cell.load(flat, at).to(I64)
        counted = number.ne(skipped)
        row = at_position(cell, where(counted, number, 0), result.shape[0], "IndexError", OUTSIDE)
        value = cell.load(rows, (*at, *cell.position)).to(dtype)
        into.put(cell, (row, *cell.position), lambda old: where(counted, old + value, old))

    into.loop((result.shape[1],), (indices.numel,), step)
    return converted(g, into.view, result.dtype)


# ---- anywhere --------------------------------------------------------------------------------------------------------


@lower(aten.put.default)
def put(g: Lowerer, x: View, index: View, source: View, accumulate: bool = False) -> Any:
    dtype = x.dtype.compute if accumulate else x.dtype
    flat, places, values = (view.reshaped((view.numel,)) for view in (x, index, source))
    into = Update(g, flat.shape, dtype, lambda cell: cell.load(flat).to(dtype))
    combine = added if accumulate else replaced

    def step(cell: Cell, at: tuple[Index, ...]) -> None:
        place = at_position(cell, cell.load(places, at), x.numel, "IndexError", FAR_OUTSIDE, from_end=True)
        into.put(cell, (place,), lambda old: combine(old, cell.load(values, at).to(dtype)))

    into.loop((), (index.numel,), step)
    return converted(g, into.view, x.dtype).reshaped(x.shape)


@lower(aten.index_put.default, aten._unsafe_index_put.default)
def index_put(g: Lowerer, x: View, indices: Sequence[View | None], values: View, accumulate: bool = False) -> MaybeView:
    """Dimensions that are indexed come first in the values, unless they stand together."""
    named = [d for d, index in enumerate(indices) if index is not None]
    chosen = [index for index in indices if index is not None]
    if len(named) == 1 and chosen[0].dtype is BOOL and not accumulate:
        return _filled_where(g, x, named[0], chosen[0], values)
    if any(index.dtype in (BOOL, U8) for index in chosen):
        return NotImplemented
    rank = max(index.rank for index in chosen)
    together = named == list(range(named[0], named[-1] + 1))
    first = named[0] if together else 0
    shape = broadcast([index.shape for index in chosen])
    others = [d for d in range(x.rank) if d not in named]
    rest = tuple(x.shape[d] for d in others)
    dtype = x.dtype.compute if accumulate else x.dtype
    combine = added if accumulate else replaced
    source = values.expanded((*rest[:first], *shape, *rest[first:]))
    into = Update(g, x.shape, dtype, lambda cell: cell.load(x).to(dtype))

    def step(cell: Cell, at: tuple[Index, ...]) -> None:
        place: list[Index] = [ZERO] * x.rank
        for d, position in zip(others, cell.position, strict=True):
            place[d] = position
        for d, index in zip(named, chosen, strict=True):
            own = [ZERO if n == ONE else p for n, p in zip(index.shape, at[rank - index.rank :], strict=True)]
            place[d] = at_position(cell, cell.load(index, own), x.shape[d], "IndexError", OUTSIDE, from_end=True)
        value = cell.load(source, (*cell.position[:first], *at, *cell.position[first:])).to(dtype)
        into.put(cell, place, lambda old: combine(old, value))

    into.loop(rest, shape, step)
    return converted(g, into.view, x.dtype)


def _filled_where(g: Lowerer, x: View, first: int, mask: View, values: View) -> MaybeView:
    """One value wherever a mask holds."""
    if any(n != ONE for n in values.shape) or x.shape[first : first + mask.rank] != mask.shape:
        return NotImplemented
    one = values.reshaped(())

    def compute(cell: Cell) -> Scalar:
        held = cell.load(mask, cell.position[first : first + mask.rank])
        return where(held, cell.load(one, ()).to(x.dtype), cell.load(x))

    return g.pointwise(x.shape, x.dtype, compute)


@lower(aten.masked_scatter.default)
def masked_scatter(g: Lowerer, x: View, mask: View, source: View) -> MaybeView:
    """The elements of the source in order, wherever the mask holds."""
    shape = g.result.shape
    if mask.dtype is not BOOL or x.dtype is not source.dtype or not shape:
        return NotImplemented
    count = product(shape)
    held, old = mask.expanded(shape), x.expanded(shape)
    flat = source.reshaped((source.numel,))

    def step(cell: Cell, state: list[Scalar]) -> Any:
        place = unflatten(cell.position[0], shape)
        wanted = cell.load(held, place)
        there = state[0] < cell.index(source.numel)
        message = "Number of elements of source < number of ones in mask"
        cell.body.check((there | ~wanted).operand, "RuntimeError", message)
        taken = cell.load(flat, (cell.symbol(state[0]),), wanted & there & (state[0] >= 0))
        value = where(wanted, taken, cell.load(old, place))
        return [state[0] + wanted.to(I64)], [value]

    type = TensorType(x.dtype, (count,), contiguous_strides((count,)))
    (found,) = scan(g, (count,), 0, [(I64, 0)], [type], step)
    return found.reshaped(shape)
