"""What `flex_attention` computes, in operators: scores, what the program makes of each of them, softmax, values.

    scores[b, h, q, k] = score_mod(query[b, h, q] . key[b, h, k] * scale, b, h, q, k), or -inf where mask_mod says False

Source: `math_attention` in torch/_higher_order_ops/flex_attention.py, which is what it computes in eager mode. Programs
of this file are interpreted by the tracer: the functions of the user run under `torch.vmap`, on numbers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from onegraph.torchlib.private import safe_softmax

Modification = Callable[..., Tensor]

#: For each `torch.vmap` around the functions of the user, which of b, h, q and k it goes over; the inner one first.
_OVER = ((None, None, None, 0), (None, None, 0, None), (None, 0, None, None), (0, None, None, None))


def attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    score_mod: Modification,
    block_mask: Sequence[Any],
    scale: float,
    kernel_options: object,
    of_scores: Sequence[Any] = (),
    of_mask: Sequence[Any] = (),
) -> tuple[Tensor, Tensor, Tensor]:
    """The result, and of each row of scores the logarithm of the sum of exponentials and the maximum, both to base 2.

    Args:
        query: [B, Hq, Q, E], of any strides; the result lies as it does.
        key, value: [B or 1, H, K, E] and [B or 1, H, K, Ev], where Hq is a multiple of H.
        block_mask: what a `BlockMask` consists of; the last is its `mask_mod`.
        of_scores, of_mask: further arguments of the functions.
    """
    groups = query.size(1) // key.size(1)
    if groups != 1:
        key, value = torch.repeat_interleave(key, groups, dim=1), torch.repeat_interleave(value, groups, dim=1)
    if query.size(0) != key.size(0):
        key = key.expand((query.size(0), *key.size()[1:]))
        value = value.expand((query.size(0), *value.size()[1:]))
    working = torch.float64 if query.dtype == torch.float64 else torch.float32
    scores = query.to(working) @ key.to(working).transpose(-2, -1)
    scores = (scores * scale).to(working)
    places = places_of(scores.size(), scores.device)
    mask = over_places(block_mask[-1], (), of_mask)(*places, *of_mask)
    scores = over_places(score_mod, (0,), of_scores)(scores, *places, *of_scores)
    scores = torch.where(mask, scores, torch.tensor(-float("inf"), dtype=working, device=scores.device))
    sums = scores.logsumexp(dim=-1)
    sums = torch.where(torch.all(scores == -float("inf"), dim=-1), -float("inf"), sums)
    largest = torch.max(scores, dim=-1)[0]
    weights = safe_softmax(scores, dim=-1).to(query.dtype)
    return laid_out_as(query, weights @ value.to(query.dtype)), sums / math.log(2), largest / math.log(2)


def over_places(function: Modification, first: tuple[int, ...], others: Sequence[Any]) -> Modification:
    """A function of numbers as one of all places. It takes such arguments behind the `first`, and before the others."""
    for over in _OVER:
        function = torch.vmap(function, in_dims=(*first, *over, *[None for _ in others]))
    return function


def places_of(sizes: Sequence[Any], device: Any) -> list[Tensor]:
    return [torch.arange(0, size, device=device) for size in sizes]


def mask_of(
    function: Modification, b: int | None, h: int | None, q: int, k: int, device: Any = None, takes: int = 4
) -> Tensor:
    """`create_mask`: where a `mask_mod` of four numbers gives true, or a `score_mod` more than -inf: [b, h, q, k]."""
    device = (torch.accelerator.current_accelerator() or "cpu") if device is None else device
    sizes = (1 if b is None else b, 1 if h is None else h, q, k)
    places = places_of(sizes, device)
    if takes == 4:
        return over_places(function, (), ())(*places)
    scores = over_places(function, (0,), ())(torch.zeros(sizes, device=device), *places)
    return torch.where(torch.isneginf(scores), False, True)


def laid_out_as(query: Tensor, result: Tensor) -> Tensor:
    """The result with its dimensions in the same order in memory as those of the query, but the last one, which is the
    innermost."""
    order = [dim for dim in reversed(sorted(range(4), key=query.stride().__getitem__)) if dim != 3] + [3]
    back = [order.index(dim) for dim in range(4)]
    return result.permute(order).contiguous().permute(back)
