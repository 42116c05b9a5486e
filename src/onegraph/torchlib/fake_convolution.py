"""Convolutions on fakes: their sizes, and the order in memory that the library chooses which the real operator calls.

torch's own implementation for fakes imports sympy to ask whether the sizes are symbols. Here they are numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode

from onegraph.torchlib.layouts.registry import each, in_format

FUNC = torch.ops.aten.convolution.default
_NAMES = [argument.name for argument in FUNC._schema.arguments]


def convolution(mode: FakeTensorMode, args: Any, kwargs: Any) -> Tensor | None:
    """The result of the operator as a meta tensor, or None where its sizes are not those of a convolution.

    Raises:
        RuntimeError: if the input and the weight have different types, as the real operator does.
    """
    given = dict(zip(_NAMES, args, strict=False)) | kwargs
    x, weight = given["input"], given["weight"]
    if x.dtype != weight.dtype and not x.is_mkldnn:
        raise RuntimeError(f"Input type ({x.dtype}) and weight type ({weight.dtype}) should be the same")
    shape = _sizes(**given)
    if shape is None:
        return None
    with mode:  # so that fakes answer with the devices of what they stand for
        backend = torch._C._select_conv_backend(**given)
        if weight.dim() == 3 and not x.is_mkldnn and not x.is_xpu:
            x, weight = x.contiguous().unsqueeze(2), weight.unsqueeze(2)
        form = torch._C._conv_determine_backend_memory_format(x, weight, backend)
    with torch._C._DisableTorchDispatch():
        if len(shape) == 3 and form is torch.channels_last:  # rows, seen as images
            _, strides, _ = in_format((*shape[:2], 1, shape[2]), form, given["input"].dtype)
            strides = (*strides[:2], strides[3])
        else:
            _, strides, _ = in_format(shape, form, given["input"].dtype)
        return torch.empty_strided(shape, strides, dtype=given["input"].dtype, device="meta")


def _sizes(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    transposed: bool,
    output_padding: Sequence[int],
    groups: int,
) -> list[int] | None:
    """torch.nn.Conv2d and ConvTranspose2d document the formulas."""
    rank = weight.dim() - 2
    numbers = [each(value, rank) for value in (stride, padding, dilation, output_padding)]
    if rank < 1 or input.dim() != weight.dim() or None in numbers or groups < 1 or not input.numel():
        return None
    inner, outer = weight.shape[1] * groups, weight.shape[0]
    if transposed:
        inner, outer = outer, inner
    fits = input.shape[1] == inner and not weight.shape[0] % groups and min(weight.shape) > 0
    if not fits or (bias is not None and (bias.shape != (outer,) or bias.dtype != weight.dtype)):
        return None
    sizes = [input.shape[0], outer]
    for n, k, step, pad, gap, extra in zip(input.shape[2:], weight.shape[2:], *numbers, strict=True):  # type: ignore[arg-type]
        if step < 1 or pad < 0 or gap < 1 or extra < 0 or (transposed and extra >= max(step, gap)):
            return None
        reach = gap * (k - 1) + 1
        sizes.append((n - 1) * step - 2 * pad + reach + extra if transposed else (n + 2 * pad - reach) // step + 1)
    return sizes if min(sizes) > 0 else None
