"""Attention of many queries is a kernel of ours, with eager's results."""

from __future__ import annotations

import random
from collections.abc import Callable
from itertools import product
from math import inf, nan
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

import onegraph
from onegraph.base import events as ev
from onegraph.compile import EVENTS

OPTIONS = {"library_calls": "tiles", "verify": True, "raise_compiler_errors": True}

Attention = Callable[..., Tensor]


def attention(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None) -> Tensor:
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask)


def causal(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return F.scaled_dot_product_attention(q, k, v, is_causal=True)


def compiled(function: Attention, *args: Any, dynamic: bool = False, **options: Any) -> tuple[Tensor, set[str]]:
    """The result, and the operators that were left to torch."""
    left: set[str] = set()
    stop = EVENTS.subscribe(lambda event: left.add(event.operator) if isinstance(event, ev.OperatorFellBack) else None)
    try:
        with torch.no_grad():
            result = onegraph.compile(function, fullgraph=True, dynamic=dynamic, options=OPTIONS | options)(*args)
    finally:
        stop()
        onegraph.reset()
    return result, left


def check(function: Attention, *args: Any, **options: Any) -> None:
    """It is one kernel, as near to the result in float64 as eager is, and NaN in the same places."""
    ours, left = compiled(function, *args, **options)
    assert not left
    theirs = function(*args)
    right = function(*(x.double() if isinstance(x, Tensor) and x.is_floating_point() else x for x in args))
    assert ours.shape == theirs.shape and ours.stride() == theirs.stride() and ours.dtype is theirs.dtype
    torch.testing.assert_close(ours, theirs, rtol=2e-5, atol=2e-5, equal_nan=True)
    if right.isfinite().all():
        assert (ours - right).abs().max() <= 2 * (theirs - right).abs().max() + 1e-6 * right.abs().max()


def made(batch: int, heads: int, rows: int, width: int, layout: str = "projected") -> Tensor:
    match layout:
        case "projected":
            return torch.randn(batch, rows, heads, width).transpose(1, 2)
        case "part":  # of one product for queries, keys and values
            parts = torch.randn(batch, rows, 3 * heads * width).split(heads * width, 2)
            return parts[1].unflatten(-1, (heads, width)).transpose(1, 2)
        case "shared":
            return torch.randn(batch, 1, rows, width).expand(batch, heads, rows, width)
    return torch.randn(batch, heads, rows, width)


SHAPES = [  # batch, heads, queries, keys, width
    (2, 3, 64, 64, 16),
    (1, 2, 33, 130, 64),
    (1, 1, 16, 1, 8),
    (2, 1, 50, 7, 40),
    (1, 2, 100, 300, 80),
]


@pytest.mark.parametrize("shape", SHAPES)
def test_shapes_and_layouts(shape: tuple[int, ...]) -> None:
    batch, heads, rows, keys, width = shape
    layouts = ("projected", "part", "shared", "contiguous")
    for number, layout in enumerate(layouts):
        q = made(batch, heads, rows, width, layouts[number - 1])
        check(attention, q, *(made(batch, heads, keys, width, layout) for _ in range(2)))


@pytest.mark.parametrize("shape", SHAPES)
def test_causal(shape: tuple[int, ...]) -> None:
    batch, heads, rows, keys, width = shape
    check(causal, *(made(batch, heads, n, width) for n in (rows, keys, keys)))


@pytest.mark.parametrize("shape", SHAPES)
def test_masks(shape: tuple[int, ...]) -> None:
    batch, heads, rows, keys, width = shape
    q, k, v = (made(batch, heads, n, width) for n in (rows, keys, keys))
    masks = [
        torch.randn(rows, keys),
        torch.randn(batch, 1, 1, keys) > -1,
        torch.randn(1, heads, rows, keys),
        torch.randn(batch, heads, rows, keys) > 0,
        torch.ones(rows, keys, dtype=torch.bool).tril().triu(-9),
        torch.where(torch.randn(rows, 1) > 0, -inf, torch.randn(rows, keys)),
        torch.randn(keys, rows).t(),
    ]
    for mask in masks:
        check(attention, q, k, v, mask)


@pytest.mark.parametrize("scale", [1.0, 0.3, 0.0, -0.5])
def test_scales(scale: float) -> None:
    q, k, v = (made(1, 2, 40, 24) for _ in range(3))
    check(lambda q, k, v: F.scaled_dot_product_attention(q, k, v, scale=scale), q, k, v)
    ours, left = compiled(lambda q, k, v: F.scaled_dot_product_attention(q, k, v, scale=scale, is_causal=True), q, k, v)
    theirs = F.scaled_dot_product_attention(q, k, v, scale=scale, is_causal=True)
    assert bool(left) == (scale <= 0)  # torch masks before it scales
    torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-5, equal_nan=True)


@pytest.mark.parametrize("value", [inf, -inf, nan, 1e12, 1e30])
def test_special_values(value: float) -> None:
    mask = torch.randn(1, 1, 20, 45)
    mask[..., 3] = -inf
    for which, keys in product(range(3), (1, 20, 44)):
        given = [made(1, 2, n, 16) for n in (20, 45, 45)]
        given[which][0, 1, min(keys, given[which].shape[2] - 1), 3] = value
        check(attention, *given)
        check(attention, *given, mask)


def test_many_queries_have_their_keys_laid_side_by_side() -> None:
    q, k, v = (made(1, 2, n, 16, "part") for n in (800, 70, 70))
    check(attention, q, k, v)
    check(causal, q, k, v)


def test_what_is_computed_around_it() -> None:
    def block(x: Tensor, w: Tensor, padding: Tensor) -> Tensor:
        q, k, v = (part.unflatten(-1, (3, 16)).transpose(1, 2) for part in (x @ w).split(48, 2))
        mask = torch.where(padding[:, None, None, :], -inf, 0.0)
        return (F.scaled_dot_product_attention(q, k, v * 2, attn_mask=mask).transpose(1, 2).flatten(2) + x).relu()

    x, w = torch.randn(2, 37, 48), torch.randn(48, 144) / 7
    padding = torch.arange(37) > torch.tensor([[30], [20]])
    ours, left = compiled(block, x, w, padding)
    assert not any("attention" in name for name in left)
    torch.testing.assert_close(ours, block(x, w, padding), rtol=1e-4, atol=1e-4)


def test_sizes_that_change() -> None:
    left: set[str] = set()
    stop = EVENTS.subscribe(lambda event: left.add(event.operator) if isinstance(event, ev.OperatorFellBack) else None)
    step = onegraph.compile(attention, fullgraph=True, options=OPTIONS)
    plain = onegraph.compile(causal, fullgraph=True, options=OPTIONS)
    with torch.no_grad():
        for rows, keys in ((20, 30), (33, 65), (64, 64), (100, 3), (31, 300)):
            q, k, v = (made(2, 3, n, 16) for n in (rows, keys, keys))
            torch.testing.assert_close(plain(q, k, v), causal(q, k, v), rtol=1e-5, atol=1e-5)
            for mask in (None, torch.randn(rows, keys)):
                torch.testing.assert_close(step(q, k, v, mask), attention(q, k, v, mask), rtol=1e-5, atol=1e-5)
    stop()
    onegraph.reset()
    assert not left


def test_what_is_left_to_torch() -> None:
    q, k, v = (made(1, 2, 20, 16) for _ in range(3))
    assert compiled(attention, q, k, v, library_calls="aten")[1]
    assert compiled(attention, *(x.bfloat16() for x in (q, k, v)))[1]
    assert compiled(attention, *(made(1, 1, 20, 512) for _ in range(3)))[1]
    ours, left = compiled(attention, q, k, v, skipped_lowerings=["aten.scaled_dot_product_attention"])
    assert left == {"aten.scaled_dot_product_attention.default"}
    torch.testing.assert_close(ours, attention(q, k, v))


def test_accesses_are_in_bounds() -> None:
    for rows, keys in ((16, 5), (33, 70), (40, 64)):
        q, k, v = (made(1, 2, n, 24) for n in (rows, keys, keys))
        check(attention, q, k, v, torch.randn(rows, keys), sanitize=True)
        check(causal, q, k, v, sanitize=True)


def test_the_faster_one_is_measured() -> None:
    q, k, v = (made(1, 4, 128, 64) for _ in range(3))
    for function in (attention, causal):
        ours, _ = compiled(function, q, k, v, library_calls="measured", verify=False)
        torch.testing.assert_close(ours, function(q, k, v), rtol=1e-5, atol=1e-5)


def test_random_programs() -> None:
    rnd = random.Random(0)
    for _ in range(6):
        batch, heads, width = rnd.choice((1, 2)), rnd.choice((1, 3)), rnd.choice((4, 17, 32, 96))
        rows, keys = rnd.randint(16, 200), rnd.randint(1, 200)
        q, k, v = (made(batch, heads, n, width, rnd.choice(("projected", "part"))) for n in (rows, keys, keys))
        check(attention, q, k, v, rnd.choice((None, torch.randn(rows, keys), torch.randn(1, keys) > 0)))


def test_one_head_of_symbolic_sizes() -> None:
    """torch's kernel, where the width is a symbol, too: its arguments are part of one product."""
    q, k = made(2, 1, 32, 64), made(2, 1, 32, 64, "part")
    ours, left = compiled(lambda q, k: attention(q, k, k), q, k, dynamic=True)
    assert left
    torch.testing.assert_close(ours, attention(q, k, k))
