"""Resampling of images and signals."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from onegraph.compiler.lower import scalars as s
from onegraph.compiler.lower.lowerer import Cell, Lowerer
from onegraph.compiler.lower.registry import MaybeView, lower
from onegraph.compiler.lower.scalars import Scalar
from onegraph.compiler.lower.views import View
from onegraph.ir.index import Index
from onegraph.ir.types import I64, DType

aten = torch.ops.aten


def static_sizes(g: Lowerer, x: View, rank: int) -> list[tuple[int, int]] | None:
    """The resampled dimensions before and after, as plain numbers."""
    pairs = [(n.constant, m.constant) for n, m in zip(x.shape[-rank:], g.result.shape[-rank:], strict=True)]
    return None if any(n in (None, 0) or m is None for n, m in pairs) else pairs  # type: ignore[return-value]


def by_whole_factors(g: Lowerer, x: View, rank: int, pairs: list[tuple[int, int]], scales: Sequence[Any]) -> Any:
    """Each element repeated, which is a view; None where positions are rounded."""
    first = x.rank - rank
    factors = []
    for (n, m), scale in zip(pairs, scales, strict=True):
        if m % n or (scale is not None and scale != m // n) or not _is_exact(n, m):
            return None
        factors.append(m // n)
    return x.reindexed(
        g.result.shape, lambda p: [*p[:first], *(at // f for at, f in zip(p[first:], factors, strict=True))]
    )


def _is_exact(size: int, wanted: int) -> bool:
    """Whether eager's positions, computed in float32, are those of the whole factor: 41 * (1 / 41) is below 1."""
    step = torch.tensor(size / wanted, dtype=torch.float32)
    positions = (torch.arange(wanted, dtype=torch.float32) * step).long()
    return torch.equal(positions, torch.arange(wanted) // (wanted // size))


def _linear(rank: int) -> Any:
    def lowering(g: Lowerer, x: View, size: Any, align_corners: bool, *scales: Any) -> MaybeView:
        """The mean of the neighbours, weighted by how near they are; a scale means nothing where the size stays."""
        pairs = static_sizes(g, x, rank)
        result = g.result
        if pairs is None or not x.dtype.is_float:
            return NotImplemented
        dtype = result.dtype.compute
        first = x.rank - rank
        given = scales or (None,) * rank
        steps = [step_of(n, m, align_corners, scale) for (n, m), scale in zip(pairs, given, strict=True)]

        def compute(cell: Cell) -> Scalar:
            ends = [
                (p, p, cell.literal(0, dtype)) if n == m else _neighbours(cell, p, n, step, align_corners, dtype)
                for p, (n, m), step in zip(cell.position[first:], pairs, steps, strict=True)
            ]

            def gathered(dim: int, at: tuple[Index, ...]) -> Scalar:
                if dim == rank:
                    return cell.load(x, [*cell.position[:first], *at]).to(dtype)
                low, high, near = ends[dim]
                return (1 - near) * gathered(dim + 1, (*at, low)) + near * gathered(dim + 1, (*at, high))

            return gathered(0, ())

        return g.pointwise(result.shape, result.dtype, compute)

    return lowering


def step_of(size: int, wanted: int, align_corners: bool, scale: float | None) -> float:
    if align_corners:
        return (size - 1) / (wanted - 1) if wanted > 1 else 0.0
    return 1 / scale if scale is not None and scale > 0 else size / wanted


def _neighbours(
    cell: Cell, position: Index, size: int, step: float, align_corners: bool, dtype: DType
) -> tuple[Index, Index, Scalar]:
    """The element before, the one after, and the weight of the latter."""
    at = cell.index(position).to(dtype)
    source = at * step if align_corners else s.maximum((at + 0.5) * step - 0.5, 0)
    below = s.minimum(s.floor(source), size - 1)
    low = cell.symbol(below.to(I64))
    high = cell.symbol(s.minimum(below + 1, size - 1).to(I64))
    return low, high, source - below


lower(aten.upsample_linear1d.default)(_linear(1))
lower(aten.upsample_bilinear2d.default)(_linear(2))
lower(aten.upsample_trilinear3d.default)(_linear(3))
