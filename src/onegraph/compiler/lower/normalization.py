"""Softmax and the normalizations: a few reductions and the element-wise work around them, which the scheduler joins."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch

from onegraph.compiler.lower import scalars as s
from onegraph.compiler.lower.lowerer import Cell, Lowerer, is_empty
from onegraph.compiler.lower.reduction import converted, reduce
from onegraph.compiler.lower.registry import lower
from onegraph.compiler.lower.scalars import Scalar
from onegraph.compiler.lower.statistics import moments
from onegraph.compiler.lower.views import View
from onegraph.ir.index import ZERO, Index, product
from onegraph.ir.types import DType

aten = torch.ops.aten


def _shifted(g: Lowerer, x: View, dim: Any, dtype: DType) -> tuple[View, View]:
    """The largest element along a dimension, and the sum of the exponentials of the distances to it."""
    largest = reduce(g, "max", x, dim, dtype, keepdim=True)
    exponentials = g.pointwise(x.shape, dtype, lambda cell: s.exp(cell.load(x).to(dtype) - cell.load(largest)))
    return largest, reduce(g, "sum", exponentials, dim, dtype, keepdim=True)


def _weights(g: Lowerer, x: View, dim: Any, dtype: DType) -> tuple[View, View, View]:
    """The largest along a dimension, exp(x - largest), and 1 / their sum, which is at least 1."""
    largest = reduce(g, "max", x, dim, dtype, keepdim=True)
    weight = g.pointwise(x.shape, dtype, lambda cell: s.exp(cell.load(x).to(dtype) - cell.load(largest)))
    total = reduce(g, "sum", weight, dim, dtype, keepdim=True)
    return largest, weight, g.pointwise(total.shape, dtype, lambda cell: s.reciprocal(cell.load(total)))


@lower(aten._softmax.default)
def softmax(g: Lowerer, x: View, dim: Any, half_to_float: bool) -> View:
    result = g.result
    _, weight, inverse = _weights(g, x, dim, result.dtype.compute)
    return g.pointwise(x.shape, result.dtype, lambda cell: cell.load(weight) * cell.load(inverse))


@lower(aten._log_softmax.default)
def log_softmax(g: Lowerer, x: View, dim: Any, half_to_float: bool) -> View:
    result = g.result
    dtype = result.dtype.compute
    largest, total = _shifted(g, x, dim, dtype)
    logarithm = g.pointwise(total.shape, dtype, lambda cell: s.log(cell.load(total)))

    def compute(cell: Cell) -> Scalar:
        return cell.load(x).to(dtype) - cell.load(largest) - cell.load(logarithm)

    return g.pointwise(x.shape, result.dtype, compute)


@lower(aten._safe_softmax.default)
def safe_softmax(g: Lowerer, x: View, dim: Any, dtype: Any = None) -> View:
    """A row of nothing but -inf gives zeros."""
    result = g.result
    largest, weight, inverse = _weights(g, x, dim, result.dtype.compute)

    def value(cell: Cell) -> Scalar:
        return s.where(cell.load(largest).eq(float("-inf")), 0, cell.load(weight) * cell.load(inverse))

    return g.pointwise(x.shape, result.dtype, value)


def _inverse_root(g: Lowerer, variance: View, eps: Any, dtype: DType) -> View:
    return g.pointwise(variance.shape, dtype, lambda cell: s.rsqrt(cell.load(variance) + eps))


@lower(aten.native_layer_norm.default)
def layer_norm(g: Lowerer, x: View, shape: Any, weight: View | None, bias: View | None, eps: float) -> Any:
    result, mean_type, _ = g.results
    dtype = result.dtype.compute
    inner = tuple(range(x.rank - len(shape), x.rank))
    mean, variance = moments(g, x, list(inner), dtype)
    scale = _inverse_root(g, variance, eps, dtype)

    def compute(cell: Cell) -> Scalar:
        value = (cell.load(x).to(dtype) - cell.load(mean)) * cell.load(scale)
        return _affine(cell, value, weight, bias, cell.position[inner[0] :])

    value = g.pointwise(x.shape, result.dtype, compute, result.strides)
    return value, converted(g, mean, mean_type.dtype), converted(g, scale, mean_type.dtype)


def _affine(cell: Cell, value: Scalar, weight: View | None, bias: View | None, at: Any) -> Scalar:
    if weight is not None:
        value = value * cell.load(weight, at).to(value.dtype)
    return value + cell.load(bias, at).to(value.dtype) if bias is not None else value


@lower(aten._fused_rms_norm.default)
def rms_norm(g: Lowerer, x: View, shape: Any, weight: View | None, eps: float | None) -> Any:
    result, scale_type = g.results
    dtype = result.dtype.compute
    if eps is None:
        eps = torch.finfo(getattr(torch, dtype.torch_name)).eps
    inner = tuple(range(x.rank - len(shape), x.rank))
    squares = g.pointwise(x.shape, dtype, lambda cell: _squared(cell.load(x).to(dtype)))
    total = reduce(g, "sum", squares, list(inner), dtype, keepdim=True)
    count = product(x.shape[inner[0] :])
    scale = g.pointwise(
        total.shape, dtype, lambda cell: s.rsqrt(cell.load(total) / cell.index(count).to(dtype) + float(eps))
    )

    def compute(cell: Cell) -> Scalar:
        return _affine(cell, cell.load(x).to(dtype) * cell.load(scale), weight, None, cell.position[inner[0] :])

    return g.pointwise(x.shape, result.dtype, compute, result.strides), converted(g, scale, scale_type.dtype)


def _squared(x: Scalar) -> Scalar:
    return x * x


@lower(aten.native_group_norm.default)
def group_norm(
    g: Lowerer, x: View, weight: View | None, bias: View | None, n: Any, c: Any, hw: Any, groups: Any, eps: float
) -> Any:
    result, mean_type, _ = g.results
    dtype = result.dtype.compute
    if is_empty(x.shape):
        return NotImplemented
    each = x.shape[1] // groups
    grouped = x.reshaped((Index.of(n), Index.of(groups), each * hw))
    mean, variance = moments(g, grouped, 2, dtype)
    scale = _inverse_root(g, variance, eps, dtype)

    def compute(cell: Cell) -> Scalar:
        channel = cell.position[1]
        group = (cell.position[0], channel // each, ZERO)
        value = (cell.load(x).to(dtype) - cell.load(mean, group)) * cell.load(scale, group)
        return _affine(cell, value, weight, bias, (channel,))

    value = g.pointwise(x.shape, result.dtype, compute, result.strides)
    shape = mean.shape[:2]
    return (
        value,
        converted(g, mean.reshaped(shape), mean_type.dtype),
        converted(g, scale.reshaped(shape), mean_type.dtype),
    )


@lower(aten.native_batch_norm.default)
def batch_norm(
    g: Lowerer,
    x: View,
    weight: View | None,
    bias: View | None,
    running_mean: View | None,
    running_var: View | None,
    training: bool,
    momentum: float,
    eps: float,
) -> Any:
    if training or running_mean is None or running_var is None:
        return NotImplemented
    value = _batch_norm_inference(g, x, weight, bias, running_mean, running_var, eps)
    return value, *_unused(g)


def _unused(g: Lowerer) -> list[View]:
    """What only training needs has no elements."""
    kinds = g.results[1:]
    return [g.pointwise(kind.shape, kind.dtype, partial(Cell.literal, value=0, dtype=kind.dtype)) for kind in kinds]


def _batch_norm_inference(
    g: Lowerer, x: View, weight: View | None, bias: View | None, mean: View, variance: View, eps: float
) -> View:
    """One multiplication and one addition for each element, as in eager's kernel."""
    result = g.results[0]
    dtype = result.dtype.compute

    def factor(cell: Cell) -> Scalar:
        scale = s.rsqrt(cell.load(variance).to(dtype) + eps)
        return scale * cell.load(weight).to(dtype) if weight is not None else scale

    scale = g.pointwise(variance.shape, dtype, factor)

    def offset(cell: Cell) -> Scalar:
        shift = -cell.load(mean).to(dtype) * cell.load(scale)
        return shift + cell.load(bias).to(dtype) if bias is not None else shift

    shift = g.pointwise(variance.shape, dtype, offset)

    def compute(cell: Cell) -> Scalar:
        channel = (cell.position[1],)
        return cell.load(x).to(dtype) * cell.load(scale, channel) + cell.load(shift, channel)

    return g.pointwise(x.shape, result.dtype, compute, result.strides)


@lower(aten._native_batch_norm_legit_no_training.default)
def batch_norm_no_training(
    g: Lowerer, x: View, weight: Any, bias: Any, mean: View, variance: View, momentum: float, eps: float
) -> Any:
    value = _batch_norm_inference(g, x, weight, bias, mean, variance, eps)
    return value, *_unused(g)


def _trained(g: Lowerer, x: View, weight: View | None, bias: View | None, eps: float) -> tuple[View, View, View, View]:
    """The normalized values, and mean, variance and scale of every channel."""
    result = g.results[0]
    dtype = result.dtype.compute
    over = [d for d in range(x.rank) if d != 1]
    mean, variance = (v.reshaped((x.shape[1],)) for v in moments(g, x, over, dtype))
    scale = _inverse_root(g, variance, eps, dtype)

    def compute(cell: Cell) -> Scalar:
        channel = (cell.position[1],)
        value = (cell.load(x).to(dtype) - cell.load(mean, channel)) * cell.load(scale, channel)
        return _affine(cell, value, weight, bias, channel)

    return g.pointwise(x.shape, result.dtype, compute, result.strides), mean, variance, scale


def _cannot_train(x: View) -> bool:
    return x.rank < 2 or is_empty(x.shape)


@lower(aten._native_batch_norm_legit.no_stats)
def batch_norm_without_statistics(
    g: Lowerer, x: View, weight: View | None, bias: View | None, training: bool, momentum: float, eps: float
) -> Any:
    if not training or _cannot_train(x):
        return NotImplemented
    value, mean, _, scale = _trained(g, x, weight, bias, eps)
    return value, converted(g, mean, g.results[1].dtype), converted(g, scale, g.results[2].dtype)


def _followed(
    g: Lowerer, x: View, mean: View, variance: View, old_mean: View, old_variance: View, momentum: float
) -> tuple[View, View]:
    """The running statistics a step nearer to these."""
    dtype = mean.dtype
    count = product([n for d, n in enumerate(x.shape) if d != 1])

    def unbiased(cell: Cell) -> Scalar:
        number = cell.index(count).to(dtype)
        return cell.load(variance) * (number / (number - 1))

    def followed(old: View, new: Any) -> View:
        return g.pointwise(
            old.shape, old.dtype, lambda cell: cell.load(old).to(dtype) * (1 - momentum) + new(cell) * momentum
        )

    return followed(old_mean, lambda cell: cell.load(mean)), followed(old_variance, unbiased)


@lower(aten._native_batch_norm_legit_functional.default)
def batch_norm_training(
    g: Lowerer,
    x: View,
    weight: View | None,
    bias: View | None,
    running_mean: View,
    running_var: View,
    training: bool,
    momentum: float,
    eps: float,
) -> Any:
    if not training or _cannot_train(x):
        return NotImplemented
    value, mean, variance, scale = _trained(g, x, weight, bias, eps)
    kind = g.results[1].dtype
    followed = _followed(g, x, mean, variance, running_mean, running_var, momentum)
    return value, converted(g, mean, kind), converted(g, scale, kind), *followed


@lower(aten._batch_norm_with_update_functional.default)
def batch_norm_with_update(
    g: Lowerer,
    x: View,
    weight: View | None,
    bias: View | None,
    running_mean: View,
    running_var: View,
    momentum: float,
    eps: float,
) -> Any:
    if _cannot_train(x):
        return NotImplemented
    value, mean, variance, scale = _trained(g, x, weight, bias, eps)
    kind, reserve = g.results[1].dtype, g.results[3]
    nothing = g.pointwise(reserve.shape, reserve.dtype, lambda cell: cell.literal(0, reserve.dtype))
    followed = _followed(g, x, mean, variance, running_mean, running_var, momentum)
    return value, converted(g, mean, kind), converted(g, scale, kind), nothing, *followed
