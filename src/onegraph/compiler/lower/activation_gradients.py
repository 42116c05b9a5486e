"""Gradients of activation functions: element by element, with the formulas and the branches of eager's kernels."""

from __future__ import annotations

import math
from typing import Any

import torch

from onegraph.base.constants import pi
from onegraph.compiler.lower import scalars as s
from onegraph.compiler.lower.lowerer import Cell, Lowerer
from onegraph.compiler.lower.pointwise import pointwise
from onegraph.compiler.lower.registry import MaybeView, lower
from onegraph.compiler.lower.scalars import Scalar, where
from onegraph.compiler.lower.view import dim_of, pieces
from onegraph.compiler.lower.views import View

aten = torch.ops.aten
SIXTH = 0.1666666716337204  # in float32, whatever the type, as in eager


@pointwise(aten.tanh_backward.default)
def tanh_backward(gradient: Scalar, y: Scalar) -> Scalar:
    return gradient * (1 - y * y)


@pointwise(aten.sigmoid_backward.default)
def sigmoid_backward(gradient: Scalar, y: Scalar) -> Scalar:
    return gradient * (1 - y) * y


@pointwise(aten.threshold_backward.default)
def threshold_backward(gradient: Scalar, x: Scalar, bound: Any) -> Scalar:
    return where(x <= bound, 0, gradient)


@pointwise(aten.silu_backward.default)
def silu_backward(gradient: Scalar, x: Scalar) -> Scalar:
    sigmoid = s.sigmoid(x)
    return gradient * sigmoid * (x * (1 - sigmoid) + 1)


@pointwise(aten.gelu_backward.default)
def gelu_backward(gradient: Scalar, x: Scalar, *, approximate: str = "none") -> Scalar:
    if approximate == "none":
        density = s.exp(x * x * -0.5) * (1 / math.sqrt(2 * pi))
        return gradient * ((s.erf(x * math.sqrt(0.5)) + 1) * 0.5 + x * density)
    factor = math.sqrt(2 / pi)
    tanh = s.tanh((x + x * x * x * 0.044715) * factor)
    slope = (x * x * (3 * 0.044715) + 1) * factor
    return gradient * ((tanh + 1) * 0.5 + x * 0.5 * ((1 - tanh * tanh) * slope))


@pointwise(aten.hardtanh_backward.default)
def hardtanh_backward(gradient: Scalar, x: Scalar, low: Any, high: Any) -> Scalar:
    return where((x > low) & (x < high), gradient, 0)


@pointwise(aten.hardsigmoid_backward.default)
def hardsigmoid_backward(gradient: Scalar, x: Scalar) -> Scalar:
    return where((x > -3) & (x < 3), gradient * SIXTH, 0)


@pointwise(aten.hardswish_backward.default)
def hardswish_backward(gradient: Scalar, x: Scalar) -> Scalar:
    return where(x <= -3, 0, where(x >= 3, gradient, gradient * (x / 3 + 0.5)))


@pointwise(aten.leaky_relu_backward.default)
def leaky_relu_backward(gradient: Scalar, x: Scalar, slope: Any, of_result: Any) -> Scalar:
    return where(x > 0, gradient, gradient * slope)


@pointwise(aten.softplus_backward.default)
def softplus_backward(gradient: Scalar, x: Scalar, beta: Any, threshold: Any) -> Scalar:
    power = s.exp(x * beta)
    return where(x * beta > threshold, gradient, gradient * power / (power + 1))


@pointwise(aten.mish_backward.default)
def mish_backward(gradient: Scalar, x: Scalar) -> Scalar:
    tanh = s.tanh(s.log1p(s.exp(x)))
    return gradient * (tanh + x * s.sigmoid(x) * (1 - tanh * tanh))


@pointwise(aten.log_sigmoid_backward.default)
def log_sigmoid_backward(gradient: Scalar, x: Scalar, small: Scalar) -> Scalar:
    """`small` is the second result of the forward operator."""
    part = small / (small + 1)
    return gradient * where(x < 0, 1 - part, part)


@lower(aten.elu_backward.default)
def elu_backward(
    g: Lowerer, gradient: View, alpha: Any, scale: Any, input_scale: Any, of_result: bool, x: View
) -> MaybeView:
    """`of_result`: the function's result is given in the place of its argument."""
    if not all(isinstance(number, int | float) for number in (alpha, scale, input_scale)):
        return NotImplemented
    result, compute = g.result, g.result.dtype.compute
    negative = alpha * scale

    def slope(cell: Cell) -> Scalar:
        value, given = cell.load(x).to(compute), cell.load(gradient).to(compute)
        below = value + negative if of_result else s.exp(value * input_scale) * negative
        return where(value > 0, given * scale, given * input_scale * below)

    return g.pointwise(result.shape, result.dtype, slope)


@lower(aten._prelu_kernel_backward.default)
def prelu_backward(g: Lowerer, gradient: View, x: View, slope: View) -> tuple[View, View]:
    of_x, of_slope = g.results
    compute = of_x.dtype.compute

    def for_x(cell: Cell) -> Scalar:
        given = cell.load(gradient).to(compute)
        return where(cell.load(x) > 0, given, cell.load(slope).to(compute) * given)

    def for_slope(cell: Cell) -> Scalar:
        value = cell.load(x).to(compute)
        return where(value > 0, 0, value * cell.load(gradient).to(compute))

    return g.pointwise(of_x.shape, of_x.dtype, for_x), g.pointwise(of_slope.shape, of_slope.dtype, for_slope)


@lower(aten.glu_backward.default)
def glu_backward(g: Lowerer, gradient: View, x: View, dim: Any) -> View:
    at = dim_of(dim, x.rank)
    a, b = pieces(x, at, [gradient.shape[at]] * 2)
    dtype = g.result.dtype
    compute = dtype.compute

    def opened(cell: Cell) -> Scalar:
        return s.sigmoid(cell.load(b).to(compute))

    def first(cell: Cell) -> Scalar:
        return opened(cell) * cell.load(gradient).to(compute)

    def second(cell: Cell) -> Scalar:
        gate = opened(cell)
        return (1 - gate) * gate * cell.load(a).to(compute) * cell.load(gradient).to(compute)

    halves = [g.pointwise(gradient.shape, dtype, half) for half in (first, second)]
    return g.assembled([(half, at) for half in halves])
