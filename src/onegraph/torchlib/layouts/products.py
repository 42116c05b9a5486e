"""Products of matrices."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from onegraph.torchlib.iterator import certain_broadcast
from onegraph.torchlib.layouts.registry import Layout, laid_out, rule
from onegraph.torchlib.strides import is_certainly_equal

aten = torch.ops.aten


@rule(aten.mm.default, general=True)
def mm(a: Tensor, b: Tensor) -> Layout | None:
    if a.dim() != 2 or b.dim() != 2 or a.shape[1] != b.shape[0] or not _multiply(a, b):
        return None
    return laid_out((a.shape[0], b.shape[1]), a.dtype)


@rule(aten.addmm.default, general=True)
def addmm(bias: Tensor, a: Tensor, b: Tensor, *, beta: Any = 1, alpha: Any = 1) -> Layout | None:
    return _added(bias, mm(a, b), beta, alpha)


@rule(aten.bmm.default, general=True)
def bmm(a: Tensor, b: Tensor) -> Layout | None:
    if a.dim() != 3 or b.dim() != 3 or a.shape[0] != b.shape[0] or a.shape[2] != b.shape[1] or not _multiply(a, b):
        return None
    return laid_out((a.shape[0], a.shape[1], b.shape[2]), a.dtype)


@rule(aten.baddbmm.default, general=True)
def baddbmm(bias: Tensor, a: Tensor, b: Tensor, *, beta: Any = 1, alpha: Any = 1) -> Layout | None:
    return _added(bias, bmm(a, b), beta, alpha)


@rule(aten.mv.default, general=True)
def mv(a: Tensor, b: Tensor) -> Layout | None:
    if a.dim() != 2 or b.dim() != 1 or a.shape[1] != b.shape[0] or not _multiply(a, b):
        return None
    return laid_out((a.shape[0],), a.dtype)


@rule(aten.addmv.default, general=True)
def addmv(bias: Tensor, a: Tensor, b: Tensor, *, beta: Any = 1, alpha: Any = 1) -> Layout | None:
    return _added(bias, mv(a, b), beta, alpha)


@rule(aten.dot.default, aten.vdot.default, general=True)
def dot(a: Tensor, b: Tensor) -> Layout | None:
    return laid_out((), a.dtype) if a.dim() == b.dim() == 1 and a.shape == b.shape and _multiply(a, b) else None


def _multiply(a: Tensor, b: Tensor) -> bool:
    return a.dtype == b.dtype and a.dtype is not torch.bool


def _added(bias: Tensor, product: Layout | None, *factors: Any) -> Layout | None:
    """The product, if the bias can be added to it, and the factors are of no type that the tensors do not hold."""
    if product is None or bias.dtype != product[2] or bias.dim() > len(product[0]):
        return None
    if not (product[2].is_floating_point or all(type(factor) is int for factor in factors)):
        return None
    shape = certain_broadcast([bias.shape, product[0]])
    return product if shape is not None and all(map(is_certainly_equal, shape, product[0])) else None
