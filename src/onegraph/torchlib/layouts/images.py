"""Pooling, padding and interpolation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from onegraph.torchlib.layouts.registry import Layout, each, in_format, rule
from onegraph.torchlib.strides import suggested_format

aten = torch.ops.aten


def _pooled(x: Tensor, kernel: Any, stride: Any, padding: Any, dilation: Any, ceil: bool) -> Layout | None:
    """What a window over the last two dimensions gives. A window that begins in the padding at the end is left out."""
    numbers = [each(value, 2) for value in (kernel, stride or kernel, padding, dilation)]
    if x.dim() not in (3, 4) or not x.numel() or None in numbers or x.is_complex() or x.dtype is torch.bool:
        return None
    shape = list(x.shape)
    for dim, (k, step, pad, gap) in enumerate(zip(*numbers, strict=True), x.dim() - 2):
        if k < 1 or step < 1 or pad < 0 or gap < 1 or pad * 2 > k:
            return None
        n = x.shape[dim]
        count = (n + 2 * pad - gap * (k - 1) - 1 + (step - 1 if ceil else 0)) // step + 1
        shape[dim] = count - 1 if ceil and (count - 1) * step >= n + pad else count
    return in_format(shape, suggested_format(x), x.dtype) if all(size >= 1 for size in shape[-2:]) else None


# Of symbols, too: an old torch asks whether the last window ends where the image does.
@rule(aten.max_pool2d_with_indices.default, of_symbols=True)
def max_pool(
    x: Tensor, kernel: Any, stride: Any = (), padding: Any = (0,), dilation: Any = (1,), ceil: bool = False
) -> tuple[Layout, ...] | None:
    found = _pooled(x, kernel, stride, padding, dilation, ceil)
    return None if found is None else (found, (*found[:2], torch.int64))


@rule(aten.avg_pool2d.default, of_symbols=True)
def average_pool(
    x: Tensor,
    kernel: Any,
    stride: Any = (),
    padding: Any = (0,),
    ceil: bool = False,
    counted: bool = True,
    by: Any = None,
) -> Layout | None:
    return _pooled(x, kernel, stride, padding, (1,), ceil) if by != 0 and x.is_floating_point() else None


@rule(aten.max_pool2d_with_indices_backward.default, of_symbols=True)
def max_pool_gradient(
    grad: Tensor, x: Tensor, kernel: Any, stride: Any, padding: Any, dilation: Any, ceil: bool, indices: Tensor
) -> Layout | None:
    found = _pooled(x, kernel, stride, padding, dilation, ceil)
    return _as_before(x, found, grad) if x.is_floating_point() and indices.shape == grad.shape else None


@rule(aten.avg_pool2d_backward.default, of_symbols=True)
def average_pool_gradient(
    grad: Tensor, x: Tensor, kernel: Any, stride: Any, padding: Any, ceil: bool, counted: bool, by: Any
) -> Layout | None:
    found = _pooled(x, kernel, stride, padding, (1,), ceil)
    return _as_before(x, found, grad) if by != 0 and x.is_floating_point() else None


def _as_before(x: Tensor, pooled: Layout | None, grad: Tensor) -> Layout | None:
    """The gradient of what was pooled, if the given one is that of the result."""
    if pooled is None or grad.dtype != x.dtype or grad.shape != torch.Size(pooled[0]):
        return None
    return in_format(x.shape, suggested_format(x), x.dtype)


@rule(aten._adaptive_avg_pool2d.default)
def adaptive_average_pool(x: Tensor, size: Any) -> Layout | None:
    if x.dim() not in (3, 4) or not x.numel() or not x.is_floating_point() or len(size) != 2 or min(size) < 1:
        return None
    return in_format((*x.shape[:-2], *size), suggested_format(x), x.dtype)


@rule(aten.constant_pad_nd.default, of_symbols=True)
def padded(x: Tensor, pad: Sequence[int], value: Any = 0) -> Layout | None:
    """What has no padding is cut out only, which this does not know. Whether a symbol is 0 is not asked."""
    if len(pad) % 2 or len(pad) > 2 * x.dim() or not x.numel():
        return None
    symbols = [n for n in pad if isinstance(n, torch.SymInt)]
    if not all(n >= 0 for n in symbols) or not symbols and max(pad, default=0) <= 0:
        return None
    shape = list(x.shape)
    for at in range(len(pad) // 2):
        shape[-1 - at] += pad[2 * at] + pad[2 * at + 1]
    return in_format(shape, suggested_format(x), x.dtype) if min(shape) > 0 else None


@rule(
    *(aten.upsample_nearest1d.default, aten._upsample_nearest_exact1d.default, aten.upsample_linear1d.default),
    *(aten.upsample_nearest2d.default, aten._upsample_nearest_exact2d.default),
    *(aten.upsample_bilinear2d.default, aten.upsample_bicubic2d.default),
    *(aten._upsample_bilinear2d_aa.default, aten._upsample_bicubic2d_aa.default),
    *(aten.upsample_nearest3d.default, aten._upsample_nearest_exact3d.default, aten.upsample_trilinear3d.default),
    of_symbols=True,
)
def interpolated(x: Tensor, size: Any, *_: Any, **__: Any) -> Layout | None:
    if x.dim() != len(size) + 2 or not x.numel() or not x.is_floating_point() or any(n < 1 for n in size):
        return None
    return in_format((*x.shape[:2], *size), suggested_format(x), x.dtype)
