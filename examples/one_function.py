"""The function of docs/one_function.md."""

import torch

EPSILON = 1e-6


def normalize(x, weight):
    centered = x - x.mean(-1, keepdim=True)
    variance = centered.square().mean(-1, keepdim=True)
    return centered * (variance + EPSILON).rsqrt() * weight


def normalize_inputs():
    return torch.randn(64, 48), torch.randn(48)
