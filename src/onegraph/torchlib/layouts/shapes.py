"""Operators that make, join, repeat and copy tensors."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from onegraph.torchlib.layouts.registry import Layout, laid_out, rule, wrapped
from onegraph.torchlib.strides import is_certainly_dense, is_contiguous, suggested_format

aten = torch.ops.aten


@rule(aten.cat.default, general=True)
def cat(tensors: Sequence[Tensor], dim: int = 0) -> Layout | None:
    first = tensors[0]
    d = dim % max(first.dim(), 1)
    if suggested_format(first) is not torch.contiguous_format:  # which tensors with sizes of 1 may do too
        return None
    for x in tensors:
        alike = x.dim() == first.dim() and x.dtype == first.dtype and is_contiguous(x) and 0 not in x.shape
        if not alike or any(n != m for k, (n, m) in enumerate(zip(x.shape, first.shape, strict=True)) if k != d):
            return None
    if not first.dim():
        return None
    shape = (*first.shape[:d], sum(x.shape[d] for x in tensors), *first.shape[d + 1 :])
    return laid_out(shape, first.dtype)


@rule(aten.stack.default, general=True)
def stack(tensors: Sequence[Tensor], dim: int = 0) -> Layout | None:
    first, rank = tensors[0], tensors[0].dim() + 1
    if not -rank <= dim < rank or any(x.shape != first.shape or x.dtype != first.dtype for x in tensors):
        return None
    at = dim % rank
    if 0 in first.shape or not all(_plainly_ordered(x, rank) for x in tensors):
        return None
    return laid_out((*first.shape[:at], len(tensors), *first.shape[at:]), first.dtype)


def _plainly_ordered(x: Tensor, rank: int) -> bool:
    """Contiguous, and as a part of images not channels last too, which tensors with sizes of 1 may be."""
    return is_contiguous(x) and (rank not in (4, 5) or min(x.shape) > 1)


@rule(aten.roll.default, of_symbols=True)
def roll(x: Tensor, shifts: Sequence[int], dims: Sequence[int] = ()) -> Layout | None:
    if not x.numel() or not _plainly_ordered(x, x.dim()) or len(shifts) != (len(dims) or 1):
        return None
    return None if None in [wrapped(dim, x) for dim in dims] else laid_out(x.shape, x.dtype)


@rule(aten.repeat.default)
def repeat(x: Tensor, repeats: Sequence[int]) -> Layout | None:
    if len(repeats) < x.dim() or min(repeats, default=1) < 1 or not x.numel():
        return None
    sizes = (*(1,) * (len(repeats) - x.dim()), *x.shape)
    return laid_out([n * times for n, times in zip(sizes, repeats, strict=True)], x.dtype)


@rule(aten.flip.default, general=True)
def flip(x: Tensor, dims: Sequence[int]) -> Layout | None:
    places = [wrapped(dim, x) for dim in dims]
    return like(x) if None not in places and len(set(places)) == len(places) else None


@rule(aten.tril.default, aten.triu.default)
def triangle(x: Tensor, diagonal: int = 0) -> Layout | None:
    return laid_out(x.shape, x.dtype) if x.dim() >= 2 else None


@rule(
    *(aten.empty_like.default, aten.zeros_like.default, aten.ones_like.default, aten.full_like.default),
    aten.fill.Scalar,
)
def like(x: Tensor, *_: Any, dtype: Any = None, memory_format: Any = None, **others: Any) -> Layout | None:
    """The strides are kept, those of dimensions of size 1 too, which the meta kernels make anew."""
    device, layout = others.get("device"), others.get("layout")
    ordinary = layout in (None, torch.strided) and torch.device(device or "cpu").type == "cpu"
    if not ordinary or others.get("pin_memory") or memory_format not in (None, torch.preserve_format):
        return None
    return (x.shape, x.stride(), dtype or x.dtype) if is_certainly_dense(x) or 0 in x.shape else None


@rule(aten.rand_like.default, aten.randn_like.default)
def drawn_like(x: Tensor, *_: Any, dtype: Any = None, **others: Any) -> Layout | None:
    return like(x, dtype=dtype, **others) if (dtype or x.dtype).is_floating_point else None


@rule(aten.randint_like.default, aten.randint_like.low_dtype)
def integers_like(x: Tensor, *_: Any, dtype: Any = None, **others: Any) -> Layout | None:
    drawn = dtype or x.dtype
    return None if drawn.is_complex or drawn is torch.bool else like(x, dtype=dtype, **others)


@rule(aten.view_copy.default)
def view_copy(x: Tensor, size: list[int]) -> Layout | None:
    """It takes any strides, unlike its meta kernel."""
    known = math.prod(n for n in size if n != -1)
    shape = [x.numel() // max(known, 1) if n == -1 else n for n in size]
    if size.count(-1) > 1 or any(n < 0 for n in shape) or not known or math.prod(shape) != x.numel():
        return None
    return laid_out(shape, x.dtype)
