"""Tensors without memory, which lie under fakes.

C++ refuses to read the memory of a tensor that has elements and no memory. It counts them in a field of the tensor that
sizes which are symbols never set (`numel_` in c10/core/TensorImpl.h): where that is 0, as in a new tensor, functions
that look into an argument before they call any operator (`torch.gru` into `batch_sizes`) read from address 0. So a
tensor gets symbolic sizes only after it had one element.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from onegraph.torchlib.private import DisableTorchDispatch
from onegraph.torchlib.shapes import Sizes

_INTEGERS = frozenset({torch.int64, torch.int32})


def laid_over(
    storage: torch.UntypedStorage, dtype: torch.dtype, offset: Any, size: Sequence[Any], stride: Sequence[Any]
) -> Tensor:
    """A tensor over this memory, which is on the device `meta`; sizes, strides and offset may be symbols."""
    return torch.empty(1, dtype=dtype, device="meta").set_(storage, offset, size, stride)


def unreadable(elem: Tensor, sizes: Sizes) -> Tensor:
    """The same tensor as one that C++ refuses to read, if it is a list of integers of symbolic length: there are no
    functions that look into others, and fakes are made by the thousand.

    Nothing is asked of its layout, as C++ would keep the answers.
    """
    if elem.dtype not in _INTEGERS or elem.dim() != 1 or not elem._has_symbolic_sizes_strides:
        return elem
    storage = elem.untyped_storage()
    length = storage.nbytes()
    if isinstance(length, int) and length < elem.element_size():
        return elem
    with DisableTorchDispatch(), sizes.trusted():
        one = laid_over(storage, elem.dtype, 0, (1,), (1,))
        return one.as_strided_(elem.shape, elem.stride(), elem.storage_offset())
