"""A convolution with its filters in panels, as an operator of its own: what kernels run in tiles.

As a graph of aten's operators it would be a dozen: the image with zeros around it, windows, products, their sum. What
is called where the operator is left to a library puts the filters together again.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from onegraph.torchlib.aten import define

_SCHEMA = (
    "tiled_convolution(Tensor x, Tensor panels, Tensor? bias, int[] filters, int[] padding, int[] stride,"
    " int[] dilation, int groups) -> Tensor"
)


def run(
    x: Tensor,
    panels: Tensor,
    bias: Tensor | None,
    filters: Sequence[int],
    padding: Sequence[int],
    stride: Sequence[int],
    dilation: Sequence[int],
    groups: int,
) -> Tensor:
    """`filters` are their sizes: output channels, input channels of a group, rows, columns."""
    outputs, inputs, *size = filters
    if groups > 1:
        weight = panels.permute(2, 0, 1)[:, None]
    else:
        rows = panels.transpose(0, 1).reshape(*size, inputs, -1)[..., :outputs]
        weight = rows.permute(3, 2, 0, 1)
    made = torch.conv2d(x, weight, bias, tuple(stride), tuple(padding), tuple(dilation), groups)
    return made.contiguous(memory_format=torch.channels_last)


def run_on_fakes(x: Tensor, panels: Tensor, bias: Tensor | None, filters: Sequence[int], *window: object) -> Tensor:
    weight = x.new_empty(tuple(filters))
    padding, stride, dilation, groups = window
    made = torch.conv2d(x, weight, bias, stride, padding, dilation, groups)  # type: ignore[call-overload]
    return torch.empty_like(made, memory_format=torch.channels_last)


define(_SCHEMA, CPU=run, Meta=run_on_fakes)
TILED = torch.ops.onegraph.tiled_convolution.default
