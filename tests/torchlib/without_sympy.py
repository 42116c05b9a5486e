"""Runs common operators on fakes where importing sympy is an error."""

from __future__ import annotations

import sys
from typing import Any

import torch
import torch.nn.functional as F

from onegraph.torchlib.fake import FakeMode


class Refuse:
    """An import hook that refuses sympy."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> None:
        if name.split(".")[0] == "sympy":
            raise RuntimeError("sympy is imported")


def main() -> None:
    sys.meta_path.insert(0, Refuse())
    mode = FakeMode()
    x, y = mode.fakeify(torch.randn(4, 4)), mode.fakeify(torch.randn(4, 4))
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
        torch.zeros(3)
        torch.full((2,), 1.0)


main()
