"""Running totals and extremes along a dimension."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from onegraph.base.constants import inf
from onegraph.compiler.lower import scalars as s
from onegraph.compiler.lower.lowerer import Cell, Lowerer
from onegraph.compiler.lower.registry import MaybeView, lower
from onegraph.compiler.lower.scalars import Scalar, compare, where
from onegraph.compiler.lower.sequential import scan
from onegraph.compiler.lower.view import dim_of
from onegraph.compiler.lower.views import View
from onegraph.ir.index import ONE
from onegraph.ir.types import BOOL, F32, F64, I64, DType

aten = torch.ops.aten


def accumulated(dtype: DType) -> DType:
    """The type in which eager adds up on the CPU: f32 in double precision, 16-bit floats in f32."""
    return F64 if dtype is F32 else dtype.compute


def running_total(g: Lowerer, x: View, dim: Any, start: float, combine: Callable[[Scalar, Scalar], Scalar]) -> View:
    """Each element combined with all before it, in the type of the result."""
    result = g.result
    total = accumulated(result.dtype)
    if not x.rank:
        return g.pointwise((), result.dtype, lambda cell: cell.load(x).to(result.dtype))

    def step(cell: Cell, state: list[Scalar]) -> Any:
        value = combine(state[0], cell.load(x).to(result.dtype).to(total))
        return [value], [value]

    return scan(g, x.shape, dim_of(dim, x.rank), [(total, start)], [result], step)[0]


@lower(aten.cumsum.default)
def cumsum(g: Lowerer, x: View, dim: Any, *, dtype: Any = None) -> MaybeView:
    if g.result.dtype is BOOL:
        return NotImplemented
    return running_total(g, x, dim, 0, lambda total, value: total + value)


@lower(aten.cumprod.default)
def cumprod(g: Lowerer, x: View, dim: Any, *, dtype: Any = None) -> MaybeView:
    if g.result.dtype is BOOL:
        return NotImplemented
    return running_total(g, x, dim, 1, lambda total, value: total * value)


@lower(aten.logcumsumexp.default)
def logcumsumexp(g: Lowerer, x: View, dim: Any) -> MaybeView:
    if not x.dtype.is_float:
        return NotImplemented

    def combine(total: Scalar, value: Scalar) -> Scalar:
        low = where(s.isnan(total), total, where(total < value, total, value))
        high = where(s.isnan(total), total, where(total < value, value, total))
        is_sum = low.ne(high) | (s.absolute(low) < inf)
        return where(is_sum, s.log1p(s.exp(low - high)) + high, value)

    return running_total(g, x, dim, -inf, combine)


def _extreme(op: str) -> Any:
    def lowering(g: Lowerer, x: View, dim: Any) -> Any:
        """The first element starts; then every one that is as far out takes over, and a NaN stays."""
        values, positions = g.results
        if not x.rank or x.shape[dim_of(dim, x.rank)] == ONE:
            return (
                g.pointwise(x.shape, x.dtype, lambda cell: cell.load(x), values.strides),
                g.pointwise(x.shape, I64, lambda cell: cell.literal(0, I64), positions.strides),
            )
        d = dim_of(dim, x.rank)
        bits = x.dtype.bits
        lowest = -inf if x.dtype.is_float else -(1 << bits - 1) if x.dtype.kind == "int" else 0
        highest = inf if x.dtype.is_float else (1 << bits - (x.dtype.kind == "int")) - 1
        start = (lowest if op == "ge" else highest) if x.dtype is not BOOL else op != "ge"

        def step(cell: Cell, state: list[Scalar]) -> Any:
            best, at = state
            value = cell.load(x)
            taken = compare(op, value, best)
            if x.dtype.is_float:
                taken = s.isnan(value) | (~s.isnan(best) & taken)
            best = where(taken, value, best)
            at = where(taken, cell.index(cell.position[d]), at)
            return [best, at], [best, at]

        return tuple(scan(g, x.shape, d, [(x.dtype, start), (I64, 0)], [values, positions], step))

    return lowering


lower(aten.cummax.default)(_extreme("ge"))
lower(aten.cummin.default)(_extreme("le"))
