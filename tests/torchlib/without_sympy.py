"""Runs common operators on fakes where importing sympy, or distributed tensors, is an error."""

from __future__ import annotations

import sys
from typing import Any

import torch
import torch.nn.functional as F

import onegraph
from onegraph.torchlib.fake import FakeMode


class Refuse:
    """An import hook."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> None:
        if name.split(".")[0] == "sympy" or name.startswith("torch.distributed.tensor"):
            raise RuntimeError(f"{name} is imported")


def main() -> None:
    sys.meta_path.insert(0, Refuse())
    mode = FakeMode()
    x, y = mode.fakeify(torch.randn(4, 4)), mode.fakeify(torch.randn(4, 4))
    mean, variance = mode.fakeify(torch.zeros(4)), mode.fakeify(torch.ones(4))
    rows = mode.fakeify(torch.tensor([0, 1]))
    with mode:
        x + 1
        x * y
        x / 2
        x**2
        x - y.t()
        x.gt(0)
        x.exp()
        F.gelu(x)
        F.silu(x)
        F.relu(x)
        x.clamp(min=0)
        torch.where(x > 0, x, y)
        x @ y
        F.linear(x, y, y[0])
        x[None] @ y[None]
        torch.cat([x, y])
        F.softmax(x, -1)
        F.log_softmax(x, -1)
        F.layer_norm(x, (4,))
        F.rms_norm(x, (4,))
        F.embedding(rows, x)
        x.sum(0)
        x.mean(-1, keepdim=True)
        x.amax(0)
        x.view(-1)
        x[None].expand(2, -1, -1)
        x[1:, ::2]
        x.split(2)
        x.permute(1, 0).clone()
        x.to(torch.float64)
        x.repeat(2, 1)
        torch.stack([x, y])
        x.flip(0).roll(1, 0).tril()
        x.gather(1, x.argmax(1, keepdim=True))
        x.scatter(0, (x > 0).long(), y)
        x[rows], x.index_select(0, rows)
        x.index_put((rows,), y[0])
        x.cumsum(0), x.sort(), x.topk(2), x.max(0), x.any(), x.all(1)
        x.var(0), x.std(1), x.logsumexp(0), x.norm(dim=1)
        x.add_(y).mul_(2).clamp_(0)
        F.cross_entropy(x, rows.repeat(2)), F.mse_loss(x, y), F.binary_cross_entropy_with_logits(x, y)
        image, weight = x.view(1, 4, 2, 2), y.view(4, 4, 1, 1)
        F.conv2d(image, weight, x[0], padding=1)
        F.conv_transpose2d(image, weight)
        F.conv1d(x.view(1, 4, 4), y.view(4, 4, 1))
        F.batch_norm(image, mean, variance)
        F.batch_norm(image, mean, variance, training=True)
        F.group_norm(image, 2)
        F.max_pool2d(image, 2)
        F.avg_pool2d(image, 2)
        F.adaptive_avg_pool2d(image, 1)
        F.interpolate(image, scale_factor=2)
        F.interpolate(image, scale_factor=2, mode="bilinear")
        F.pad(image, (1, 1))
        F.hardswish(image), F.prelu(image, x[0])
        F.scaled_dot_product_attention(image, image, image)
        torch.zeros(3)
        torch.full((2,), 1.0)


def train() -> None:
    """A step of training, with a copy of random numbers, compiled."""
    embedding, layer = torch.nn.Embedding(8, 16), torch.nn.TransformerEncoderLayer(16, 2, 32, activation=F.silu)
    rows, wanted = torch.randint(8, (4, 3)), torch.randint(16, (12,))

    def step(rows: torch.Tensor) -> torch.Tensor:
        return F.cross_entropy(F.gelu(layer(embedding(rows))).flatten(0, 1), wanted)

    onegraph.compile(step, options={"cache": False, "raise_compiler_errors": True})(rows).backward()


main()
train()
