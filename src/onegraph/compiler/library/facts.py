"""What must be known of fake tensors before a library may be given what they stand for.

Nothing here asks anything of symbolic sizes that would become a guard: what is best for those that the program has at
present is taken for all, and right for any.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from onegraph.compiler.lower.arguments import step_of
from onegraph.ir.index import Index
from onegraph.torchlib.onednn import multiplies
from onegraph.torchlib.strides import is_certainly_dense


def present_shape(value: Tensor) -> tuple[int, ...] | None:
    """The sizes that the program has at present, if all are known and none is zero."""
    sizes = tuple(size if type(size) is int else _present(size) for size in value.shape)
    return sizes if all(size > 0 for size in sizes) else None


def _present(size: Any) -> int:
    return int(size.node.hint) if size.node.has_hint() else 0


def is_static(value: Tensor) -> bool:
    """Whether all sizes and strides are the same in every call."""
    return all(type(number) is int for number in (*value.shape, *value.stride()))


def strides_of(value: Tensor) -> tuple[Index, ...]:
    return tuple(map(step_of, value.stride()))


def is_ordinary(value: Tensor, dtypes: Sequence[torch.dtype]) -> bool:
    """Whether it is a strided tensor on the CPU of one of the element types."""
    return value.layout is torch.strided and value.device.type == "cpu" and value.dtype in dtypes


def fills_memory(value: Tensor) -> bool:
    """Whether the elements fill a block of memory, in some order of the dimensions."""
    return is_certainly_dense(value)


def multiplied_in(dtype: torch.dtype) -> torch.dtype:
    """The element type in which oneDNN is to multiply: float32, if this processor has no instructions for the type."""
    return dtype if multiplies(dtype) else torch.float32
