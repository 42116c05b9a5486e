"""Activation functions: element by element, with the formulas and the branches of eager's kernels."""

from __future__ import annotations

import math
from typing import Any

import torch

from onegraph.base.constants import pi
from onegraph.compiler.lower import scalars as s
from onegraph.compiler.lower.lowerer import Cell, Lowerer
from onegraph.compiler.lower.pointwise import pointwise
from onegraph.compiler.lower.registry import lower
from onegraph.compiler.lower.scalars import Scalar, where
from onegraph.compiler.lower.view import dim_of, pieces
from onegraph.compiler.lower.views import View

aten = torch.ops.aten


@pointwise(aten.gelu.default)
def gelu(x: Scalar, *, approximate: str = "none") -> Scalar:
    if approximate == "none":
        return s.gelu(x)
    inner = (x + x * x * x * 0.044715) * math.sqrt(2 / pi)
    return x * 0.5 * (s.tanh(inner) + 1)


@pointwise(aten.hardtanh.default, bounds=True)
def hardtanh(x: Scalar, low: Scalar | float = -1.0, high: Scalar | float = 1.0) -> Scalar:
    return s.minimum(high, s.maximum(low, x))


@pointwise(aten.relu6.default)
def relu6(x: Scalar) -> Scalar:
    return hardtanh(x, 0.0, 6.0)


@pointwise(aten.hardsigmoid.default)
def hardsigmoid(x: Scalar) -> Scalar:
    return hardtanh(x + 3, 0.0, 6.0) / 6


@pointwise(aten.hardswish.default)
def hardswish(x: Scalar) -> Scalar:
    return x * hardtanh(x + 3, 0.0, 6.0) / 6


@pointwise(aten.leaky_relu.default)
def leaky_relu(x: Scalar, slope: Scalar | float = 0.01) -> Scalar:
    return where(x > 0, x, x * slope)


@pointwise(aten._prelu_kernel.default)
def prelu(x: Scalar, slope: Scalar) -> Scalar:
    return where(x > 0, x, x * slope)


@pointwise(aten.elu.default)
def elu(x: Scalar, alpha: Any = 1.0, scale: Any = 1.0, input_scale: Any = 1.0) -> Scalar:
    return where(x <= 0, s.expm1(x * input_scale) * alpha * scale, x * scale)


@pointwise(aten.celu.default)
def celu(x: Scalar, alpha: Any = 1.0) -> Scalar:
    return where(x <= 0, s.expm1(x / alpha) * alpha, x)


@pointwise(aten.softplus.default)
def softplus(x: Scalar, beta: Any = 1.0, threshold: Any = 20.0) -> Scalar:
    scaled = x * beta
    return where(scaled > threshold, x, s.log1p(s.exp(scaled)) / beta)


@pointwise(aten.mish.default)
def mish(x: Scalar) -> Scalar:
    return x * s.tanh(s.log1p(s.exp(x)))


@pointwise(aten.softshrink.default)
def softshrink(x: Scalar, bound: Any = 0.5) -> Scalar:
    shrunk = where(x > bound, x - bound, x + bound)
    return where((x <= bound) & (x >= -bound), 0, shrunk)


@pointwise(aten.hardshrink.default, exact=False)
def hardshrink(x: Scalar, bound: Any = 0.5) -> Scalar:
    return where((x <= bound) & (x >= -bound), 0, x)


@pointwise(aten.threshold.default)
def threshold(x: Scalar, bound: Any, value: Any) -> Scalar:
    return where(x <= bound, value, x)


@lower(aten.log_sigmoid_forward.default)
def log_sigmoid(g: Lowerer, x: View) -> Any:
    """Its second result is what the derivative reuses."""
    result, _ = g.results
    compute = result.dtype.compute

    def small(cell: Cell) -> Scalar:
        return s.exp(-s.absolute(cell.load(x).to(compute)))

    buffer = g.pointwise(x.shape, result.dtype, small)
    value = g.pointwise(
        x.shape, result.dtype, lambda cell: s.minimum(cell.load(x).to(compute), 0) - s.log1p(small(cell))
    )
    return value, buffer


@lower(aten.glu.default)
def glu(g: Lowerer, x: View, dim: Any = -1) -> View:
    result = g.result
    at = dim_of(dim, x.rank)
    a, b = pieces(x, at, [result.shape[at]] * 2)
    compute = result.dtype.compute
    return g.pointwise(
        result.shape, result.dtype, lambda cell: cell.load(a).to(compute) * s.sigmoid(cell.load(b).to(compute))
    )
