"""Compiles small models of several kinds where importing sympy, or distributed tensors, is an error."""

from __future__ import annotations

import sys
from typing import Any

import torch
from torch import nn

import onegraph


class Refuse:
    """An import hook."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> None:
        if name.split(".")[0] == "sympy" or name.startswith("torch.distributed.tensor"):
            raise SystemExit(f"{name} is imported")


def images() -> tuple[nn.Module, torch.Tensor]:
    layers = [nn.Conv2d(3, 8, 3, padding=1, bias=False), nn.BatchNorm2d(8), nn.Hardswish(), nn.MaxPool2d(2)]
    layers += [
        nn.Conv2d(8, 8, 1),
        nn.GroupNorm(2, 8),
        nn.SiLU(),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(8, 4),
    ]
    return nn.Sequential(*layers), torch.randn(2, 3, 16, 16)


def sequences() -> tuple[nn.Module, torch.Tensor]:
    layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)
    return nn.Sequential(layer, nn.LayerNorm(16), nn.Linear(16, 8), nn.Softmax(-1)), torch.randn(2, 5, 16)


def main() -> None:
    sys.meta_path.insert(0, Refuse())
    for make in (images, sequences):
        model, x = make()
        model.eval().requires_grad_(False)
        assert torch.allclose(onegraph.compile(model, fullgraph=True)(x), model(x), rtol=1e-4, atol=1e-5)


main()
