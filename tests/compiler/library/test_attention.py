"""Attention of a single query is computed as sums, with eager's results."""

from __future__ import annotations

from itertools import product
from math import inf, nan

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

import onegraph
from onegraph.base.events import GraphCaptured, OperatorFellBack
from onegraph.compile import EVENTS

TOLERANCE = {torch.float32: 1e-5, torch.bfloat16: 2e-2, torch.float16: 2e-3}


def attention(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None) -> Tensor:
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask)


def compare(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None) -> bool:
    """Compare with eager; the result is whether torch's kernel was called."""
    fallen: set[str] = set()
    stop = EVENTS.subscribe(lambda event: fallen.add(event.operator) if isinstance(event, OperatorFellBack) else None)
    try:
        compiled = onegraph.compile(attention, fullgraph=True, dynamic=False)
        with torch.no_grad():
            ours, theirs = compiled(q, k, v, mask), attention(q, k, v, mask)
    finally:
        stop()
        onegraph.reset()
    assert ours.dtype is theirs.dtype and ours.shape == theirs.shape and ours.stride() == theirs.stride()
    tolerance = TOLERANCE[q.dtype]
    torch.testing.assert_close(ours, theirs, rtol=tolerance, atol=tolerance, equal_nan=True)
    return any("attention" in name for name in fallen)


def made(*shape: int, dtype: torch.dtype = torch.float32, turned: bool = False) -> Tensor:
    """Random numbers; `turned`: as a projection gives them, with the heads side by side."""
    if turned:
        batch, heads, rows, width = shape
        return torch.randn(batch, rows, heads, width, dtype=dtype).transpose(1, 2)
    return torch.randn(shape, dtype=dtype)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_a_single_query(dtype: torch.dtype) -> None:
    for (batch, heads, keys, width), turned in product(((1, 2, 5, 16), (3, 4, 130, 64), (2, 1, 1, 8)), (False, True)):
        q, k, v = (made(batch, heads, n, width, dtype=dtype, turned=turned) for n in (1, keys, keys))
        masked = torch.zeros(batch, 1, 1, keys, dtype=dtype)
        masked[..., : keys // 2] = -inf
        for mask in (None, masked, torch.randn(1, keys, dtype=dtype), torch.randn(batch, heads, 1, keys) > -1):
            assert not compare(q, k, v, mask)


def test_queries_that_share_their_keys() -> None:
    for mask in (None, torch.randn(1, 40), torch.randn(4, 1, 1, 40)):
        compare(made(4, 3, 1, 16), made(1, 3, 40, 16), made(1, 3, 40, 16), mask)
        compare(made(4, 3, 1, 16), made(4, 3, 40, 16)[:1].expand(4, 3, 40, 16), made(4, 3, 40, 16), mask)


def test_a_query_whose_keys_are_all_masked_gets_zeros() -> None:
    mask = torch.zeros(2, 1, 1, 6)
    mask[0] = -inf
    compare(made(2, 3, 1, 8), made(2, 3, 6, 8), made(2, 3, 6, 8), mask)


@pytest.mark.parametrize("value", [inf, -inf, nan])
def test_special_values(value: float) -> None:
    for which in range(3):
        given = [made(1, 2, 1, 8), made(1, 2, 40, 8), made(1, 2, 40, 8)]
        given[which][0, 1, 0, 3] = value
        compare(*given)
        compare(*given, torch.tensor([[-inf, 0.0, 1.0, 2.0, 0.0]]).repeat(1, 8))


def test_others_are_left_to_torch() -> None:
    assert compare(made(1, 2, 3, 8), made(1, 2, 5, 8), made(1, 2, 5, 8))
    q, k = made(1, 2, 1, 8).requires_grad_(), made(1, 2, 5, 8)
    compiled = onegraph.compile(attention, fullgraph=True)
    (ours,), (theirs,) = (torch.autograd.grad(call(q, k, k).square().sum(), (q,)) for call in (compiled, attention))
    torch.testing.assert_close(ours, theirs)
    causal = onegraph.compile(lambda q, k: F.scaled_dot_product_attention(q, k, k, is_causal=True), fullgraph=True)
    with torch.no_grad():
        torch.testing.assert_close(causal(q, k), F.scaled_dot_product_attention(q, k, k, is_causal=True))
    onegraph.reset()


def test_growing_keys_are_compiled_twice() -> None:
    graphs: list[object] = []
    stop = EVENTS.subscribe(lambda event: graphs.append(event) if isinstance(event, GraphCaptured) else None)
    compiled = onegraph.compile(attention, fullgraph=True)
    with torch.no_grad():
        for keys in (3, 7, 20, 21, 1):
            q, k = made(3, 2, 1, 16), made(3, 2, keys, 16)
            torch.testing.assert_close(compiled(q, k, k), attention(q, k, k), rtol=1e-5, atol=1e-5)
        assert len(graphs) == 2
        for batch in (1, 3, 5):
            q, k = made(batch, 2, 1, 16), made(batch, 2, 4, 16)
            torch.testing.assert_close(compiled(q, k, k), attention(q, k, k), rtol=1e-5, atol=1e-5)
    stop()
    onegraph.reset()
