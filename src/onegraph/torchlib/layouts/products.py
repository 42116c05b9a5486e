"""Products of matrices."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from onegraph.torchlib.layouts.registry import Layout, laid_out, rule

aten = torch.ops.aten


@rule(aten.mm.default)
def mm(a: Tensor, b: Tensor) -> Layout | None:
    if a.dim() != 2 or b.dim() != 2 or a.shape[1] != b.shape[0] or a.dtype != b.dtype:
        return None
    return laid_out((a.shape[0], b.shape[1]), a.dtype)


@rule(aten.addmm.default)
def addmm(bias: Tensor, a: Tensor, b: Tensor, *, beta: Any = 1, alpha: Any = 1) -> Layout | None:
    return _added(bias, mm(a, b))


@rule(aten.bmm.default)
def bmm(a: Tensor, b: Tensor) -> Layout | None:
    if a.dim() != 3 or b.dim() != 3 or a.shape[0] != b.shape[0] or a.shape[2] != b.shape[1] or a.dtype != b.dtype:
        return None
    return laid_out((a.shape[0], a.shape[1], b.shape[2]), a.dtype)


@rule(aten.baddbmm.default)
def baddbmm(bias: Tensor, a: Tensor, b: Tensor, *, beta: Any = 1, alpha: Any = 1) -> Layout | None:
    return _added(bias, bmm(a, b))


@rule(aten.mv.default)
def mv(a: Tensor, b: Tensor) -> Layout | None:
    if a.dim() != 2 or b.dim() != 1 or a.shape[1] != b.shape[0] or a.dtype != b.dtype:
        return None
    return laid_out((a.shape[0],), a.dtype)


@rule(aten.addmv.default)
def addmv(bias: Tensor, a: Tensor, b: Tensor, *, beta: Any = 1, alpha: Any = 1) -> Layout | None:
    return _added(bias, mv(a, b))


@rule(aten.dot.default, aten.vdot.default)
def dot(a: Tensor, b: Tensor) -> Layout | None:
    return laid_out((), a.dtype) if a.dim() == b.dim() == 1 and a.shape == b.shape and a.dtype == b.dtype else None


def _added(bias: Tensor, product: Layout | None) -> Layout | None:
    """The product, if the bias can be added to it."""
    if product is None or bias.dtype != product[2] or bias.dim() > len(product[0]):
        return None
    sizes = product[0][len(product[0]) - bias.dim() :]
    return product if all(n in (1, m) for n, m in zip(bias.shape, sizes, strict=True)) else None
