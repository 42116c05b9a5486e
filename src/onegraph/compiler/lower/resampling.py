"""Resampling of images and signals."""

from __future__ import annotations

from typing import Any

import torch

from onegraph.compiler.lower import scalars as s
from onegraph.compiler.lower.lowerer import Cell, Lowerer
from onegraph.compiler.lower.registry import lower
from onegraph.compiler.lower.scalars import Scalar
from onegraph.compiler.lower.views import View
from onegraph.ir.index import Index
from onegraph.ir.types import I64, DType

aten = torch.ops.aten


def _sizes(g: Lowerer, x: View, rank: int) -> list[tuple[int, int]] | None:
    """The resampled dimensions before and after, as plain numbers."""
    pairs = [(n.constant, m.constant) for n, m in zip(x.shape[-rank:], g.result.shape[-rank:], strict=True)]
    return None if any(n in (None, 0) or m is None for n, m in pairs) else pairs  # type: ignore[return-value]


def _nearest(rank: int) -> Any:
    def lowering(g: Lowerer, x: View, size: Any, *scales: Any) -> Any:
        pairs = _sizes(g, x, rank)
        if pairs is None:
            return NotImplemented
        first = x.rank - rank
        factors = []
        for (n, m), scale in zip(pairs, scales or (None,) * rank, strict=True):
            if m % n or (scale is not None and scale != m // n) or not _is_exact(n, m):
                return NotImplemented  # positions are rounded
            factors.append(m // n)
        return x.reindexed(
            g.result.shape, lambda p: [*p[:first], *(at // f for at, f in zip(p[first:], factors, strict=True))]
        )

    return lowering


def _is_exact(size: int, wanted: int) -> bool:
    """Whether eager's positions, computed in float32, are those of the whole factor: 41 * (1 / 41) is below 1."""
    step = torch.tensor(size / wanted, dtype=torch.float32)
    positions = (torch.arange(wanted, dtype=torch.float32) * step).long()
    return torch.equal(positions, torch.arange(wanted) // (wanted // size))


lower(aten.upsample_nearest1d.default)(_nearest(1))
lower(aten.upsample_nearest2d.default)(_nearest(2))
lower(aten.upsample_nearest3d.default)(_nearest(3))


def _linear(rank: int) -> Any:
    def lowering(g: Lowerer, x: View, size: Any, align_corners: bool, *scales: Any) -> Any:
        """The mean of the neighbours, weighted by how near they are; a scale means nothing where the size stays."""
        pairs = _sizes(g, x, rank)
        result = g.result
        if pairs is None or not x.dtype.is_float:
            return NotImplemented
        dtype = result.dtype.compute
        first = x.rank - rank
        given = scales or (None,) * rank
        steps = [_step(n, m, align_corners, scale) for (n, m), scale in zip(pairs, given, strict=True)]

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


def _step(size: int, wanted: int, align_corners: bool, scale: float | None) -> float:
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
