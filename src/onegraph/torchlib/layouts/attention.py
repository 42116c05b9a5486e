"""Attention."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from onegraph.torchlib.iterator import iterator_strides
from onegraph.torchlib.layouts.registry import Layout, rule
from onegraph.torchlib.layouts.shapes import like

aten = torch.ops.aten


@rule(aten._scaled_dot_product_flash_attention_for_cpu.default, general=True)
def flash_attention(
    query: Tensor, key: Tensor, value: Tensor, dropout: float = 0.0, causal: bool = False, **others: Any
) -> tuple[Layout, ...] | None:
    """The result is laid out as the query is, the statistics with the heads of one place beside each other."""
    if dropout or any(x.dim() != 4 or x.dtype != query.dtype or 0 in x.shape for x in (query, key, value)):
        return None
    batch, heads, length, size = query.shape
    if key.shape != (batch, heads, key.shape[2], size) or value.shape != key.shape or not query.is_floating_point():
        return None
    attention = like(query)
    if attention is None:
        if query._has_symbolic_sizes_strides:
            return None
        attention = (query.shape, iterator_strides(query.shape, [query], False), query.dtype)
    precise = torch.float64 if query.dtype is torch.float64 else torch.float32
    return attention, ((batch, heads, length), (length * heads, 1, heads), precise)


@rule(aten._transformer_encoder_layer_fwd.default)
def encoder_layer(x: Tensor, *_: Any, **others: Any) -> Layout | None:
    return like(x)
