"""Operators that move elements about in less usual ways. They make views too: no kernel runs for them alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from onegraph.compiler.lower.arguments import listed, static
from onegraph.compiler.lower.lowerer import Lowerer, is_empty
from onegraph.compiler.lower.registry import MaybeView, lower
from onegraph.compiler.lower.view import dim_of, flip, split
from onegraph.compiler.lower.views import View
from onegraph.ir.index import ONE, ZERO, Index, is_at_most, is_not_negative
from onegraph.torchlib.aten import may_view
from onegraph.torchlib.strides import memory_order

aten = torch.ops.aten
Dim = Index | int


@lower(aten.as_strided.default, aten.as_strided_copy.default)
def as_strided(g: Lowerer, x: View, size: Any, stride: Sequence[Dim], offset: Any = None) -> MaybeView:
    """The operand's memory, where it is known to be a block without gaps, seen with other strides.

    Offsets count from the start of the storage, of which an input may be any part.
    """
    source: Any = g.node.args[0]
    fake = source.meta["val"]
    while source.op == "call_function" and may_view(source.target):
        source = source.args[0]
    order = memory_order(fake) if source.op == "call_function" else None
    if order is None:
        return NotImplemented
    start = ZERO if offset is None else Index.of(offset) - fake.storage_offset()
    last = sum(((n - 1) * Index.of(s) for n, s in zip(g.result.shape, stride, strict=True)), start)
    if not (is_not_negative(start) and is_at_most(last + 1, x.numel)):
        return NotImplemented
    flat = x.permuted(order).reshaped((x.numel,))
    steps = [Index.of(step) for step in stride]
    return flat.reindexed(g.result.shape, lambda p: [sum((at * s for at, s in zip(p, steps, strict=True)), start)])


lower(aten.unsafe_split.Tensor, aten.unsafe_split_with_sizes.default)(split)


@lower(aten.roll.default)
def roll(g: Lowerer, x: View, shifts: Any, dims: Any = ()) -> MaybeView:
    by = [static(shift) for shift in listed(shifts)]
    if None in by or is_empty(x.shape):
        return NotImplemented
    if not listed(dims):
        flat = x.reshaped((x.numel,))
        return rolled(flat, {0: by[0] or 0}).reshaped(x.shape)
    total: dict[int, int] = {}
    for dim, shift in zip(listed(dims), by, strict=True):
        d = dim_of(dim, x.rank)
        total[d] = total.get(d, 0) + (shift or 0)
    return rolled(x, total)


def rolled(x: View, shifts: dict[int, int]) -> View:
    def where(p: tuple[Index, ...]) -> list[Index]:
        return [
            (at + Index.of(-shifts[d]) % x.shape[d]) % x.shape[d] if d in shifts and x.shape[d] != ONE else at
            for d, at in enumerate(p)
        ]

    return x.reindexed(x.shape, where)


@lower(aten.rot90.default)
def rot90(g: Lowerer, x: View, k: Dim = 1, dims: Sequence[Dim] = (0, 1)) -> View:
    a, b = (dim_of(d, x.rank) for d in dims)
    for _ in range((static(k) or 0) % 4):
        order = list(range(x.rank))
        order[a], order[b] = b, a
        x = flip(g, x.permuted(order), [a])
    return x


@lower(aten.repeat.default)
def repeat(g: Lowerer, x: View, repeats: Any) -> MaybeView:
    shape = g.result.shape
    if is_empty(shape):
        return NotImplemented
    missing = len(shape) - x.rank

    def where(p: tuple[Index, ...]) -> list[Index]:
        return [at % n if n != ONE else ZERO for at, n in zip(p[missing:], x.shape, strict=True)]

    return x.reindexed(shape, where)


@lower(aten.pixel_shuffle.default)
def pixel_shuffle(g: Lowerer, x: View, factor: Dim) -> View:
    shape = g.result.shape

    def where(p: tuple[Index, ...]) -> list[Index]:
        *outer, c, h, w = p
        return [*outer, (c * factor + h % factor) * factor + w % factor, h // factor, w // factor]

    return x.reindexed(shape, where)


@lower(aten.pixel_unshuffle.default)
def pixel_unshuffle(g: Lowerer, x: View, factor: Dim) -> View:
    square = Index.of(factor) * factor

    def where(p: tuple[Index, ...]) -> list[Index]:
        *outer, c, h, w = p
        inner = c % square
        return [*outer, c // square, h * factor + inner // factor, w * factor + inner % factor]

    return x.reindexed(g.result.shape, where)


@lower(aten.channel_shuffle.default, aten.native_channel_shuffle.default)
def channel_shuffle(g: Lowerer, x: View, groups: Dim) -> View:
    return x.reindexed(x.shape, lambda p: [p[0], p[1] % groups * (x.shape[1] // groups) + p[1] // groups, *p[2:]])
