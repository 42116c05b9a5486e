"""Reductions, scans and sorting."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from onegraph.torchlib.layouts.registry import Layout, laid_out, rule, wrapped
from onegraph.torchlib.strides import is_certainly_dense, is_contiguous

aten = torch.ops.aten


def _reduced(x: Tensor, dims: Any, keepdim: bool, dtype: torch.dtype) -> Layout | None:
    rank = max(x.dim(), 1)
    if not is_contiguous(x) or any(not -rank <= d < rank for d in dims or ()):
        return None
    named = range(x.dim()) if not dims else [d % rank for d in dims]
    if len(set(named)) != len(named):
        return None
    return laid_out([1 if d in named else n for d, n in enumerate(x.shape) if keepdim or d not in named], dtype)


def _summed(x: Tensor, dtype: torch.dtype | None) -> torch.dtype:
    return dtype or (x.dtype if x.dtype.is_floating_point or x.dtype.is_complex else torch.int64)


@rule(aten.sum.default, aten.sum.dim_IntList, general=True)
def sums(x: Tensor, dims: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Layout | None:
    return _reduced(x, dims, keepdim, _summed(x, dtype))


@rule(aten.prod.default, general=True)
def product(x: Tensor, *, dtype: Any = None) -> Layout | None:
    return _reduced(x, None, False, _summed(x, dtype))


@rule(aten.prod.dim_int, general=True)
def product_along(x: Tensor, dim: int, keepdim: bool = False, *, dtype: Any = None) -> Layout | None:
    return _reduced(x, [dim], keepdim, _summed(x, dtype))


@rule(aten.mean.default, aten.mean.dim, general=True)
def mean(x: Tensor, dims: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Layout | None:
    return _reduced(x, dims, keepdim, dtype or x.dtype) if (dtype or x.dtype).is_floating_point else None


@rule(aten.amax.default, aten.amin.default, general=True)
def amax(x: Tensor, dims: Any = (), keepdim: bool = False) -> Layout | None:
    return _reduced(x, dims, keepdim, x.dtype) if x.numel() and not x.is_complex() else None


@rule(aten.max.default, aten.min.default, general=True)
def maximum(x: Tensor) -> Layout | None:
    return _reduced(x, None, False, x.dtype) if x.numel() and not x.is_complex() else None


@rule(aten.max.dim, aten.min.dim, general=True)
def maximum_along(x: Tensor, dim: int, keepdim: bool = False) -> tuple[Layout, ...] | None:
    found = _reduced(x, [dim], keepdim, x.dtype) if x.numel() and not x.is_complex() else None
    return None if found is None else (found, laid_out(found[0], torch.int64))


@rule(aten.argmax.default, aten.argmin.default, general=True)
def argmax(x: Tensor, dim: int | None = None, keepdim: bool = False) -> Layout | None:
    if not x.numel() or x.dtype.is_complex or x.dtype is torch.bool:
        return None
    return _reduced(x, None if dim is None else [dim], keepdim, torch.int64)


@rule(aten.any.default, aten.all.default, general=True)
def anything(x: Tensor) -> Layout | None:
    return _reduced(x, None, False, torch.uint8 if x.dtype is torch.uint8 else torch.bool)


@rule(aten.any.dim, aten.all.dim, general=True)
def anything_along(x: Tensor, dim: int, keepdim: bool = False) -> Layout | None:
    return _reduced(x, [dim], keepdim, torch.uint8 if x.dtype is torch.uint8 else torch.bool)


@rule(aten.var.correction, aten.std.correction, general=True)
def variance(x: Tensor, dims: Any = None, *, correction: Any = None, keepdim: bool = False) -> Layout | None:
    return _reduced(x, dims, keepdim, x.dtype) if x.is_floating_point() else None


@rule(aten.var_mean.correction, aten.std_mean.correction, general=True)
def variance_and_mean(
    x: Tensor, dims: Any = None, *, correction: Any = None, keepdim: bool = False
) -> tuple[Layout, ...] | None:
    found = variance(x, dims, keepdim=keepdim)
    return None if found is None else (found, found)


@rule(aten.logsumexp.default, general=True)
def logsumexp(x: Tensor, dims: Any, keepdim: bool = False) -> Layout | None:
    return _reduced(x, dims, keepdim, x.dtype) if x.is_floating_point() and x.numel() else None


@rule(aten.linalg_vector_norm.default)
def vector_norm(
    x: Tensor, order: Any = 2, dims: Any = None, keepdim: bool = False, *, dtype: Any = None
) -> Layout | None:
    return _reduced(x, dims, keepdim, x.dtype) if x.is_floating_point() and dtype is None and x.numel() else None


@rule(aten.cumsum.default, aten.cumprod.default, general=True)
def scanned(x: Tensor, dim: int, *, dtype: Any = None) -> Layout | None:
    summed = _summed(x, dtype)
    return None if wrapped(dim, x) is None or summed is torch.bool else laid_out(x.shape, summed)


@rule(aten.sort.default, general=True)
def sort(x: Tensor, dim: int = -1, descending: bool = False) -> tuple[Layout, ...] | None:
    if wrapped(dim, x) is None or x.is_complex() or not (is_certainly_dense(x) or 0 in x.shape):
        return None
    return (x.shape, x.stride(), x.dtype), (x.shape, x.stride(), torch.int64)


@rule(aten.sort.stable, general=True)
def stable_sort(
    x: Tensor, *, stable: bool | None, dim: int = -1, descending: bool = False
) -> tuple[Layout, ...] | None:
    return sort(x, dim)


@rule(aten.topk.default)
def topk(x: Tensor, k: int, dim: int = -1, largest: bool = True, sorted: bool = True) -> tuple[Layout, ...] | None:
    at = wrapped(dim, x)
    if at is None or x.is_complex() or x.dtype is torch.bool or not 0 <= k <= (x.shape[at] if x.dim() else 1):
        return None
    shape = [k if d == at else n for d, n in enumerate(x.shape)]
    return laid_out(shape, x.dtype), laid_out(shape, torch.int64)


@rule(aten._softmax.default, aten._log_softmax.default, general=True)
def softmax(x: Tensor, dim: int, half_to_float: bool) -> Layout | None:
    if half_to_float or not x.is_floating_point() or not is_contiguous(x):
        return None
    return laid_out(x.shape, x.dtype)


@rule(aten._softmax_backward_data.default, aten._log_softmax_backward_data.default)
def softmax_backward(gradient: Tensor, output: Tensor, dim: int, dtype: torch.dtype) -> Layout | None:
    same = gradient.dtype == output.dtype == dtype and gradient.shape == output.shape and gradient.is_floating_point()
    return laid_out(gradient.shape, dtype) if same and wrapped(dim, gradient) is not None else None


@rule(aten._safe_softmax.default)
def safe_softmax(x: Tensor, dim: int, dtype: Any = None) -> Layout | None:
    return softmax(x, dim, False) if dtype is None and wrapped(dim, x) is not None else None
