"""The filters of convolutions as libraries and kernels of ours want them: packed, or in panels; and what is added.

All are made of constants, and kept. Where a normalization follows, its factor is part of the filters.
"""

from __future__ import annotations

import torch
from torch import Tensor

from onegraph.compiler.library.convolution_tiles import filter_panels
from onegraph.compiler.library.facts import multiplied_in
from onegraph.compiler.library.window import Window

mkldnn = torch.ops.mkldnn


def packed_weight(weight: Tensor, window: Window, image: tuple[int, ...] | None) -> Tensor:
    """The filters as oneDNN wants them for images of this size with channels last; see `Convolution.packed_for`."""
    last = weight.to(multiplied_in(weight.dtype), memory_format=torch.channels_last)
    if image is None:
        filters: Tensor = mkldnn._reorder_linear_weight(last.flatten(1)) if window.multiplies_pixels else last
        return filters
    packed: Tensor = mkldnn._reorder_convolution_weight(last, *window.arguments(), list(image))
    return packed


def folded_weight(
    weight: Tensor, gamma: Tensor | None, var: Tensor, eps: float, window: Window, image: tuple[int, ...] | None
) -> Tensor:
    """The filters with the factor of the normalization, packed."""
    return packed_weight(_scaled(weight, gamma, var, eps), window, image)


def folded_panels(weight: Tensor, gamma: Tensor | None, var: Tensor, eps: float, width: int) -> Tensor:
    """The filters with the factor of the normalization, as panels."""
    return filter_panels(_scaled(weight, gamma, var, eps), width)


def folded_bias(
    bias: Tensor | None, gamma: Tensor | None, beta: Tensor | None, mean: Tensor, var: Tensor, eps: float, dtype: str
) -> Tensor:
    """What the normalization adds, with the convolution's own bias."""
    shift = mean.double().neg() if bias is None else bias.double() - mean.double()
    shift = shift * _factor(gamma, var, eps)
    return (shift if beta is None else shift + beta.double()).to(getattr(torch, dtype))


def _scaled(weight: Tensor, gamma: Tensor | None, var: Tensor, eps: float) -> Tensor:
    """The filters with the factor of the normalization: in float64, rounded once."""
    factor = _factor(gamma, var, eps).view(-1, *[1] * (weight.dim() - 1))
    scaled = torch.empty(weight.shape, dtype=multiplied_in(weight.dtype), memory_format=torch.channels_last)
    return torch.mul(weight, factor, out=scaled)


def _factor(gamma: Tensor | None, var: Tensor, eps: float) -> Tensor:
    factor = (var.double() + eps).rsqrt()
    return factor if gamma is None else factor * gamma.double()
