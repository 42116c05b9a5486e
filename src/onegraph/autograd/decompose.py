"""Which operators are replaced by simpler ones while the graph is recorded.

Each entry is one function with the operator's signature, run under the recorder in its place; it may return
NotImplemented to keep the operator. Few operators need one: what is a handful of loops is lowered as it stands, by the
compiler, which is cheaper than recording its pieces; and what a library does better than loops stays whole.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

aten = torch.ops.aten


def batch_norm(
    x: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    training: bool,
    momentum: float,
    eps: float,
) -> Any:
    """In training it writes its running statistics, which its schema does not tell."""
    if not training or running_mean is None or running_var is None:
        return NotImplemented
    value, mean, scale, new_mean, new_var = aten._native_batch_norm_legit_functional.default(
        x, weight, bias, running_mean, running_var, training, momentum, eps
    )
    running_mean.copy_(new_mean)
    running_var.copy_(new_var)
    return value, mean, scale


def batch_norm_backward(
    gradient: Tensor,
    x: Tensor,
    weight: Tensor | None,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    mean: Tensor | None,
    scale: Tensor | None,
    training: bool,
    eps: float,
    wanted: list[bool],
) -> Any:
    """In training it does not look at the running statistics, which have been written to by then."""
    if not training or running_mean is None and running_var is None:
        return NotImplemented
    return aten.native_batch_norm_backward.default(gradient, x, weight, None, None, mean, scale, training, eps, wanted)


def ldexp(x: Tensor, exponent: Tensor) -> Any:
    """Powers by fractions have the type of the exponent; those by integers are neither rounded nor do they overflow."""
    return x * torch.pow(2.0, exponent) if exponent.is_floating_point() else NotImplemented


def dropout(x: Tensor, p: float, train: bool | None) -> Any:
    """The mask is drawn as eager draws it; the rest joins the work around it."""
    if not train and train is not None:
        return x.clone(), torch.ones_like(x, dtype=torch.bool)
    kept = 1.0 - p
    mask = torch.empty_like(x, dtype=torch.bool).bernoulli_(kept)
    return x * mask * (1.0 / kept if kept else 0.0), mask


DECOMPOSITIONS: dict[Any, Callable[..., Any]] = {
    aten.native_batch_norm.default: batch_norm,
    aten.native_batch_norm_backward.default: batch_norm_backward,
    aten.native_dropout.default: dropout,
    aten.ldexp.Tensor: ldexp,
}
