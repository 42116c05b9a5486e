"""Resampling where positions are rounded, or many elements count: tables of positions and weights, made beforehand."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import torch

from onegraph.compiler.lower.lowerer import Cell, Lowerer
from onegraph.compiler.lower.registry import MaybeView, lower
from onegraph.compiler.lower.resampling import by_whole_factors, static_sizes, step_of
from onegraph.compiler.lower.scalars import Scalar
from onegraph.compiler.lower.views import View
from onegraph.ir.index import Index
from onegraph.ir.types import F64

aten = torch.ops.aten
Table = tuple[torch.Tensor, torch.Tensor | None]  # positions and weights, one row for each neighbour


def _table(kind: str, size: int, wanted: int, align_corners: bool, scale: float | None, real: torch.dtype) -> Table:
    if kind in ("nearest", "exact"):
        return _nearest(kind, size, wanted, scale, real), None
    step = torch.tensor(step_of(size, wanted, align_corners, scale), dtype=real)
    if kind == "cubic":
        return _cubic(size, wanted, align_corners, step)
    return _antialiased(2 if kind == "linear_aa" else 4, size, wanted, step)


def _nearest(kind: str, size: int, wanted: int, scale: float | None, real: torch.dtype) -> torch.Tensor:
    """Eager's own positions, rounded as it rounds them."""
    operator = aten.upsample_nearest1d if kind == "nearest" else aten._upsample_nearest_exact1d
    places: torch.Tensor = operator(torch.arange(size, dtype=real)[None, None], [wanted], scale)
    return places[0].long()


def _cubic(size: int, wanted: int, align_corners: bool, step: torch.Tensor) -> Table:
    at = torch.arange(wanted, dtype=step.dtype)
    source = at * step if align_corners else (at + 0.5) * step - 0.5
    low = source.floor()
    t = source - low
    u = 1 - t

    def near(x: torch.Tensor) -> torch.Tensor:
        return (1.25 * x - 2.25) * x * x + 1

    def far(x: torch.Tensor) -> torch.Tensor:
        return ((-0.75 * x + 3.75) * x - 6) * x + 3

    positions = torch.stack([(low.long() + k).clamp(0, size - 1) for k in (-1, 0, 1, 2)])
    return positions, torch.stack([far(t + 1), near(t), near(u), far(u + 1)])


def _antialiased(reach: int, size: int, wanted: int, step: torch.Tensor) -> Table:
    """Where it shrinks, as many neighbours count as the step spans."""
    support = (reach * 0.5 * step) if step >= 1 else torch.tensor(reach * 0.5, dtype=step.dtype)
    inverse = 1 / step if step >= 1 else torch.ones_like(step)
    count = int(support.ceil()) * 2 + 1
    centre = step * (torch.arange(wanted, dtype=step.dtype) + 0.5)
    first = (centre - support + 0.5).long().clamp(min=0)
    length = ((centre + support + 0.5).long().clamp(max=size) - first).clamp(0, count)
    at = torch.arange(count)[:, None]
    distance = ((at + first - centre + 0.5) * inverse).abs()
    if reach == 2:
        weights = (1 - distance).clamp(min=0)
    else:
        near = (1.5 * distance - 2.5) * distance * distance + 1
        far = ((-0.5 * distance + 2.5) * distance - 4) * distance + 2
        weights = torch.where(distance < 1, near, torch.where(distance < 2, far, 0.0))
    weights = torch.where(at < length, weights, 0.0)
    return (first + at).clamp(max=size - 1), weights / weights.sum(0)


def _resampled(g: Lowerer, x: View, rank: int, tables: Sequence[Table | None]) -> View:
    """Weighted sums over the neighbours along each of the last dimensions; without a table it stays as it is."""
    result = g.result
    dtype = result.dtype.compute
    first = x.rank - rank
    views: list[Any] = [
        None if t is None else tuple(None if part is None else g.constant(part.to(g.place)) for part in t)
        for t in tables
    ]
    counts = [1 if t is None else len(t[0]) for t in tables]

    def compute(cell: Cell) -> Scalar:
        def at(dim: int, k: int) -> Index:
            table, place = views[dim], cell.position[first + dim]
            return place if table is None else cell.symbol(cell.load(table[0], (Index.of(k), place)))

        def gathered(dim: int, places: tuple[Index, ...]) -> Scalar:
            if dim == rank:
                return cell.load(x, [*cell.position[:first], *places]).to(dtype)
            total: Scalar | None = None
            for k in range(counts[dim]):
                value = gathered(dim + 1, (*places, at(dim, k)))
                table = views[dim]
                if table is not None and table[1] is not None:
                    value = value * cell.load(table[1], (Index.of(k), cell.position[first + dim])).to(dtype)
                total = value if total is None else total + value
            assert total is not None
            return total

        return gathered(0, ())

    def plain(cell: Cell) -> Scalar:
        places = [*cell.position[:first]]
        for dim in range(rank):
            table, place = views[dim], cell.position[first + dim]
            places.append(place if table is None else cell.symbol(cell.load(table[0], (Index.of(0), place))))
        return cell.load(x, places)

    weighted = any(t is not None and t[1] is not None for t in tables)
    return g.pointwise(result.shape, result.dtype, compute if weighted else plain)


MOST_NEIGHBOURS = 64  # of one element; more would make the kernel long


def _lowering(kind: str, rank: int, aligns: bool) -> Callable[..., Any]:
    def lowering(g: Lowerer, x: View, size: Any, *settings: Any) -> MaybeView:
        align_corners, scales = (settings[0], settings[1:]) if aligns else (False, settings)
        pairs = static_sizes(g, x, rank)
        is_weighted = kind not in ("nearest", "exact")
        if pairs is None or (is_weighted and not x.dtype.is_float):
            return NotImplemented
        given = [*scales, *[None] * (rank - len(scales))]
        if kind == "nearest" and (whole := by_whole_factors(g, x, rank, pairs, given)) is not None:
            return whole
        real = torch.float64 if x.dtype is F64 else torch.float32
        tables = [
            None if n == m and not scale else _table(kind, n, m, align_corners, scale, real)
            for (n, m), scale in zip(pairs, given, strict=True)
        ]
        neighbours = [1 if t is None else len(t[0]) for t in tables]
        if prod(neighbours) > MOST_NEIGHBOURS:
            return NotImplemented
        return _resampled(g, x, rank, tables)

    return lowering


for _rank in (1, 2, 3):
    lower(getattr(aten, f"upsample_nearest{_rank}d").default)(_lowering("nearest", _rank, aligns=False))
    lower(getattr(aten, f"_upsample_nearest_exact{_rank}d").default)(_lowering("exact", _rank, aligns=False))
lower(aten.upsample_bicubic2d.default)(_lowering("cubic", 2, aligns=True))
lower(aten._upsample_bilinear2d_aa.default)(_lowering("linear_aa", 2, aligns=True))
lower(aten._upsample_bicubic2d_aa.default)(_lowering("cubic_aa", 2, aligns=True))
