"""Operators that only move elements about: they make views, and kernels read through these."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import torch

from onegraph.compiler.lower.lowerer import Lowerer
from onegraph.compiler.lower.registry import MaybeView, lower
from onegraph.compiler.lower.views import View
from onegraph.ir.index import ONE, ZERO, Index, greatest, is_not_negative, least

aten = torch.ops.aten


def dim_of(value: Any, rank: int) -> int:
    """A dimension given as an argument, counted from the front."""
    constant = Index.of(value).constant
    assert constant is not None
    return constant % max(rank, 1)


@lower(
    aten.alias.default,
    aten.detach.default,
    aten.lift_fresh.default,
    aten.lift_fresh_copy.default,
    aten.alias_copy.default,
    aten.detach_copy.default,
)
def alias(g: Lowerer, x: View) -> View:
    return x


@lower(
    aten.view.default,
    aten.reshape.default,
    aten._unsafe_view.default,
    aten.view_copy.default,
    aten._reshape_alias.default,
    aten._reshape_copy.default,
)
def view(g: Lowerer, x: View, *shape: Any) -> View:
    return x.reshaped(g.result.shape)


@lower(aten.expand.default, aten.expand_copy.default, aten.broadcast_to.default)
def expand(g: Lowerer, x: View, size: Any, *, implicit: bool = False) -> View:
    return x.expanded(g.result.shape)


@lower(aten.permute.default, aten.permute_copy.default)
def permute(g: Lowerer, x: View, dims: Sequence[Any]) -> View:
    return x.permuted([dim_of(d, x.rank) for d in dims])


@lower(aten.transpose.int, aten.transpose_copy.int)
def transpose(g: Lowerer, x: View, a: Any, b: Any) -> View:
    order = list(range(x.rank))
    if order:
        i, j = dim_of(a, x.rank), dim_of(b, x.rank)
        order[i], order[j] = order[j], order[i]
    return x.permuted(order)


@lower(aten.t.default, aten.t_copy.default, aten.numpy_T.default, aten.mT.default)
def t(g: Lowerer, x: View) -> View:
    return x.permuted(list(reversed(range(x.rank))))


@lower(
    aten.squeeze.default,
    aten.squeeze.dim,
    aten.squeeze.dims,
    aten.squeeze_copy.default,
    aten.squeeze_copy.dim,
    aten.squeeze_copy.dims,
)
def squeeze(g: Lowerer, x: View, dims: Any = None) -> View:
    listed = range(x.rank) if dims is None else dims if isinstance(dims, (list, tuple)) else [dims]
    gone = {d for d in (dim_of(v, x.rank) for v in listed) if d < x.rank and x.shape[d] == ONE}
    kept = [d for d in range(x.rank) if d not in gone]

    def where(position: tuple[Index, ...]) -> list[Index]:
        at = iter(position)
        return [ZERO if d in gone else next(at) for d in range(x.rank)]

    return x.reindexed(tuple(x.shape[d] for d in kept), where)


@lower(aten.unsqueeze.default, aten.unsqueeze_copy.default)
def unsqueeze(g: Lowerer, x: View, dim: Any) -> View:
    at = dim_of(dim, x.rank + 1)
    shape = (*x.shape[:at], ONE, *x.shape[at:])
    return x.reindexed(shape, lambda position: [*position[:at], *position[at + 1 :]])


@lower(aten.slice.Tensor, aten.slice_copy.Tensor)
def slice_(g: Lowerer, x: View, dim: Any = 0, start: Any = None, end: Any = None, step: Any = 1) -> MaybeView:
    at = dim_of(dim, x.rank)
    first, by = clamped(start, x.shape[at]), Index.of(step)
    if first is None:
        return NotImplemented
    return x.reindexed(
        g.result.shape, lambda position: [*position[:at], position[at] * by + first, *position[at + 1 :]]
    )


def clamped(start: Any, size: Index) -> Index | None:
    """Where a slice begins: counted from the end if negative, and within the dimension. None if it cannot be told."""
    if start is None:
        return ZERO
    begin = Index.of(start)
    if begin.constant is not None and size.constant is not None:
        value = begin.constant + (size.constant if begin.constant < 0 else 0)
        return Index.of(min(max(value, 0), size.constant))
    if begin.constant == 0:
        return ZERO
    negative = is_negative(begin)
    if negative is None:
        return None
    begin = begin + size if negative else begin
    return least(greatest(begin, 0), size)


def is_negative(number: Index) -> bool | None:
    """Whether the number is negative, if that is certain either way."""
    return False if is_not_negative(number) else True if is_not_negative(-number - 1) else None


@lower(aten.select.int, aten.select_copy.int)
def select(g: Lowerer, x: View, dim: Any, index: Any) -> MaybeView:
    at, number = dim_of(dim, x.rank), Index.of(index)
    negative = is_negative(number)
    if negative is None:
        return NotImplemented
    number = number + x.shape[at] if negative else number
    shape = (*x.shape[:at], *x.shape[at + 1 :])
    return x.reindexed(shape, lambda position: [*position[:at], number, *position[at:]])


def _moved(at: int, first: Index, position: Sequence[Index]) -> list[Index]:
    """The position with a number added to one of its indices."""
    return [*position[:at], position[at] + first, *position[at + 1 :]]


def pieces(x: View, at: int, sizes: Sequence[Index]) -> tuple[View, ...]:
    """The tensor cut along a dimension into pieces of these sizes."""
    found, first = [], ZERO
    for size in sizes:
        shape = (*x.shape[:at], size, *x.shape[at + 1 :])
        found.append(x.reindexed(shape, partial(_moved, at, first)))
        first = first + size
    return tuple(found)


@lower(
    aten.split.Tensor,
    aten.split_with_sizes.default,
    aten.split_copy.Tensor,
    aten.split_with_sizes_copy.default,
    aten.chunk.default,
)
def split(g: Lowerer, x: View, sizes: Any, dim: Any = 0) -> tuple[View, ...]:
    at = dim_of(dim, x.rank)
    return pieces(x, at, [result.shape[at] for result in g.results])


@lower(aten.unbind.int, aten.unbind_copy.int)
def unbind(g: Lowerer, x: View, dim: Any = 0) -> tuple[View, ...]:
    return tuple(select(g, x, dim, number) for number in range(len(g.results)))


@lower(aten.diagonal.default, aten.diagonal_copy.default)
def diagonal(g: Lowerer, x: View, offset: Any = 0, dim1: Any = 0, dim2: Any = 1) -> MaybeView:
    a, b, shift = dim_of(dim1, x.rank), dim_of(dim2, x.rank), Index.of(offset).constant
    if shift is None:
        return NotImplemented

    def where(position: tuple[Index, ...]) -> list[Index]:
        rest = iter(position[:-1])
        at = position[-1]
        return [at + max(-shift, 0) if d == a else at + max(shift, 0) if d == b else next(rest) for d in range(x.rank)]

    return x.reindexed(g.result.shape, where)


@lower(aten.flip.default)
def flip(g: Lowerer, x: View, dims: Sequence[Any]) -> View:
    turned = {dim_of(d, x.rank) for d in dims}
    return x.reindexed(
        x.shape, lambda position: [x.shape[d] - 1 - at if d in turned else at for d, at in enumerate(position)]
    )


@lower(aten.unfold.default, aten.unfold_copy.default)
def unfold(g: Lowerer, x: View, dim: Any, size: Any, step: Any) -> MaybeView:
    if x.rank == 0:
        return NotImplemented
    at, by = dim_of(dim, x.rank), Index.of(step)
    return x.reindexed(
        g.result.shape, lambda position: [*position[:at], position[at] * by + position[-1], *position[at + 1 : -1]]
    )
