"""Convolutions on fakes: their sizes, and the order in memory that the library chooses which the real operator calls.

torch's own implementation for fakes imports sympy to ask whether the sizes are symbols. Which library is called depends
on the sizes; the order that it chooses for images does not (see `_conv_determine_backend_memory_format` in aten's
Convolution.cpp), so that of symbolic sizes nothing is asked but whether they are those of a convolution.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import torch
from torch import Tensor

from onegraph.torchlib import private
from onegraph.torchlib.layouts.registry import each, in_format
from onegraph.torchlib.overlaps import hint_of
from onegraph.torchlib.private import CONVOLUTIONS, FakeTensor, FakeTensorMode, OpOverload

FUNC = torch.ops.aten.convolution.default
BACKWARD = torch.ops.aten.convolution_backward.default


def convolution(mode: FakeTensorMode, args: Any, kwargs: Any) -> Tensor | None:
    """The result of the operator as a meta tensor, or None where its sizes are not those of a convolution.

    With symbolic sizes also where it is one of volumes: there, the library decides about the order.

    Raises:
        RuntimeError: if the input and the weight have different types, as the real operator does.
    """
    given = arguments_of(FUNC, args, kwargs)
    x, weight = given["input"], given["weight"]
    if x.dtype != weight.dtype and not x.is_mkldnn:
        raise RuntimeError(f"Input type ({x.dtype}) and weight type ({weight.dtype}) should be the same")
    shape = _sizes(**given)
    if shape is None or not CONVOLUTIONS.is_there or (_is_symbolic(given) and weight.dim() > 4):
        return None
    return _made(shape, _format(mode, given), x.dtype)


def convolution_backward(mode: FakeTensorMode, args: Any, kwargs: Any) -> list[Tensor | None] | None:
    """The gradients of input, weight and bias, of symbolic sizes, or None where the library decides about the order."""
    given = arguments_of(BACKWARD, args, kwargs)
    grad, bias_sizes, asked = given.pop("grad_output"), given.pop("bias_sizes"), given.pop("output_mask")
    x, weight = given["input"], given["weight"]
    if weight.dim() > 4 or not CONVOLUTIONS.is_there:
        return None
    form = _format(mode, {**given, "bias": None}, bias_sizes)
    forms = ((x.shape, form), (weight.shape, form), (grad.shape[1:2], torch.contiguous_format))
    return [_made(*each, x.dtype) if wanted else None for each, wanted in zip(forms, asked, strict=True)]


def of_symbols(mode: FakeTensorMode, func: OpOverload, args: Any, kwargs: Any) -> Any:
    """The results as meta tensors, if this is such an operator and its results do not depend on a choice by sizes."""
    if func is FUNC:
        return convolution(mode, args, kwargs)
    return convolution_backward(mode, args, kwargs) if func is BACKWARD else None


def arguments_of(func: OpOverload, args: Any, kwargs: Any) -> dict[str, Any]:
    """The arguments of a call by their names. All are given: none of these operators has defaults."""
    given: dict[str, Any] = dict(zip(_names(func), args, strict=False)) | kwargs
    return given


@cache
def _names(func: OpOverload) -> list[str]:
    return [argument.name for argument in func._schema.arguments]


def _is_symbolic(value: Any) -> bool:
    values = value.values() if isinstance(value, dict) else (value,)
    return any(isinstance(each, Tensor) and each._has_symbolic_sizes_strides for each in values)


def _format(mode: FakeTensorMode, given: dict[str, Any], bias_sizes: Any = None) -> torch.memory_format:
    """The order in which the library works that is called, at the sizes which the program has at present."""
    given = {name: _example(mode, value) if _is_symbolic(value) else value for name, value in given.items()}
    x, weight = given["input"], given["weight"]
    with mode:  # so that fakes answer with the devices of what they stand for
        backend = CONVOLUTIONS.backend(**given, **({} if bias_sizes is None else {"bias_sizes": bias_sizes}))
        if weight.dim() == 3 and not x.is_mkldnn and not x.is_xpu:
            x, weight = x.contiguous().unsqueeze(2), weight.unsqueeze(2)
        form: torch.memory_format = CONVOLUTIONS.memory_format(x, weight, backend)
        return form


def _made(shape: Sequence[int], form: torch.memory_format, dtype: torch.dtype) -> Tensor:
    """A meta tensor in a memory format."""
    with private.DisableTorchDispatch():
        if len(shape) == 3 and form is torch.channels_last:  # rows, seen as images
            _, strides, _ = in_format((*shape[:2], 1, shape[2]), form, dtype)
            strides = (*strides[:2], strides[3])
        else:
            _, strides, _ = in_format(shape, form, dtype)
        return torch.empty_strided(shape, strides, dtype=dtype, device="meta")


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
    numbers: Any = [each(value, rank) for value in (stride, padding, dilation, output_padding)]
    if rank < 1 or input.dim() != weight.dim() or None in numbers or groups < 1 or not input.numel():
        return None
    inner, outer = weight.shape[1] * groups, weight.shape[0]
    if transposed:
        inner, outer = outer, inner
    fits = input.shape[1] == inner and not weight.shape[0] % groups and min(weight.shape) > 0
    if not fits or (bias is not None and (bias.shape != (outer,) or bias.dtype != weight.dtype)):
        return None
    sizes = [input.shape[0], outer]
    for n, k, step, pad, gap, extra in zip(input.shape[2:], weight.shape[2:], *numbers, strict=True):
        if step < 1 or pad < 0 or gap < 1 or extra < 0 or (transposed and extra >= max(step, gap)):
            return None
        reach = gap * (k - 1) + 1
        sizes.append((n - 1) * step - 2 * pad + reach + extra if transposed else (n + 2 * pad - reach) // step + 1)
    return sizes if all(n > 0 for n in sizes) else None


def _example(mode: FakeTensorMode, x: FakeTensor) -> FakeTensor:
    """A tensor of the sizes that the program has at present."""
    size, stride = ([hint_of(n) for n in numbers] for numbers in (x.shape, x.stride()))
    with private.DisableTorchDispatch():
        elem = torch.empty_strided(size, stride, dtype=x.dtype, device="meta")
    return FakeTensor(mode, elem, x.fake_device)
