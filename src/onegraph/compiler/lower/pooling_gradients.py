"""Gradients of pooling, and what puts pooled elements back where they came from."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from onegraph.compiler.lower.indexing import at_position
from onegraph.compiler.lower.lowerer import Cell, Lowerer, is_empty
from onegraph.compiler.lower.pooling import Windows, widest, window_of, window_size
from onegraph.compiler.lower.reduction import converted
from onegraph.compiler.lower.registry import MaybeView, lower
from onegraph.compiler.lower.scalars import Scalar, where
from onegraph.compiler.lower.scatter import added, replaced
from onegraph.compiler.lower.sequential import Update
from onegraph.compiler.lower.views import View
from onegraph.ir.index import ZERO, Index, product
from onegraph.ir.types import BOOL

aten = torch.ops.aten


def _avg_pool_backward(rank: int) -> Any:
    def lowering(
        g: Lowerer,
        gradient: View,
        x: View,
        kernel: Any,
        stride: Any,
        padding: Any,
        ceil_mode: bool,
        count_include_pad: bool,
        divisor_override: Any,
    ) -> MaybeView:
        """What every window that holds an element got, shared out evenly."""
        windows = Windows(x, kernel, stride, padding, 1, rank)
        if not windows.is_static or not x.dtype.is_float:
            return NotImplemented
        first, dtype = windows.first, x.dtype.compute
        overlaps = tuple(Index.of(-(-k // s)) for k, s in zip(windows.kernel, windows.stride, strict=True))

        def share(cell: Cell, at: tuple[Index, ...]) -> Sequence[Scalar]:
            place, inside = list(cell.position[:first]), Scalar(cell.body, True, BOOL)
            ends = zip(cell.position[first:], at, gradient.shape[first:], strict=True)
            for (p, j, count), k, s, pad in zip(ends, windows.kernel, windows.stride, windows.padding, strict=True):
                window = (p + pad) // s - j
                within = cell.within(window, ZERO, count) & cell.within(p + pad - window * s, ZERO, k)
                inside = within if inside.operand is True else inside & within
                place.append(window)
            size = cell.index(window_size(windows, tuple(place), count_include_pad, divisor_override)).to(dtype)
            return [where(inside, cell.load(gradient, place, inside).to(dtype) / size, 0.0)]

        return converted(g, g.reduction("sum", x.shape, overlaps, dtype, share), x.dtype)

    return lowering


lower(aten.avg_pool2d_backward.default)(_avg_pool_backward(2))
lower(aten.avg_pool3d_backward.default)(_avg_pool_backward(3))


def _adaptive_avg_pool_backward(rank: int) -> Any:
    def lowering(g: Lowerer, gradient: View, x: View) -> MaybeView:
        first, dtype = x.rank - rank, x.dtype.compute
        if any(n.constant in (None, 0) for n in (*x.shape[first:], *gradient.shape)) or not x.dtype.is_float:
            return NotImplemented
        ends = list(zip(x.shape[first:], gradient.shape[first:], strict=True))
        overlaps = tuple(Index.of(widest(m.constant, n.constant)) for n, m in ends)  # type: ignore[arg-type]

        def share(cell: Cell, at: tuple[Index, ...]) -> Sequence[Scalar]:
            place, inside, size = list(cell.position[:first]), Scalar(cell.body, True, BOOL), []
            for p, j, (n, m) in zip(cell.position[first:], at, ends, strict=True):
                begin, end = window_of(p, m, n)
                window = begin + j
                within = cell.within(window, ZERO, end)
                inside = within if inside.operand is True else inside & within
                place.append(window)
                low, high = window_of(window, n, m)
                size.append(high - low)
            value = cell.load(gradient, place, inside).to(dtype) / cell.index(product(size)).to(dtype)
            return [where(inside, value, 0.0)]

        return converted(g, g.reduction("sum", x.shape, overlaps, dtype, share), x.dtype)

    return lowering


lower(aten._adaptive_avg_pool2d_backward.default)(_adaptive_avg_pool_backward(2))
lower(aten._adaptive_avg_pool3d_backward.default)(_adaptive_avg_pool_backward(3))


def _put_back(g: Lowerer, values: View, indices: View, rank: int, sums: bool) -> MaybeView:
    """Each value goes where its index says within its plane; planes are apart."""
    result = g.result
    if is_empty((*values.shape, *result.shape)):
        return NotImplemented
    dtype = result.dtype.compute if sums else result.dtype
    outer, plane = result.shape[:-rank], product(result.shape[-rank:])
    flat = (product(values.shape[-rank:]),)
    source, places = (view.reshaped((*outer, *flat)) for view in (values, indices))
    into = Update(g, (*outer, plane), dtype, lambda cell: cell.literal(0, dtype))
    combine = added if sums else replaced

    def step(cell: Cell, at: tuple[Index, ...]) -> None:
        number = cell.load(places, (*cell.position, *at))
        place = at_position(cell, number, plane, "RuntimeError", "Found an invalid max index")
        value = cell.load(source, (*cell.position, *at)).to(dtype)
        into.put(cell, (*cell.position, place), lambda old: combine(old, value))

    into.loop(outer, flat, step)
    return converted(g, into.view, result.dtype).reshaped(result.shape)


@lower(aten.max_pool2d_with_indices_backward.default)
def max_pool2d_backward(g: Lowerer, gradient: View, x: View, *window: Any) -> Any:
    return _put_back(g, gradient, window[-1], 2, sums=True)


@lower(aten.max_pool3d_with_indices_backward.default)
def max_pool3d_backward(g: Lowerer, gradient: View, x: View, *window: Any) -> Any:
    return _put_back(g, gradient, window[-1], 3, sums=True)


@lower(aten.adaptive_max_pool2d_backward.default)
def adaptive_max_pool2d_backward(g: Lowerer, gradient: View, x: View, indices: View) -> Any:
    return _put_back(g, gradient, indices, 2, sums=True)


@lower(aten.adaptive_max_pool3d_backward.default)
def adaptive_max_pool3d_backward(g: Lowerer, gradient: View, x: View, indices: View) -> Any:
    return _put_back(g, gradient, indices, 3, sums=True)


@lower(aten.max_unpool2d.default)
def max_unpool2d(g: Lowerer, x: View, indices: View, size: Any) -> Any:
    return _put_back(g, x, indices, 2, sums=False)


@lower(aten.max_unpool3d.default)
def max_unpool3d(g: Lowerer, x: View, indices: View, size: Any, stride: Any, padding: Any) -> Any:
    return _put_back(g, x, indices, 3, sums=False)
