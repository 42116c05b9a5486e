"""Pooling over images, volumes and signals."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from onegraph.base.constants import inf
from onegraph.compiler.lower.arguments import listed, number_of, static
from onegraph.compiler.lower.lowerer import Cell, Lowerer
from onegraph.compiler.lower.registry import MaybeView, lower
from onegraph.compiler.lower.scalars import Scalar, where
from onegraph.compiler.lower.views import Shape, View, flatten
from onegraph.ir.index import ZERO, Index, least, product
from onegraph.ir.types import I64

aten = torch.ops.aten


def _numbers(value: Any, rank: int) -> list[int] | None:
    """One plain number for each of the pooled dimensions."""
    numbers = [static(n) for n in listed(value)]
    if None in numbers:
        return None
    return [n or 0 for n in (numbers * rank if len(numbers) == 1 else numbers)]


class Windows:
    """Windows over the last dimensions of a tensor: where each begins and which places lie within the tensor."""

    def __init__(self, x: View, kernel: Any, stride: Any, padding: Any, dilation: Any, rank: int) -> None:
        self.x = x
        self.rank = rank
        self.first = x.rank - rank
        self.kernel: Any = _numbers(kernel, rank)
        self.stride: Any = _numbers(stride, rank) if listed(stride) else self.kernel
        self.padding: Any = _numbers(padding, rank)
        self.dilation: Any = _numbers(dilation, rank)

    @property
    def is_static(self) -> bool:
        return None not in (self.kernel, self.stride, self.padding, self.dilation)

    @property
    def shape(self) -> Shape:
        """Sizes of the windows, without what lies beyond the tensor from wherever a window begins."""
        sizes = []
        for n, size, pad, step in zip(
            self.kernel, self.x.shape[self.first :], self.padding, self.dilation, strict=True
        ):
            sizes.append(least((size + (pad - 1)) // step + 1, n) if size.constant is not None else Index.of(n))
        return tuple(sizes)

    def places(self, position: tuple[Index, ...], at: tuple[Index, ...]) -> list[Index]:
        """The element of the tensor in place `at` of the window at `position`."""
        return [
            p * s - pad + k * d
            for p, k, s, pad, d in zip(
                position[self.first :], at, self.stride, self.padding, self.dilation, strict=True
            )
        ]

    def inside(self, cell: Cell, places: list[Index]) -> Scalar | None:
        """Whether it lies within the tensor; None where it always does."""
        found: Scalar | None = None
        for place, size in zip(places, self.x.shape[self.first :], strict=True):
            test = cell.within(place, ZERO, size)
            if test.operand is not True:
                found = test if found is None else found & test
        return found

    def load(self, cell: Cell, at: tuple[Index, ...], outside: float) -> Scalar:
        places = self.places(cell.position, at)
        inside = self.inside(cell, places)
        value = cell.load(self.x, [*cell.position[: self.first], *places], inside)
        return value if inside is None else where(inside, value, outside)


def max_pool(
    g: Lowerer, x: View, rank: int, kernel: Any, stride: Any, padding: Any, dilation: Any, shape: Shape
) -> Any:
    windows = Windows(x, kernel, stride, padding, dilation, rank)
    if not windows.is_static or not x.dtype.is_float:
        return NotImplemented
    plane = x.shape[windows.first :]

    def value(cell: Cell, at: tuple[Index, ...]) -> Sequence[Scalar]:
        return [windows.load(cell, at, -inf)]

    def place(cell: Cell, at: tuple[Index, ...]) -> Sequence[Scalar]:
        """Padding comes after every element, so that a window of -inf names an element."""
        places = windows.places(cell.position, at)
        inside = windows.inside(cell, places)
        number = cell.index(flatten(places, plane))
        beyond = cell.index(product(plane))
        return [windows.load(cell, at, -inf), number if inside is None else where(inside, number, beyond)]

    largest = g.reduction("max", shape, windows.shape, x.dtype, value)
    return largest, g.reduction("argmax", shape, windows.shape, I64, place)


@lower(aten.max_pool2d_with_indices.default)
def max_pool2d(
    g: Lowerer, x: View, kernel: Any, stride: Any = (), padding: Any = 0, dilation: Any = 1, ceil_mode: bool = False
) -> Any:
    return max_pool(g, x, 2, kernel, stride, padding, dilation, g.results[0].shape)


@lower(aten.max_pool3d_with_indices.default)
def max_pool3d(
    g: Lowerer, x: View, kernel: Any, stride: Any = (), padding: Any = 0, dilation: Any = 1, ceil_mode: bool = False
) -> Any:
    return max_pool(g, x, 3, kernel, stride, padding, dilation, g.results[0].shape)


def avg_pool(
    g: Lowerer, x: View, rank: int, kernel: Any, stride: Any, padding: Any, with_padding: bool, divisor: Any
) -> MaybeView:
    windows = Windows(x, kernel, stride, padding, 1, rank)
    result = g.result
    dtype = result.dtype.compute
    if not windows.is_static or not x.dtype.is_float:
        return NotImplemented

    def value(cell: Cell, at: tuple[Index, ...]) -> Sequence[Scalar]:
        return [windows.load(cell, at, 0.0).to(dtype)]

    total = g.reduction("sum", result.shape, windows.shape, dtype, value)

    def mean(cell: Cell) -> Scalar:
        return cell.load(total) / cell.index(window_size(windows, cell.position, with_padding, divisor)).to(dtype)

    return g.pointwise(result.shape, result.dtype, mean)


def window_size(windows: Windows, position: tuple[Index, ...], with_padding: bool, divisor: Any) -> Index:
    """Places of a window within the tensor (and its padding, if that counts)."""
    if divisor is not None:
        return Index.of(divisor)
    first, sizes = windows.first, []
    ends = zip(position[first:], windows.x.shape[first:], strict=True)
    for (p, n), k, s, pad in zip(ends, windows.kernel, windows.stride, windows.padding, strict=True):
        begin = p * s - pad
        end = least(begin + k, n + pad)
        if not with_padding:
            begin, end = -least(-begin, ZERO), least(end, n)
        sizes.append(end - begin)
    return product(sizes)


def _avg_pool(rank: int) -> Any:
    def lowering(
        g: Lowerer,
        x: View,
        kernel: Any,
        stride: Any = (),
        padding: Any = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        divisor_override: Any = None,
    ) -> Any:
        return avg_pool(g, x, rank, kernel, stride, padding, count_include_pad, divisor_override)

    return lowering


lower(aten.avg_pool1d.default)(_avg_pool(1))
lower(aten.avg_pool2d.default)(_avg_pool(2))
lower(aten.avg_pool3d.default)(_avg_pool(3))


def widest(size: int, windows: int) -> int:
    """The most elements that one of so many windows has."""
    return max(-(-(i + 1) * size // windows) - i * size // windows for i in range(windows))


def window_of(position: Index, size: Index, windows: Index) -> tuple[Index, Index]:
    """Where the window begins and ends: window i of m runs from floor(i * n / m) to ceil((i + 1) * n / m)."""
    return position * size // windows, ((position + 1) * size + windows - 1) // windows


def _adaptive_avg_pool(rank: int) -> Any:
    def lowering(g: Lowerer, x: View, size: Any) -> MaybeView:
        result = g.result
        dtype = result.dtype.compute
        first = x.rank - rank
        if any(n.constant in (None, 0) for n in (*x.shape[first:], *result.shape)) or not x.dtype.is_float:
            return NotImplemented
        ends = list(zip(x.shape[first:], result.shape[first:], strict=True))
        most = tuple(Index.of(widest(number_of(n), number_of(m))) for n, m in ends)

        def bounds(position: tuple[Index, ...]) -> list[tuple[Index, Index]]:
            return [window_of(p, n, m) for p, (n, m) in zip(position[first:], ends, strict=True)]

        def value(cell: Cell, at: tuple[Index, ...]) -> Sequence[Scalar]:
            inside: Scalar | None = None
            places = []
            for (begin, end), k in zip(bounds(cell.position), at, strict=True):
                places.append(begin + k)
                test = cell.within(begin + k, ZERO, end)
                if test.operand is not True:
                    inside = test if inside is None else inside & test
            found = cell.load(x, [*cell.position[:first], *places], inside)
            return [(found if inside is None else where(inside, found, 0.0)).to(dtype)]

        total = g.reduction("sum", result.shape, most, dtype, value)

        def mean(cell: Cell) -> Scalar:
            count = product([end - begin for begin, end in bounds(cell.position)])
            return cell.load(total) / cell.index(count).to(dtype)

        return g.pointwise(result.shape, result.dtype, mean)

    return lowering


def _adaptive_max_pool(rank: int) -> Any:
    def lowering(g: Lowerer, x: View, size: Any) -> Any:
        values, _ = g.results
        first = x.rank - rank
        if any(n.constant in (None, 0) for n in (*x.shape, *values.shape)) or not x.dtype.is_float:
            return NotImplemented
        ends = list(zip(x.shape[first:], values.shape[first:], strict=True))
        shape = tuple(Index.of(widest(number_of(n), number_of(m))) for n, m in ends)
        plane = x.shape[first:]

        def element(cell: Cell, at: tuple[Index, ...]) -> tuple[Scalar, list[Index], Scalar | None]:
            inside: Scalar | None = None
            places = []
            for p, k, (n, m) in zip(cell.position[first:], at, ends, strict=True):
                begin, end = window_of(p, n, m)
                places.append(begin + k)
                test = cell.within(begin + k, ZERO, end)
                if test.operand is not True:
                    inside = test if inside is None else inside & test
            found = cell.load(x, [*cell.position[:first], *places], inside)
            return found if inside is None else where(inside, found, -inf), places, inside

        def value(cell: Cell, at: tuple[Index, ...]) -> Sequence[Scalar]:
            return [element(cell, at)[0]]

        def place(cell: Cell, at: tuple[Index, ...]) -> Sequence[Scalar]:
            found, places, inside = element(cell, at)
            number = cell.index(flatten(places, plane))
            beyond = cell.index(product(plane))
            return [found, number if inside is None else where(inside, number, beyond)]

        largest = g.reduction("max", values.shape, shape, x.dtype, value)
        return largest, g.reduction("argmax", values.shape, shape, I64, place)

    return lowering


lower(aten.adaptive_max_pool2d.default)(_adaptive_max_pool(2))
lower(aten.adaptive_max_pool3d.default)(_adaptive_max_pool(3))
lower(aten._adaptive_avg_pool2d.default)(_adaptive_avg_pool(2))
lower(aten._adaptive_avg_pool3d.default)(_adaptive_avg_pool(3))
