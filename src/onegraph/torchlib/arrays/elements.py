"""The types of elements that arrays share with tensors."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

#: Those in which torch computes what NumPy does. Larger unsigned integers, texts, times, records are NumPy's alone.
TORCH_TYPES: dict[np.dtype[Any], torch.dtype] = {
    np.dtype(np.bool_): torch.bool,
    np.dtype(np.uint8): torch.uint8,
    np.dtype(np.int8): torch.int8,
    np.dtype(np.int16): torch.int16,
    np.dtype(np.int32): torch.int32,
    np.dtype(np.int64): torch.int64,
    np.dtype(np.float16): torch.float16,
    np.dtype(np.float32): torch.float32,
    np.dtype(np.float64): torch.float64,
    np.dtype(np.complex64): torch.complex64,
    np.dtype(np.complex128): torch.complex128,
}
#: Where arrays are, whatever device torch makes tensors on.
CPU = torch.device("cpu")
NUMPY_TYPES = {element: dtype for dtype, element in TORCH_TYPES.items()}


class Unsupported(NotImplementedError):
    """What cannot be said in terms of torch: NumPy does it."""


def torch_type(dtype: Any) -> torch.dtype:
    """The torch type of the elements that NumPy means by `dtype`: a type, a name or a `np.dtype`.

    Raises:
        Unsupported: torch has none.
    """
    if isinstance(dtype, torch.dtype) or dtype is None:
        raise Unsupported(f"dtype={dtype}")
    found = TORCH_TYPES.get(np.dtype(dtype))
    if found is None:
        raise Unsupported(f"elements of type {np.dtype(dtype)}")
    return found


def numpy_type(tensor: torch.Tensor) -> np.dtype[Any]:
    """The type of elements that an array has which stands for the tensor."""
    found = NUMPY_TYPES.get(tensor.dtype)
    if found is None:
        raise Unsupported(f"elements of type {tensor.dtype}")
    return found


def as_tensor(array: Any) -> torch.Tensor | None:
    """The tensor in the memory of an array; None if there can be none, or the array cannot be written to.

    A tensor does not know whether its memory may be written to, so those that may not are NumPy's alone, as are those
    whose elements do not lie where their type wants them.
    """
    if type(array) is not np.ndarray or array.dtype not in TORCH_TYPES or not array.flags.behaved:
        return None
    item = array.itemsize
    if any(stride < 0 or stride % item for stride in array.strides):
        return None
    return torch.from_numpy(array)


def as_array(tensor: torch.Tensor) -> np.ndarray[Any, Any]:
    """The array in the memory of a tensor."""
    if tensor.is_conj() or tensor.is_neg():
        tensor = tensor.resolve_conj().resolve_neg()
    return tensor.numpy()


def as_scalar(tensor: torch.Tensor) -> Any:
    """The number of NumPy's in a tensor of one element."""
    return as_array(tensor)[()]
