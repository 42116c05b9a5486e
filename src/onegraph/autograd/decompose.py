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
    """The mask is drawn as eager draws it; the rest joins the work around it. Other devices draw as they compute."""
    if x.device.type != "cpu":
        return NotImplemented
    if not train and train is not None:
        return x.clone(), torch.ones_like(x, dtype=torch.bool)
    kept = 1.0 - p
    mask = torch.empty_like(x, dtype=torch.bool).bernoulli_(kept)
    return x * mask * (1.0 / kept if kept else 0.0), mask


def self_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    embed_dim: int,
    num_heads: int,
    weight: Tensor,
    bias: Tensor,
    out_weight: Tensor,
    out_bias: Tensor,
    mask: Tensor | None = None,
    need_weights: bool = True,
    average_weights: bool = True,
    mask_type: int | None = None,
) -> Any:
    """Its products and its attention join the work around them, where it is plain."""
    if mask is not None or need_weights or not query.numel():
        return NotImplemented
    batch, length, _ = query.shape
    projected = aten.linear.default(query, weight, bias).view(batch, length, 3, num_heads, embed_dim // num_heads)
    heads = projected.permute(2, 0, 3, 1, 4).unbind(0)
    attended = aten.scaled_dot_product_attention.default(*heads).transpose(1, 2).reshape(batch, length, embed_dim)
    return aten.linear.default(attended, out_weight, out_bias), query.new_empty(0)


def encoder_layer(
    x: Tensor,
    embed_dim: int,
    num_heads: int,
    weight: Tensor,
    bias: Tensor,
    out_weight: Tensor,
    out_bias: Tensor,
    use_gelu: bool,
    norm_first: bool,
    eps: float,
    *others: Any,
) -> Any:
    """As its layer is written; `others` are the weights of both norms and of the products, and a mask."""
    norm_1, norm_2, product_1, product_2 = (others[at : at + 2] for at in range(0, 8, 2))
    if any(mask is not None for mask in others[8:9]) or not x.numel():
        return NotImplemented

    def attention(x: Tensor) -> Tensor:
        given = (x, x, x, embed_dim, num_heads, weight, bias, out_weight, out_bias)
        result: Tensor = self_attention(*given, need_weights=False)[0]
        return result

    def products(x: Tensor) -> Tensor:
        inner = aten.linear.default(x, *product_1)
        inner = aten.gelu.default(inner) if use_gelu else aten.relu.default(inner)
        result: Tensor = aten.linear.default(inner, *product_2)
        return result

    for norm, part in ((norm_1, attention), (norm_2, products)):
        if norm_first:
            x = x + part(aten.layer_norm.default(x, [embed_dim], *norm, eps))
        else:
            x = aten.layer_norm.default(x + part(x), [embed_dim], *norm, eps)
    return x


DECOMPOSITIONS: dict[Any, Callable[..., Any]] = {
    aten.native_batch_norm.default: batch_norm,
    aten.native_batch_norm_backward.default: batch_norm_backward,
    aten.native_dropout.default: dropout,
    aten.ldexp.Tensor: ldexp,
    aten._native_multi_head_attention.default: self_attention,
    aten._transformer_encoder_layer_fwd.default: encoder_layer,
}
