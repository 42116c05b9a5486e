"""Normalization: the results, and the statistics that the gradients need."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from onegraph.torchlib.layouts.registry import Layout, in_format, laid_out, rule
from onegraph.torchlib.strides import suggested_format

aten = torch.ops.aten


@rule(aten.native_layer_norm.default)
def layer_norm(x: Tensor, shape: list[int], weight: Any, bias: Any, eps: float) -> tuple[Layout, ...] | None:
    rank = x.dim() - len(shape)
    parameters = [p for p in (weight, bias) if p is not None]
    if not (x.is_floating_point() or parameters):
        aten.native_layer_norm(torch.ones(1, dtype=x.dtype), [1], None, None, eps)  # raises what the program would see
    if not x.is_floating_point() or any(p.dtype != x.dtype for p in parameters):
        return None
    if any(list(sizes) != list(shape) for sizes in (x.shape[rank:], *(p.shape for p in parameters))):
        return None
    statistics = laid_out((*x.shape[:rank], *(1,) * len(shape)), x.dtype)
    return laid_out(x.shape, x.dtype), statistics, statistics


@rule(aten.native_layer_norm_backward.default)
def layer_norm_backward(
    gradient: Tensor,
    x: Tensor,
    shape: list[int],
    mean: Tensor,
    scale: Tensor,
    weight: Any,
    bias: Any,
    wanted: list[bool],
) -> tuple[Layout | None, ...] | None:
    parameters = [p for p in (weight, bias) if p is not None]
    if any(t.dtype != x.dtype for t in (gradient, mean, scale, *parameters)) or gradient.shape != x.shape:
        return None
    if not x.is_floating_point() or any(list(p.shape) != list(shape) for p in parameters):
        return None
    given = (x, weight, bias)
    if any(is_wanted and value is None for value, is_wanted in zip(given, wanted, strict=True)):
        return None
    return tuple(laid_out(t.shape, t.dtype) if is_wanted else None for t, is_wanted in zip(given, wanted, strict=True))


@rule(aten.native_group_norm.default)
def group_norm(
    x: Tensor, weight: Any, bias: Any, images: int, channels: int, pixels: int, groups: int, eps: float
) -> tuple[Layout, ...] | None:
    parameters = [p for p in (weight, bias) if p is not None]
    if any(p.dtype != x.dtype or p.shape != (channels,) for p in parameters) or x.dim() < 2 or not x.numel():
        return None
    if not (x.is_floating_point() or parameters):
        aten.native_group_norm(torch.ones(1, 1, 1, dtype=x.dtype), None, None, 1, 1, 1, 1, eps)  # it raises, too
    if not x.is_floating_point():
        return None
    if groups < 1 or channels % groups or x.shape[:2] != (images, channels) or x.numel() != images * channels * pixels:
        return None
    form = suggested_format(x)
    if not x.is_contiguous(memory_format=form):
        return None
    statistics = laid_out((images, groups), x.dtype)
    return in_format(x.shape, form, x.dtype), statistics, statistics


@rule(aten.native_batch_norm.default, aten._native_batch_norm_legit.default)
def batch_norm(
    x: Tensor, weight: Any, bias: Any, mean: Any, variance: Any, training: bool, momentum: float, eps: float
) -> tuple[Layout, ...] | None:
    """The kernel for the CPU keeps statistics in the type of the weight, and none in evaluation."""
    parameters = [p for p in (weight, bias, mean, variance) if p is not None]
    if x.dim() < 2 or not x.is_floating_point() or not x.numel() or any(p.shape != x.shape[1:2] for p in parameters):
        return None
    if any(p.dtype not in (x.dtype, torch.float32) for p in parameters) or len({p.dtype for p in parameters}) > 1:
        return None
    if (mean is None or variance is None) and not (training and mean is variance):
        return None
    saved = laid_out(x.shape[1:2] if training else (0,), x.dtype if weight is None else weight.dtype)
    return in_format(x.shape, suggested_format(x), x.dtype), saved, saved


@rule(aten._native_batch_norm_legit.no_stats)
def batch_norm_without_running_statistics(
    x: Tensor, weight: Any, bias: Any, training: bool, momentum: float, eps: float
) -> tuple[Layout, ...] | None:
    return batch_norm(x, weight, bias, None, None, training, momentum, eps)
