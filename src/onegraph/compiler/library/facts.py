"""What must be known of fake tensors before a library may be given what they stand for."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from onegraph.torchlib.onednn import multiplies
from onegraph.torchlib.strides import is_dense


def static_shape(value: Tensor) -> tuple[int, ...] | None:
    """The sizes, if all are known and none is zero."""
    sizes = tuple(value.shape)
    return sizes if all(type(size) is int and size > 0 for size in sizes) else None


def is_ordinary(value: Tensor, dtypes: Sequence[torch.dtype]) -> bool:
    """Whether it is a strided tensor on the CPU of one of the element types."""
    return value.layout is torch.strided and value.device.type == "cpu" and value.dtype in dtypes


def fills_memory(value: Tensor) -> bool:
    """Whether the elements fill a block of memory, in some order of the dimensions."""
    return is_dense(value.shape, value.stride())


def multiplied_in(dtype: torch.dtype) -> torch.dtype:
    """The element type in which oneDNN is to multiply: float32, if this processor has no instructions for the type."""
    return dtype if multiplies(dtype) else torch.float32
