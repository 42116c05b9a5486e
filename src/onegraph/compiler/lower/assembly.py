"""Operators that put tensors together or surround them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from onegraph.compiler.lower.arguments import fits, number_of, static
from onegraph.compiler.lower.lowerer import Cell, Lowerer, is_empty
from onegraph.compiler.lower.registry import POINTWISE, MaybeView, lower
from onegraph.compiler.lower.scalars import Scalar, where
from onegraph.compiler.lower.view import dim_of
from onegraph.compiler.lower.views import Shape, View
from onegraph.ir.index import ONE, ZERO, Index, greatest, least

aten = torch.ops.aten


FEW_PIECES = 4  # so many can be chosen among for every element


def _joins_elementwise_work(g: Lowerer) -> bool:
    """Whether an operator that works element by element takes the result: then it need not go through memory."""
    return any(user.target in POINTWISE for user in g.node.users)


def _chosen(g: Lowerer, pieces: Sequence[View], dim: int) -> View:
    """Every element is looked for in its piece, under a condition; the loads of the others touch no memory."""

    def compute(cell: Cell) -> Scalar:
        at = cell.position[dim]
        ends = [ZERO]
        for piece in pieces:
            ends.append(ends[-1] + piece.shape[dim])
        result: Scalar | None = None
        for piece, start, end in reversed(list(zip(pieces, ends, ends[1:], strict=False))):
            place = [p - start if d == dim else p for d, p in enumerate(cell.position)]
            value = cell.load(piece, place, cell.within(at, start, end)).to(g.result.dtype)
            result = value if result is None else where(cell.within(at, ZERO, end), value, result)
        assert result is not None
        return result

    return g.pointwise(g.result.shape, g.result.dtype, compute)


@lower(aten.cat.default)
def cat(g: Lowerer, tensors: Sequence[View], dim: Any = 0) -> MaybeView:
    """Each piece is written to its place in the result, or chosen where an element is used."""
    result = g.result
    pieces = [x for x in tensors if not (x.rank == 1 and x.shape[0].constant == 0 and len(result.shape) != 1)]
    pieces = [x for x in pieces if not is_empty(x.shape)]
    if not pieces:
        return NotImplemented
    d = dim_of(dim, len(result.shape))
    if len(pieces) <= FEW_PIECES and _joins_elementwise_work(g):
        return _chosen(g, pieces, d)
    return g.assembled([(x, d) for x in pieces])


@lower(aten.stack.default)
def stack(g: Lowerer, tensors: Sequence[View], dim: Any = 0) -> MaybeView:
    d = dim_of(dim, len(g.result.shape))
    if is_empty(g.result.shape):
        return NotImplemented
    raised = [x.reshaped((*x.shape[:d], ONE, *x.shape[d:])) for x in tensors]
    return g.assembled([(x, d) for x in raised])


def _paddings(pad: Sequence[Any], rank: int) -> list[tuple[int, int]] | None:
    """Elements before and after, by dimension; `pad` names the last dimension first."""
    amounts = [static(n) for n in pad]
    if None in amounts:
        return None
    found = [(0, 0)] * rank
    for k in range(len(amounts) // 2):
        found[rank - 1 - k] = (amounts[2 * k] or 0, amounts[2 * k + 1] or 0)
    return found


@lower(aten.constant_pad_nd.default)
def constant_pad(g: Lowerer, x: View, pad: Sequence[Any], value: Any = 0) -> MaybeView:
    around = _paddings(pad, x.rank)
    if around is None or isinstance(value, complex) or not fits(value, x.dtype):
        return NotImplemented
    return padded(g, x, g.result.shape, around, number_of(value))


def padded(
    g: Lowerer,
    x: View,
    shape: Shape,
    around: Sequence[tuple[int, int]],
    filler: Any,
    strides: Sequence[Index] | None = None,
) -> View:
    """The tensor with so many elements before and behind along each dimension."""

    def compute(cell: Cell) -> Scalar:
        at = [p - before for p, (before, _) in zip(cell.position, around, strict=True)]
        inside: Scalar | None = None
        for place, size, amounts in zip(at, x.shape, around, strict=True):
            if amounts != (0, 0):
                test = cell.within(place, 0, size)
                inside = test if inside is None or inside.operand is True else inside & test
        if inside is None or inside.operand is True:
            return cell.load(x, at)
        return where(inside, cell.load(x, at, inside), filler)

    return g.pointwise(shape, x.dtype, compute, strides)


@lower(aten.replication_pad1d.default, aten.replication_pad2d.default, aten.replication_pad3d.default)
def replication_pad(g: Lowerer, x: View, pad: Sequence[Any]) -> MaybeView:
    around = _paddings(pad, x.rank)
    if around is None:
        return NotImplemented
    return x.reindexed(
        g.result.shape,
        lambda position: [
            p if amounts == (0, 0) else least(greatest(p - amounts[0], ZERO), size - 1)
            for p, size, amounts in zip(position, x.shape, around, strict=True)
        ],
    )


@lower(aten.reflection_pad1d.default, aten.reflection_pad2d.default, aten.reflection_pad3d.default)
def reflection_pad(g: Lowerer, x: View, pad: Sequence[Any]) -> MaybeView:
    around = _paddings(pad, x.rank)
    if around is None:
        return NotImplemented

    def mirrored(place: Index, size: Index) -> Index:
        """Back at the first element, then back at the last."""
        from_first = greatest(place, -place)
        beyond = size - 1 - from_first
        return size - 1 - greatest(beyond, -beyond)

    return x.reindexed(
        g.result.shape,
        lambda position: [
            p if amounts == (0, 0) else mirrored(p - amounts[0], size)
            for p, size, amounts in zip(position, x.shape, around, strict=True)
        ],
    )
