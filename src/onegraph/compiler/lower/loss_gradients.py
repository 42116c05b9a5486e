"""Gradients of losses: element by element."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from onegraph.compiler.lower import scalars as s
from onegraph.compiler.lower.arguments import number_of, static
from onegraph.compiler.lower.losses import MEAN, NONE
from onegraph.compiler.lower.lowerer import Cell, Lowerer
from onegraph.compiler.lower.registry import lower
from onegraph.compiler.lower.scalars import Scalar, where
from onegraph.compiler.lower.views import View
from onegraph.ir.index import product

aten = torch.ops.aten


def elementwise_gradient(
    g: Lowerer, slope: Callable[..., Scalar], gradient: View, operands: tuple[View | None, ...], reduction: Any
) -> View:
    """The gradient of a loss whose derivative in each element is `slope` of the operands' elements."""
    result = g.result
    dtype = result.dtype.compute
    mean = static(reduction) == MEAN

    def compute(cell: Cell) -> Scalar:
        values = (cell.load(x).to(dtype) if x is not None else None for x in operands)
        given = cell.load(gradient).to(dtype)
        if mean:
            given = given / cell.index(product(result.shape)).to(dtype)
        return slope(*values) * given

    return g.pointwise(result.shape, result.dtype, compute)


@lower(aten.mse_loss_backward.default)
def mse_loss_backward(g: Lowerer, gradient: View, x: View, y: View, reduction: Any) -> View:
    return elementwise_gradient(g, lambda a, b: (a - b) * 2, gradient, (x, y), reduction)


@lower(aten.smooth_l1_loss_backward.default)
def smooth_l1_loss_backward(g: Lowerer, gradient: View, x: View, y: View, reduction: Any, beta: float) -> Any:
    def slope(a: Scalar, b: Scalar) -> Scalar:
        far = a - b
        return where(far <= -beta, -1.0, where(far >= beta, 1.0, far / beta if beta else far))

    return elementwise_gradient(g, slope, gradient, (x, y), reduction)


@lower(aten.huber_loss_backward.default)
def huber_loss_backward(g: Lowerer, gradient: View, x: View, y: View, reduction: Any, delta: float) -> Any:
    def slope(a: Scalar, b: Scalar) -> Scalar:
        far = a - b
        return where(far <= -delta, -delta, where(far >= delta, delta, far))

    return elementwise_gradient(g, slope, gradient, (x, y), reduction)


@lower(aten.soft_margin_loss_backward.default)
def soft_margin_loss_backward(g: Lowerer, gradient: View, x: View, y: View, reduction: Any) -> View:
    def slope(a: Scalar, b: Scalar) -> Scalar:
        power = s.exp(-b * a)
        return -b * power / (power + 1)

    return elementwise_gradient(g, slope, gradient, (x, y), reduction)


@lower(aten.binary_cross_entropy_backward.default)
def binary_cross_entropy_backward(
    g: Lowerer, gradient: View, x: View, y: View, weight: View | None = None, reduction: Any = MEAN
) -> View:
    def slope(a: Scalar, target: Scalar, scale: Scalar | None) -> Scalar:
        value = (a - target) / s.maximum((1 - a) * a, 1e-12)
        return value if scale is None else value * scale

    return elementwise_gradient(g, slope, gradient, (x, y, weight), reduction)


@lower(aten.nll_loss_backward.default, aten.nll_loss2d_backward.default)
def nll_loss_backward(
    g: Lowerer,
    gradient: View,
    x: View,
    target: View,
    weight: View | None,
    reduction: Any,
    ignore_index: Any,
    total: View,
) -> View:
    """Only the target's class gets a gradient. Targets were checked by the forward operator."""
    how, ignored = static(reduction), number_of(ignore_index)
    result = g.result
    dtype = result.dtype.compute
    classes = 1 if x.rank > 1 else 0

    def compute(cell: Cell) -> Scalar:
        place = cell.position
        sample = [*place[:classes], *place[classes + 1 :]][: target.rank]
        label = cell.load(target, sample)
        given = cell.load(gradient, sample if how == NONE else ()).to(dtype)
        if how == MEAN:
            given = given / cell.load(total).to(dtype)
        if weight is not None:
            given = given * cell.load(weight, (place[classes],)).to(dtype)
        return where(label.eq(cell.index(place[classes])) & label.ne(ignored), -given, 0)

    return g.pointwise(result.shape, result.dtype, compute)
