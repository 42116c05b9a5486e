"""How torch lays out the result of an element-wise operator. Sizes are numbers, but for `certain_broadcast`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from onegraph.torchlib.strides import contiguous, filled, is_certainly_equal, is_dense


def broadcast(shapes: Sequence[Sequence[int]], rank: int) -> tuple[int, ...] | None:
    found = [1] * rank
    for shape in shapes:
        for dim, size in enumerate(shape, rank - len(shape)):
            if size != 1 and found[dim] not in (1, size):
                return None
            found[dim] = found[dim] if size == 1 else size
    return tuple(found)


def certain_broadcast(shapes: Sequence[Sequence[Any]]) -> list[Any] | None:
    """The common shape, if no size has to be asked whether it is 1; whether two are equal is asked if they are now."""
    rank = max(map(len, shapes))
    found: list[Any] = [1] * rank
    for shape in shapes:
        for dim, size in enumerate(shape, rank - len(shape)):
            if is_certainly_equal(size, 1) or is_certainly_equal(size, found[dim]):
                continue
            if is_certainly_equal(found[dim], 1):
                found[dim] = size
            elif not are_now_equal(found[dim], size):
                return None
    return found


def are_now_equal(a: Any, b: Any) -> bool:
    """Whether two sizes that are symbols are equal in this trace, and then in every call of it."""
    symbols = isinstance(a, torch.SymInt) and isinstance(b, torch.SymInt)
    return symbols and a.node.has_hint() and b.node.has_hint() and a.node.hint == b.node.hint and bool(a == b)


def iterator_strides(shape: Sequence[int], tensors: Sequence[Tensor], with_numbers: bool) -> Sequence[int]:
    """The strides that torch's iterator over these operands gives to its result."""
    if not with_numbers and all(tensor.shape == shape for tensor in tensors):
        if all(tensor.is_contiguous() for tensor in tensors):
            return contiguous(shape)
        last = torch.channels_last  # that of three dimensions is not looked at
        if len(shape) == 4 and all(tensor.is_contiguous(memory_format=last) for tensor in tensors):
            return filled(shape, [1, 3, 2, 0])  # dimensions of size 1 have strides too
        first = tensors[0].stride()
        if all(tensor.stride() == first for tensor in tensors) and is_dense(shape, first):
            return first
    order = _iteration_order(shape, [_broadcast_strides(tensor, shape) for tensor in tensors])
    return contiguous(shape) if order == list(range(len(shape)))[::-1] else filled(shape, order)


def _broadcast_strides(tensor: Tensor, shape: Sequence[int]) -> list[int]:
    missing = len(shape) - tensor.dim()
    own = [
        0 if size == 1 and wanted != 1 else stride
        for size, stride, wanted in zip(tensor.shape, tensor.stride(), shape[missing:], strict=True)
    ]
    return [0] * missing + own


def _iteration_order(shape: Sequence[int], operands: Sequence[Sequence[int]]) -> list[int]:
    """The dimensions from the fastest to the slowest: an insertion sort by the first operand's strides that tell."""

    def compare(a: int, b: int) -> int:
        for strides in operands:
            if strides[a] == 0 or strides[b] == 0:
                continue
            if strides[a] != strides[b]:
                return -1 if strides[a] < strides[b] else 1
            if shape[a] > shape[b]:
                return 1
        return 0

    order = list(range(len(shape)))[::-1]
    for i in range(1, len(order)):
        at = i
        for before in range(i - 1, -1, -1):
            relation = compare(order[before], order[at])
            if relation > 0:
                order[before], order[at] = order[at], order[before]
                at = before
            elif relation < 0:
                break
    return order
