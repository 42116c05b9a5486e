"""Runs some hundred operators on fakes, static and symbolic, and prints which stock modules were imported by that."""

from __future__ import annotations

import sys

import torch
import torch.nn.functional as F
from torch import Tensor

from onegraph.torchlib.fake import FakeMode

STOCK = ("torch._dynamo", "torch._inductor", "torch.export._trace", "torch._functorch.aot_autograd")
UNARY = """
    abs acos asin atan ceil cos cosh erf erfc exp exp2 expm1 floor frac isfinite isinf isnan lgamma log log10
    log1p log2 logit neg positive reciprocal relu round rsqrt sigmoid sign sin sinh sqrt square tan tanh trunc
    i0 digamma erfinv amax amin all any argmax argmin count_nonzero max mean median min prod std sum var sort
    argsort tril triu diagonal t clone contiguous
""".split()
BINARY = """
    add sub mul div fmod remainder floor_divide pow maximum minimum atan2 eq ne lt le gt ge logical_and
    logical_or copysign hypot logaddexp xlogy fmax fmin matmul mm
""".split()


def programs(x: Tensor, y: Tensor) -> None:
    for name in UNARY:
        getattr(x, name)()
    for name in BINARY:
        getattr(torch, name)(x, y)
    x.cumsum(0), x.cumprod(0), x.logsumexp(0), x.topk(2), x.flip(0), x.roll(1), x.norm(), x.softmax(0)
    n = x.shape[0]
    F.softmax(x, -1)
    F.log_softmax(x, 0)
    F.gelu(x)
    F.silu(x)
    F.layer_norm(x, x.shape[-1:])
    F.rms_norm(x, x.shape[-1:])
    F.linear(x, y)
    F.embedding(torch.arange(n), y)
    F.dropout(x)
    F.cross_entropy(x, torch.arange(n))
    F.mse_loss(x, y)
    F.scaled_dot_product_attention(x[None, None], y[None, None], y[None, None])
    F.conv2d(x[None, None], torch.ones(3, 1, 3, 3), padding=1)
    F.max_pool2d(x[None], 2)
    F.avg_pool2d(x[None], 2)
    F.group_norm(x[None], 1)
    F.pad(x, (1, 1))
    F.one_hot(torch.tensor([1, 2]), 4)
    F.interpolate(x[None, None], scale_factor=2)
    torch.cat([x, y])
    torch.stack([x, y])
    torch.where(x > 0, x, y)
    torch.einsum("ij,kj->ik", x, y)
    torch.outer(x[0], y[0])
    x.view(-1)
    x.reshape(-1)
    x[1:, None]
    x[:, torch.tensor([0, 1])]
    x.masked_fill(x > 0, 1.0)
    x.expand(2, -1, -1)
    x.gather(1, torch.zeros_like(x, dtype=torch.long))
    x.index_select(0, torch.tensor([0]))
    x.repeat(2, 2)
    x.unbind(0)
    x.clone().index_add_(0, torch.tensor([0]), y[:1])
    x.clone().scatter_(0, torch.zeros(1, 2, dtype=torch.long), y)
    x.to(torch.bfloat16)
    x.double()
    x.chunk(2)
    x.split(1)
    x.unfold(0, 2, 1)
    x.clone().zero_()
    x.clone().normal_()
    torch.linalg.inv(x)
    torch.linalg.svd(x)
    torch.fft.fft(x)
    torch.tensor([1.0, 2.0]).sum().item()
    torch.full((n, n), 2.0)
    torch.arange(n)
    torch.eye(3)
    torch.randn(n)


def main() -> None:
    mode = FakeMode()
    x, y = torch.randn(4, 4), torch.randn(4, 4)
    with mode:
        programs(mode.fakeify(x), mode.fakeify(y))
    mode = FakeMode()
    a, b = (mode.sizes.new(4, name) for name in "ab")
    with mode:
        symbolic = mode.fakeify(x, {0: a}), mode.fakeify(y, {0: b})
        F.softmax((symbolic[0] + symbolic[1]).view(-1), 0)
        F.layer_norm(symbolic[0], (4,)) @ symbolic[1].t()
    print(" ".join(name for name in STOCK if name in sys.modules))


main()
