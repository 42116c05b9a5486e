"""Operators that only move elements about: their result is the operand seen through other indices, and costs nothing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from onegraph.compiler.lower.arguments import listed, static
from onegraph.compiler.lower.lowerer import Lowerer
from onegraph.compiler.lower.registry import lower
from onegraph.compiler.lower.views import View
from onegraph.ir.index import ONE, ZERO, Index, greatest, least
from onegraph.torchlib.aten import OpOverload

aten = torch.ops.aten
Dim = Index | int


def dimension(x: View, dim: Dim, extra: int = 0) -> int:
    """A dimension counted from the front; `extra` more may be named than the tensor has."""
    number = static(dim)
    assert number is not None, "a dimension is a plain number"
    return number % max(x.rank + extra, 1)


def _ops(*names: str) -> tuple[OpOverload, ...]:
    """The operators of these names, and what copies in place of viewing."""
    found = []
    for name in names:
        base, _, overload = name.partition(".")
        for packet in (base, f"{base}_copy"):
            if hasattr(aten, packet) and hasattr(getattr(aten, packet), overload):
                found.append(getattr(getattr(aten, packet), overload))
    return tuple(found)


@lower(*_ops("alias.default", "detach.default", "lift_fresh.default"))
def alias(g: Lowerer, x: View) -> View:
    return x


@lower(*_ops("view.default", "_unsafe_view.default", "reshape.default", "_reshape_alias.default"))
def view(g: Lowerer, x: View, size: Sequence[Dim], *_: Any) -> View:
    return x.reshaped(g.result.shape)


@lower(*_ops("expand.default"))
def expand(g: Lowerer, x: View, size: Sequence[Dim], *, implicit: bool = False) -> View:
    return x.expanded(g.result.shape)


@lower(*_ops("permute.default"))
def permute(g: Lowerer, x: View, order: Sequence[Dim]) -> View:
    return x.permuted([dimension(x, d) for d in order])


@lower(*_ops("transpose.int"))
def transpose(g: Lowerer, x: View, a: Dim, b: Dim) -> View:
    order = list(range(x.rank))
    if x.rank:
        i, j = dimension(x, a), dimension(x, b)
        order[i], order[j] = order[j], order[i]
    return x.permuted(order)


@lower(*_ops("t.default"))
def t(g: Lowerer, x: View) -> View:
    return x.permuted(range(x.rank)[::-1])


@lower(*_ops("squeeze.default", "squeeze.dim", "squeeze.dims", "unsqueeze.default"))
def squeeze(g: Lowerer, x: View, dims: Any = None) -> View:
    return x.reshaped(g.result.shape)


@lower(*_ops("select.int"))
def select(g: Lowerer, x: View, dim: Dim, index: Dim) -> View:
    d, at = dimension(x, dim), wrapped(index, x.shape[dimension(x, dim)])
    if at is None:
        return NotImplemented
    return x.reindexed(x.shape[:d] + x.shape[d + 1 :], lambda p: (*p[:d], at, *p[d:]))


def wrapped(index: Dim, size: Index) -> Index | None:
    """An index that may count from the end, as one from the start; None if the sign is not known."""
    index = Index.of(index)
    if index.constant is None:
        return None if any(symbol.signed for symbol in index.symbols) else index
    return index + size if index.constant < 0 else index


@lower(*_ops("slice.Tensor"))
def slice_(g: Lowerer, x: View, dim: Dim = 0, start: Any = None, end: Any = None, step: Dim = 1) -> View:
    d = dimension(x, dim)
    first = sliced_from(start, x.shape[d])
    return NotImplemented if first is None else piece(x, d, first, g.result.shape[d], Index.of(step))


def sliced_from(start: Any, size: Index) -> Index | None:
    """Where a slice starts: counted from the front and kept within the dimension."""
    first = wrapped(0 if start is None else start, size)
    return None if first is None else least(greatest(first, ZERO), size)


def piece(x: View, d: int, start: Index, length: Index, step: Index = ONE) -> View:
    """`length` elements of the dimension d, from `start` on in steps."""
    shape = (*x.shape[:d], length, *x.shape[d + 1 :])
    return x.reindexed(shape, lambda p: (*p[:d], start + p[d] * step, *p[d + 1 :]))


@lower(
    *_ops("split.Tensor", "split_with_sizes.default"),
    aten.unsafe_split.Tensor,
    aten.unsafe_split_with_sizes.default,
)
def split(g: Lowerer, x: View, sizes: Any, dim: Dim = 0) -> tuple[View, ...]:
    d, start, pieces = dimension(x, dim), ZERO, []
    for result in g.results:
        pieces.append(piece(x, d, start, result.shape[d]))
        start = start + result.shape[d]
    return tuple(pieces)


@lower(*_ops("unbind.int"))
def unbind(g: Lowerer, x: View, dim: Dim = 0) -> tuple[View, ...]:
    return tuple(select(g, x, dim, index) for index in range(len(g.results)))


@lower(*_ops("diagonal.default"))
def diagonal(g: Lowerer, x: View, offset: Dim = 0, dim1: Dim = 0, dim2: Dim = 1) -> View:
    a, b, by = dimension(x, dim1), dimension(x, dim2), static(offset)
    if by is None:
        return NotImplemented
    above, below = max(by, 0), max(-by, 0)

    def where(p: tuple[Index, ...]) -> list[Index]:
        rest = iter(p[:-1])
        return [p[-1] + below if d == a else p[-1] + above if d == b else next(rest) for d in range(x.rank)]

    return x.reindexed(g.result.shape, where)


@lower(*_ops("unfold.default"))
def unfold(g: Lowerer, x: View, dim: Dim, size: Dim, step: Dim) -> View:
    if not x.rank:
        return x.reshaped(g.result.shape)
    d = dimension(x, dim)
    return x.reindexed(g.result.shape, lambda p: (*p[:d], p[d] * step + p[-1], *p[d + 1 : -1]))


@lower(*_ops("as_strided.default"))
def as_strided(g: Lowerer, x: View, size: Any, stride: Sequence[Dim], offset: Any = None) -> View:
    """The operand's memory, where it is known to be a block without gaps, seen with other strides."""
    fake = g.node.args[0].meta["val"]
    order = memory_order(fake)
    if order is None:
        return NotImplemented
    start = ZERO if offset is None else Index.of(offset) - fake.storage_offset()
    flat = x.permuted(order).reshaped((x.numel,))
    steps = [Index.of(step) for step in stride]
    return flat.reindexed(g.result.shape, lambda p: [sum((at * s for at, s in zip(p, steps, strict=True)), start)])


def memory_order(tensor: torch.Tensor) -> list[int] | None:
    """The dimensions from the outermost in memory to the innermost, if the tensor fills a block of memory."""
    order = sorted(range(tensor.dim()), key=lambda d: (tensor.stride(d), tensor.size(d) == 1), reverse=True)
    expected = 1
    for d in reversed(order):
        if tensor.size(d) == 1:
            continue
        if tensor.stride(d) != expected:
            return None
        expected = expected * tensor.size(d)
    return order


@lower(aten.flip.default)
def flip(g: Lowerer, x: View, dims: Sequence[Dim]) -> View:
    turned = {dimension(x, d) for d in dims}
    return x.reindexed(x.shape, lambda p: [x.shape[d] - 1 - at if d in turned else at for d, at in enumerate(p)])


@lower(aten.roll.default)
def roll(g: Lowerer, x: View, shifts: Any, dims: Any = ()) -> View:
    by = [static(shift) for shift in listed(shifts)]
    if None in by or any(size.constant == 0 for size in x.shape):
        return NotImplemented
    if not listed(dims):
        flat = x.reshaped((x.numel,))
        return rolled(flat, {0: by[0] or 0}).reshaped(x.shape)
    total: dict[int, int] = {}
    for dim, shift in zip(listed(dims), by, strict=True):
        d = dimension(x, dim)
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
    a, b = (dimension(x, d) for d in dims)
    for _ in range((static(k) or 0) % 4):
        order = list(range(x.rank))
        order[a], order[b] = b, a
        x = flip(g, x.permuted(order), [a])
    return x


@lower(aten.repeat.default)
def repeat(g: Lowerer, x: View, repeats: Any) -> View:
    shape = g.result.shape
    if any(size.constant == 0 for size in shape):
        return NotImplemented
    missing = len(shape) - x.rank
    return x.reindexed(shape, lambda p: [at % n if n != ONE else ZERO for at, n in zip(p[missing:], x.shape, strict=True)])


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
