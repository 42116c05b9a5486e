"""Images sampled at the places that a grid holds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from onegraph.compiler.lower import scalars as s
from onegraph.compiler.lower.arguments import static
from onegraph.compiler.lower.lowerer import Cell, Lowerer
from onegraph.compiler.lower.registry import MaybeView, lower
from onegraph.compiler.lower.scalars import Scalar, apply, where
from onegraph.compiler.lower.views import View
from onegraph.ir.index import ZERO, Index
from onegraph.ir.types import I64

aten = torch.ops.aten
BILINEAR, NEAREST, CUBIC = range(3)
ZEROS, BORDER, REFLECTION = range(3)
Tap = tuple[Scalar, Scalar]  # a position (a whole number) and its weight


class Sampler:
    """Places along one dimension of the image: from the grid's numbers in -1 .. 1 to elements and weights."""

    def __init__(self, size: int, padding: int, align_corners: bool) -> None:
        self.size = size
        self.padding = padding
        self.align_corners = align_corners

    def place(self, x: Scalar) -> Scalar:
        if self.align_corners:
            return (x + 1) * ((self.size - 1) / 2)
        return ((x + 1) * self.size - 1) * 0.5

    def bounded(self, place: Scalar) -> Scalar:
        """Within the image, unless it is zero outside."""
        if self.padding == ZEROS:
            return place
        if self.padding == REFLECTION:
            place = self.reflected(place)
        return where(s.isnan(place), 0, s.minimum(s.maximum(place, 0), self.size - 1))

    def reflected(self, place: Scalar) -> Scalar:
        low, high = (0.0, float(self.size - 1)) if self.align_corners else (-0.5, self.size - 0.5)
        if low == high:
            return place.literal(0)
        span = high - low
        distance = s.absolute(place - low)
        extra = apply("fmod", distance, span)
        turns = s.floor(distance / span)
        is_even = apply("fmod", turns, 2).eq(0)
        return where(is_even, extra + low, span - extra + low)

    def taps(self, x: Scalar, mode: int) -> list[Tap]:
        if mode == CUBIC:
            return self.cubic(self.place(x))
        place = self.bounded(self.place(x))
        if mode == NEAREST:
            return [(s.round_even(place), place.literal(1))]
        low = s.floor(place)
        near = place - low
        return [(low, 1 - near), (low + 1, near)]

    def cubic(self, place: Scalar) -> list[Tap]:
        low = s.floor(place)
        t = place - low
        u = 1 - t
        weights = [_far(t + 1), _near(t), _near(u), _far(u + 1)]
        return [(self.bounded(low + (k - 1)), weight) for k, weight in enumerate(weights)]


def _near(x: Scalar) -> Scalar:
    return (1.25 * x - 2.25) * x * x + 1


def _far(x: Scalar) -> Scalar:
    return ((-0.75 * x + 3.75) * x - 6) * x + 3


def _grid_sampler(rank: int) -> Callable[..., Any]:
    def lowering(g: Lowerer, x: View, grid: View, interpolation: Any, padding: Any, align_corners: bool) -> MaybeView:
        mode, outside, sizes = static(interpolation), static(padding), x.shape[2:]
        result = g.result
        if mode is None or outside is None or not x.dtype.is_float or any(n.constant in (0, None) for n in sizes):
            return NotImplemented
        dtype = result.dtype.compute
        samplers = [Sampler(n.constant or 0, outside, align_corners) for n in sizes]

        def compute(cell: Cell) -> Scalar:
            n, c, *at = cell.position
            numbers = [cell.load(grid, (n, *at, Index.of(rank - 1 - d))).to(dtype) for d in range(rank)]
            taps = [sampler.taps(number, mode) for sampler, number in zip(samplers, numbers, strict=True)]

            def gathered(dim: int, places: tuple[Index, ...], inside: Scalar | None) -> Scalar:
                if dim == rank:
                    value = cell.load(x, (n, c, *places), inside)
                    return (value if inside is None else where(inside, value, 0)).to(dtype)
                total: Scalar | None = None
                for place, weight in taps[dim]:
                    whole = cell.symbol(place.to(I64))
                    test = cell.within(whole, ZERO, sizes[dim])
                    value = gathered(dim + 1, (*places, whole), test if inside is None else inside & test)
                    value = value if mode == NEAREST else value * weight
                    total = value if total is None else total + value
                assert total is not None
                return total

            return gathered(0, (), None)

        return g.pointwise(result.shape, result.dtype, compute)

    return lowering


lower(aten.grid_sampler_2d.default)(_grid_sampler(2))
lower(aten.grid_sampler_3d.default)(_grid_sampler(3))
