"""Losses: an element-wise difference, then its mean or sum."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from onegraph.compiler.lower import scalars as s
from onegraph.compiler.lower.arguments import number_of, static
from onegraph.compiler.lower.indexing import at_position
from onegraph.compiler.lower.lowerer import Cell, Lowerer
from onegraph.compiler.lower.reduction import converted, reduce
from onegraph.compiler.lower.registry import lower
from onegraph.compiler.lower.scalars import Scalar, where
from onegraph.compiler.lower.views import View, broadcast
from onegraph.ir.index import ONE, Index

aten = torch.ops.aten
NONE, MEAN, SUM = 0, 1, 2


def elementwise_loss(g: Lowerer, loss: Callable[..., Scalar], operands: tuple[View | None, ...], reduction: Any) -> Any:
    """The loss of the operands' elements, gathered as the reduction says."""
    how = static(reduction)
    result = g.result.dtype
    dtype = result.compute
    shape = broadcast([x.shape for x in operands if x is not None])

    def compute(cell: Cell) -> Scalar:
        return loss(*(cell.load(x).to(dtype) if x is not None else None for x in operands))

    if how == NONE:
        return g.pointwise(shape, result, compute)
    total = reduce(g, "sum", g.pointwise(shape, dtype, compute), None, dtype)
    if how == SUM:
        return converted(g, total, result)
    count = ONE
    for size in shape:
        count = count * size
    return g.pointwise((), result, lambda cell: cell.load(total) / cell.index(count).to(dtype))


def _squared(x: Scalar, y: Scalar) -> Scalar:
    return (x - y) * (x - y)


@lower(aten.mse_loss.default)
def mse_loss(g: Lowerer, x: View, y: View, reduction: Any = MEAN) -> Any:
    return elementwise_loss(g, _squared, (x, y), reduction)


@lower(aten.smooth_l1_loss.default)
def smooth_l1_loss(g: Lowerer, x: View, y: View, reduction: Any = MEAN, beta: float = 1.0) -> Any:
    def loss(a: Scalar, b: Scalar) -> Scalar:
        far = s.absolute(a - b)
        return far if beta == 0 else where(far < beta, far * 0.5 * far / beta, far - 0.5 * beta)

    return elementwise_loss(g, loss, (x, y), reduction)


@lower(aten.huber_loss.default)
def huber_loss(g: Lowerer, x: View, y: View, reduction: Any = MEAN, delta: float = 1.0) -> Any:
    def loss(a: Scalar, b: Scalar) -> Scalar:
        far = s.absolute(a - b)
        return where(far < delta, far * 0.5 * far, (far - 0.5 * delta) * delta)

    return elementwise_loss(g, loss, (x, y), reduction)


@lower(aten.soft_margin_loss.default)
def soft_margin_loss(g: Lowerer, x: View, y: View, reduction: Any = MEAN) -> Any:
    return elementwise_loss(g, lambda a, b: s.log1p(s.exp(-b * a)), (x, y), reduction)


@lower(aten.binary_cross_entropy_with_logits.default)
def bce_with_logits(
    g: Lowerer, x: View, y: View, weight: View | None = None, pos_weight: View | None = None, reduction: Any = MEAN
) -> Any:
    def loss(a: Scalar, target: Scalar, scale: Scalar | None, positive: Scalar | None) -> Scalar:
        log_sigmoid = s.minimum(a, 0) - s.log1p(s.exp(-s.absolute(a)))
        if positive is not None:
            log_sigmoid = ((positive - 1) * target + 1) * log_sigmoid
        value = (1 - target) * a - log_sigmoid
        return value if scale is None else value * scale

    return elementwise_loss(g, loss, (x, y, weight, pos_weight), reduction)


@lower(aten.binary_cross_entropy.default)
def binary_cross_entropy(g: Lowerer, x: View, y: View, weight: View | None = None, reduction: Any = MEAN) -> Any:
    def loss(a: Scalar, target: Scalar, scale: Scalar | None) -> Scalar:
        a.body.check(((a >= 0) & (a <= 1)).operand, "RuntimeError", "all elements of input should be between 0 and 1")
        value = (target - 1) * s.maximum(s.log1p(-a), -100) - target * s.maximum(s.log(a), -100)
        return value if scale is None else value * scale

    return elementwise_loss(g, loss, (x, y, weight), reduction)


@lower(aten.nll_loss_forward.default, aten.nll_loss2d_forward.default)
def nll_loss(g: Lowerer, x: View, target: View, weight: View | None, reduction: Any, ignore_index: Any) -> Any:
    """Classes stand in dimension 1 (dimension 0 for one sample)."""
    how, ignored = static(reduction), number_of(ignore_index)
    result = g.results[0].dtype
    dtype = result.compute
    classes = 1 if x.rank > 1 else 0

    def chosen(cell: Cell) -> tuple[Scalar, Scalar, Index]:
        label = cell.load(target)
        counted = label.ne(ignored)
        safe = where(counted, label, 0)
        return counted, safe, at_position(cell, safe, x.shape[classes], "IndexError", "Target is out of bounds.")

    def weighed(cell: Cell) -> Scalar:
        counted, _, label = chosen(cell)
        scale = cell.load(weight, (label,)).to(dtype) if weight is not None else cell.literal(1, dtype)
        return where(counted, scale, 0)

    def loss(cell: Cell) -> Scalar:
        _, _, label = chosen(cell)
        at = [*cell.position[:classes], label, *cell.position[classes:]]
        counted = weighed(cell)
        return where(counted.eq(0), 0, -cell.load(x, at).to(dtype) * counted)

    if how == NONE:
        total = g.pointwise(g.results[1].shape, result, lambda cell: cell.literal(0, result))
        return g.pointwise(target.shape, result, loss), total
    total = reduce(g, "sum", g.pointwise(target.shape, dtype, weighed), None, dtype)
    value = reduce(g, "sum", g.pointwise(target.shape, dtype, loss), None, dtype)
    if how == MEAN:
        summed = value
        value = g.pointwise((), dtype, lambda cell: cell.load(summed) / cell.load(total))
    return converted(g, value, result), converted(g, total, g.results[1].dtype)
