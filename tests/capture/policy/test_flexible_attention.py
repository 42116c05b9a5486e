"""`flex_attention` in graphs: one graph with the values of eager mode."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn.attention.flex_attention import create_block_mask, flex_attention
from torch.nn.functional import scaled_dot_product_attention

import onegraph
from onegraph.torchlib.flexible_attention import attention
from tests.autograd.test_optimizers import Seen

torch.manual_seed(0)
B, H, Q, E = 2, 4, 32, 16
SLOPES, BIAS, DOCUMENTS = torch.randn(H), torch.randn(H, Q), torch.arange(Q) // 8

Program = Callable[[Tensor, Tensor, Tensor], Any]


def causal(b: Tensor, h: Tensor, q: Tensor, k: Tensor) -> Tensor:
    return q >= k


def of_documents(b: Tensor, h: Tensor, q: Tensor, k: Tensor) -> Tensor:
    return (DOCUMENTS[q] == DOCUMENTS[k]) & (q >= k)


def alibi(score: Tensor, b: Tensor, h: Tensor, q: Tensor, k: Tensor) -> Tensor:
    return score + SLOPES[h] * (q - k)


def biased(score: Tensor, b: Tensor, h: Tensor, q: Tensor, k: Tensor) -> Tensor:
    return score + BIAS[h][k]


def capped(score: Tensor, b: Tensor, h: Tensor, q: Tensor, k: Tensor) -> Tensor:
    return torch.tanh(score / 20) * 20


def mask(function: Callable[..., Tensor], batch: int | None = None) -> Any:
    return create_block_mask(function, batch, None, Q, Q, device="cpu", BLOCK_SIZE=16)


CAUSAL, EACH_CAUSAL, OF_DOCUMENTS = mask(causal), mask(causal, B), mask(of_documents)


def in_other_order(x: Tensor) -> Tensor:
    return x.transpose(1, 2).contiguous().transpose(1, 2)


PROGRAMS: dict[str, Program] = {
    "plain": lambda q, k, v: flex_attention(q, k, v),
    "scores by places": lambda q, k, v: flex_attention(q, k, v, score_mod=alibi),
    "items of items": lambda q, k, v: flex_attention(q, k, v, score_mod=biased),
    "causal": lambda q, k, v: flex_attention(q, k, v, block_mask=CAUSAL, scale=0.3),
    "documents": lambda q, k, v: flex_attention(q, k, v, score_mod=capped, block_mask=OF_DOCUMENTS),
    "groups": lambda q, k, v: flex_attention(q, k[:, :2], v[:, :2], block_mask=CAUSAL, enable_gqa=True),
    "sums": lambda q, k, v: flex_attention(q, k, v, block_mask=CAUSAL, return_lse=True),
    "other order": lambda q, k, v: flex_attention(in_other_order(q), k, v, block_mask=CAUSAL),
    "half precision": lambda q, k, v: flex_attention(q.bfloat16(), k.bfloat16(), v.bfloat16()),
    "one batch of keys": lambda q, k, v: flex_attention(q, k[:1], v[:1], block_mask=EACH_CAUSAL),
    "mask made inside": lambda q, k, v: flex_attention(q, k, v, block_mask=mask(causal)),
}


def given(recorded: bool = False) -> list[Tensor]:
    return [torch.randn(B, H, Q, E).requires_grad_(recorded) for _ in range(3)]


@pytest.mark.filterwarnings("ignore:flex_attention called without")
@pytest.mark.filterwarnings("ignore:return_lse is deprecated")
@pytest.mark.parametrize("dynamic", [None, True], ids=["static", "dynamic"])
@pytest.mark.parametrize("backend", ["eager", "native"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_one_graph(name: str, backend: str, dynamic: bool | None) -> None:
    inputs, program = given(), PROGRAMS[name]
    with Seen() as seen:
        ours = onegraph.compile(program, backend=backend, fullgraph=True, dynamic=dynamic)(*inputs)
    theirs = program(*inputs)
    assert not any("operator by operator" in text for text in seen.fallbacks)
    for one, other in zip(*(r if isinstance(r, tuple) else (r,) for r in (ours, theirs)), strict=True):
        torch.testing.assert_close(one, other)
        assert one.stride() == other.stride()


def test_gradients() -> None:
    """Those of attention with the same mask and bias. (On CPUs, the public function refuses to record them.)"""

    def reference(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        allowed = torch.ones(Q, Q, dtype=torch.bool).tril()
        return scaled_dot_product_attention(q, k, v, BIAS[:, None, :].masked_fill(~allowed, -torch.inf))

    def program(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return attention(q, k, v, biased, (causal,), E**-0.5, {})[0]

    inputs = given(recorded=True)
    with Seen() as seen:
        result = onegraph.compile(program, fullgraph=True, options={"smallest_recorded_graph": 0})(*inputs)
        tangent = torch.randn_like(result)
        ours = torch.autograd.grad(result, inputs, tangent)
    assert not any("operator by operator" in text for text in seen.fallbacks)
    torch.testing.assert_close(ours, torch.autograd.grad(reference(*inputs), inputs, tangent))
