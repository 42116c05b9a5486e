"""What the strides of a tensor say of its place in memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from onegraph.ir.index import Index
from onegraph.torchlib.shapes import Sizes
from onegraph.torchlib.size_node import SizeNode


def contiguous(shape: Sequence[Any]) -> list[Any]:
    strides: list[Any] = []
    step: Any = 1
    for size in reversed(shape):
        strides.append(step)
        step = step * at_least_one(size)
    return strides[::-1]


def at_least_one(size: Any) -> Any:
    """The size, or 1 where it is 0; nothing is asked of a symbol."""
    if not isinstance(size, torch.SymInt):
        return max(size, 1)
    sizes, index = size.node.sizes, size.node.index
    return number(sizes, sizes.at_least_one(index))


def number(sizes: Sizes, index: Index) -> int | torch.SymInt:
    return torch.SymInt(SizeNode(sizes, index)) if index.constant is None else index.constant


def is_certainly_contiguous(sizes: Sizes, tensor: torch.Tensor) -> bool:
    """Whether a tensor has, in every call, the strides of a new one; those of dimensions of size 1 may be others."""
    shape, strides = indices(sizes, tensor.shape), indices(sizes, tensor.stride())
    return shape is not None and strides is not None and sizes.is_filled(shape, strides, range(len(shape))[::-1])


def is_certainly_dense(tensor: torch.Tensor) -> bool:
    """Whether the elements fill a block of memory in every call, in one order of the dimensions; it asks nothing."""
    symbols: list[Sizes] = [n.node.sizes for n in (*tensor.shape, *tensor.stride()) if isinstance(n, torch.SymInt)]
    if not symbols:
        return is_dense(tensor.shape, tensor.stride())
    shape, strides = indices(symbols[0], tensor.shape), indices(symbols[0], tensor.stride())
    if shape is None or strides is None:
        return False
    now = [symbols[0].value(stride) for stride in strides]
    return symbols[0].is_filled(shape, strides, sorted(range(len(shape)), key=lambda dim: (now[dim], -dim)))


def is_contiguous(tensor: torch.Tensor) -> bool:
    """Whether a tensor is contiguous; one with symbolic sizes is in every call, which asks nothing."""
    symbols = [n.node.sizes for n in (*tensor.shape, *tensor.stride()) if isinstance(n, torch.SymInt)]
    return is_certainly_contiguous(symbols[0], tensor) if symbols else tensor.is_contiguous()


def indices(sizes: Sizes, numbers: Sequence[int | torch.SymInt]) -> tuple[Index, ...] | None:
    """The numbers as index expressions, if that is what they are."""
    found = tuple(n.node.value if isinstance(n, torch.SymInt) else Index.of(n) for n in numbers)
    return found if all(isinstance(each, Index) and not sizes.is_unknown(each) for each in found) else None


def filled(shape: Sequence[int], order: Sequence[int]) -> list[int]:
    """The strides of a block of memory that is filled along one dimension after the other."""
    strides, step = [0] * len(shape), 1
    for dim in order:
        strides[dim] = step
        step *= shape[dim]
    return strides


def is_dense(sizes: Sequence[int], strides: Sequence[int]) -> bool:
    """Whether the elements fill a block of memory, each in a place of its own, in some order of the dimensions."""
    expected = 1
    for size, stride in sorted(zip(sizes, strides, strict=True), key=lambda dim: dim[1]):
        if size == 1:
            continue
        if stride != expected:
            return False
        expected *= size
    return True


def is_certainly_equal(a: int | torch.SymInt, b: int | torch.SymInt) -> bool:
    """Whether two sizes or strides are the same in every call; it asks nothing that would become a guard."""
    return is_certainly(a == b)


def is_certainly(answer: bool | torch.SymBool) -> bool:
    """Whether the answer is yes in every call."""
    return answer if isinstance(answer, bool) else answer.node.statically_known_true()


def memory_order(tensor: torch.Tensor) -> list[int] | None:
    """The dimensions from the outermost in memory to the innermost, if the tensor fills a block of memory.

    Its sizes and strides may be symbols; what is asked of them is guarded.
    """

    def key(d: int) -> tuple[int, bool]:
        return tensor.stride(d), bool(tensor.size(d) == 1)

    order = sorted(range(tensor.dim()), key=key, reverse=True)
    expected = 1
    for d in reversed(order):
        if tensor.size(d) == 1:
            continue
        if tensor.stride(d) != expected:
            return None
        expected = expected * tensor.size(d)
    return order


def suggested_format(x: torch.Tensor) -> torch.memory_format:
    """Channels last if the strides grow in that order, whether or not there are gaps: what eager gives results in.

    torch's own function of this kind imports sympy.
    """
    for order, found in (((1, 3, 2, 0), torch.channels_last), ((1, 4, 3, 2, 0), torch.channels_last_3d)):
        if len(order) == x.dim():
            return found if _grow(x.shape, x.stride(), order) else torch.contiguous_format
    return torch.contiguous_format


def _grow(shape: Sequence[int], strides: Sequence[int], order: Sequence[int]) -> bool:
    least = 0
    if strides[1] == 0:
        return False
    for dim in order:
        if shape[dim] == 0 or strides[dim] < least or (dim == 0 and least == strides[1]):
            return False  # the last: of a tensor with one element per image, nothing is known
        least = strides[dim] * max(shape[dim], 1)
    return True


def symbolic_strides(tensor: torch.Tensor, sizes: Sequence[int | torch.SymInt]) -> list[int | torch.SymInt]:
    """The strides of `tensor` in terms of `sizes`: a stride that is the extent of the next inner dimension stays so."""
    order = sorted(range(tensor.dim()), key=lambda dim: (tensor.stride(dim), -dim))
    strides: list[int | torch.SymInt] = list(tensor.stride())
    extents: dict[int, int | torch.SymInt] = {1: 1}
    for dim in order:
        stride = extents.get(tensor.stride(dim), tensor.stride(dim))
        strides[dim] = stride
        extents[tensor.stride(dim) * max(tensor.size(dim), 1)] = stride * at_least_one(sizes[dim])
    return strides


def extent_of(sizes: Sequence[int | torch.SymInt], strides: Sequence[int | torch.SymInt]) -> int | torch.SymInt:
    """How many elements there are from the first one to the last one in memory."""
    if any(isinstance(size, int) and size == 0 for size in sizes):
        return 0
    return 1 + sum((n - 1) * step for n, step in zip(sizes, strides, strict=True))
