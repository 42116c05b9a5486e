"""Losses."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from onegraph.torchlib.layouts.registry import Layout, laid_out, rule

aten = torch.ops.aten
_NONE = 0  # of torch's kinds of reduction: one loss per element


@rule(aten.mse_loss.default, aten.smooth_l1_loss.default, aten.huber_loss.default)
def difference(x: Tensor, target: Tensor, reduction: int = 1, *_: Any) -> Layout | None:
    same = x.shape == target.shape and x.dtype == target.dtype and x.is_floating_point()
    return laid_out((), x.dtype) if same and reduction != _NONE else None


@rule(
    aten.mse_loss_backward.default,
    aten.smooth_l1_loss_backward.default,
    aten.huber_loss_backward.default,
    of_symbols=True,
    general=True,
)
def gradient_of_difference(gradient: Tensor, x: Tensor, target: Tensor, *_: Any) -> Layout | None:
    """Contiguous, whatever the inputs are. Torch's kernel in Python would divide by the number of elements."""
    same = x.shape == target.shape and x.dtype == target.dtype == gradient.dtype and x.is_floating_point()
    return laid_out(x.shape, x.dtype) if same and gradient.shape in ((), x.shape) else None


@rule(aten.binary_cross_entropy.default)
def binary_cross_entropy(x: Tensor, target: Tensor, weight: Any = None, reduction: int = 1) -> Layout | None:
    return difference(x, target, reduction) if weight is None else None


@rule(aten.binary_cross_entropy_with_logits.default)
def binary_cross_entropy_with_logits(
    x: Tensor, target: Tensor, weight: Any = None, positive: Any = None, reduction: int = 1
) -> Layout | None:
    return difference(x, target, reduction) if weight is None and positive is None else None


@rule(aten.nll_loss_forward.default)
def negative_log_likelihood(
    x: Tensor, target: Tensor, weight: Any, reduction: int, ignored: int
) -> tuple[Layout, ...] | None:
    if x.dim() not in (1, 2) or target.dim() != x.dim() - 1 or target.dtype is not torch.int64 or not x.numel():
        return None
    if target.shape != x.shape[:-1] or not x.is_floating_point():
        return None
    if weight is not None and (weight.shape != x.shape[-1:] or weight.dtype != x.dtype):
        return None
    shape = target.shape if reduction == _NONE else ()
    return laid_out(shape, x.dtype), laid_out((), x.dtype)


@rule(aten.nll_loss_backward.default)
def gradient_of_negative_log_likelihood(
    gradient: Tensor, x: Tensor, target: Tensor, weight: Any, reduction: int, ignored: int, total: Tensor
) -> Layout | None:
    losses = negative_log_likelihood(x, target, weight, reduction, ignored)
    fits = losses is not None and gradient.shape == losses[0][0] and gradient.dtype == total.dtype == x.dtype
    return laid_out(x.shape, x.dtype) if fits and total.numel() == 1 else None
