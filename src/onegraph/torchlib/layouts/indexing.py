"""Gathering and scattering."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from onegraph.torchlib.iterator import certain_broadcast
from onegraph.torchlib.layouts.registry import Layout, laid_out, rule, wrapped
from onegraph.torchlib.strides import is_certainly_dense, is_certainly_equal, is_contiguous

aten = torch.ops.aten


@rule(aten.select_backward.default)
def select_backward(gradient: Tensor, shape: Sequence[int], dim: int, index: int) -> Layout | None:
    if not -len(shape) <= dim < len(shape):
        return None
    size, rest = shape[dim], [n for at, n in enumerate(shape) if at != dim % len(shape)]
    return laid_out(shape, gradient.dtype) if -size <= index < size and list(gradient.shape) == rest else None


@rule(aten.embedding.default, general=True)
def embedding(weight: Tensor, indices: Tensor, *_: Any, **__: Any) -> Layout | None:
    if weight.dim() != 2:
        return None
    return laid_out((*indices.shape, weight.shape[1]), weight.dtype)


@rule(aten.gather.default)
def gather(x: Tensor, dim: int, index: Tensor, *, sparse_grad: bool = False) -> Layout | None:
    return laid_out(index.shape, x.dtype) if _fits(x, dim, index) else None


@rule(aten.scatter.src, aten.scatter_add.default)
def scatter(x: Tensor, dim: int, index: Tensor, src: Tensor) -> Layout | None:
    fits = _fits(x, dim, index) and src.dim() == index.dim() and src.dtype == x.dtype
    return laid_out(x.shape, x.dtype) if fits and _within(index.shape, src.shape) else None


@rule(aten.scatter.value)
def scatter_number(x: Tensor, dim: int, index: Tensor, value: Any) -> Layout | None:
    return laid_out(x.shape, x.dtype) if _fits(x, dim, index) else None


def _fits(x: Tensor, dim: int, index: Tensor) -> bool:
    at = wrapped(dim, x)
    if at is None or not x.dim() or index.dim() != x.dim() or index.dtype is not torch.int64 or not index.numel():
        return False
    return _within([0 if d == at else n for d, n in enumerate(index.shape)], x.shape)


def _within(sizes: Sequence[int], bounds: Sequence[int]) -> bool:
    return all(n <= m for n, m in zip(sizes, bounds, strict=True))


@rule(aten.index_select.default, general=True)
def index_select(x: Tensor, dim: int, index: Tensor) -> Layout | None:
    at = wrapped(dim, x)
    if at is None or not x.dim() or index.dim() != 1 or index.dtype not in _INTEGERS or is_certainly_empty(x):
        return None
    return laid_out([index.shape[0] if d == at else n for d, n in enumerate(x.shape)], x.dtype)


@rule(aten.index.Tensor, general=True)
def index(x: Tensor, indices: Sequence[Tensor | None]) -> Layout | None:
    """Whole numbers beside each other, and all of it contiguous: else the order of the result follows the strides."""
    shape = _indexed(x, indices)
    return None if shape is None or not is_contiguous(x) else laid_out(shape, x.dtype)


@rule(aten.index_put.default, general=True)
def index_put(x: Tensor, indices: Sequence[Tensor | None], values: Tensor, accumulate: bool = False) -> Layout | None:
    if any(index is not None and index.dtype in _MASKS for index in indices):  # which say how many values there are
        return (x.shape, x.stride(), x.dtype) if values.dtype == x.dtype and is_certainly_dense(x) else None
    shape = _indexed(x, indices)
    if shape is None or values.dtype != x.dtype or values.dim() > len(shape) or not is_certainly_dense(x):
        return None
    found = certain_broadcast([values.shape, shape])
    same = found is not None and all(map(is_certainly_equal, found, shape))
    return (x.shape, x.stride(), x.dtype) if same else None


@rule(aten.index_add.default, general=True)
def index_add(x: Tensor, dim: int, index: Tensor, source: Tensor, *, alpha: Any = 1) -> Layout | None:
    at = wrapped(dim, x)
    alike = x.dim() == source.dim() > 0 and x.dtype == source.dtype
    if at is None or not alike or index.dim() != 1 or index.dtype not in _INTEGERS:
        return None
    others = [d for d in range(x.dim()) if d != at]
    fits = all(is_certainly_equal(x.shape[d], source.shape[d]) for d in others) and index.shape[0] == source.shape[at]
    return laid_out(x.shape, x.dtype) if fits else None


def _indexed(x: Tensor, indices: Sequence[Tensor | None]) -> list[int] | None:
    given = [index for index in indices if index is not None]
    dims = [dim for dim, index in enumerate(indices) if index is not None]
    if not given or dims[-1] >= x.dim() or dims != list(range(dims[0], dims[-1] + 1)) or is_certainly_empty(x):
        return None
    if any(index.dtype is not torch.int64 or index.dim() > 1 and not is_contiguous(index) for index in given):
        return None
    found = certain_broadcast([index.shape for index in given])
    return None if found is None else [*x.shape[: dims[0]], *found, *x.shape[dims[-1] + 1 :]]


_MASKS = (torch.bool, torch.uint8)
_INTEGERS = (torch.int32, torch.int64)


def is_certainly_empty(x: Tensor) -> bool:
    """Whether a tensor has no elements in any call."""
    return any(is_certainly_equal(size, 0) for size in x.shape)
