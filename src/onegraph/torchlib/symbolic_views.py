"""Views of tensors whose sizes are symbols: other sizes over the same memory.

torch's kernel goes from the old sizes to the new ones dimension by dimension and asks at each step, which takes most of
the time of a trace with symbols.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from onegraph.ir.index import ZERO, Index, least, product
from onegraph.torchlib import private
from onegraph.torchlib.private import OpOverload
from onegraph.torchlib.shapes import Condition, Sizes
from onegraph.torchlib.strides import contiguous, indices, is_certainly, is_certainly_equal, number

aten = torch.ops.aten
VIEWS = frozenset({aten.view.default, aten._unsafe_view.default})
OPEN = Index.of(-1)


def contiguous_view(sizes: Sizes, func: OpOverload, args: Sequence[Any]) -> Tensor | None:
    """The meta tensor that a view is, or None where the general rules have to find out."""
    if func not in VIEWS or args[0].is_conj() or args[0].is_neg():
        return None
    x, wanted = args
    shape, after = indices(sizes, x.shape), indices(sizes, wanted)
    steps, plain = indices(sizes, x.stride()), indices(sizes, contiguous(x.shape))
    if shape is None or after is None or after.count(OPEN) > 1 or steps != plain:
        return None
    count, rest = product(shape), product([size for size in after if size != OPEN])
    if OPEN in after and not (rest != ZERO and sizes.holds(Condition("<", ZERO, rest))):
        return None
    after = tuple(sizes.simplify(count // rest if size == OPEN else size) for size in after)
    if product(after) != sizes.simplify(count) or not all(sizes.certain(Condition("<=", ZERO, n)) for n in after):
        return None
    return over(sizes, x, [number(sizes, size) for size in after])


def strided_view(sizes: Sizes, func: OpOverload, args: Sequence[Any]) -> Tensor | None:
    """The meta tensor that a view of any strides is: those of eager, in dimensions of size 1, too.

    Whether the dimensions fit is asked in the order of `computeStride` in ATen/TensorUtils.cpp.
    """
    if func not in VIEWS or not args[0].dim():
        return None
    x, wanted = args
    shape, steps = x.shape, x.stride()
    if any(size == 0 for size in shape) or any(size < 0 for size in wanted):
        return None
    strides: list[Any] = []  # from the last one on
    base, old, new = steps[-1], 1, 1
    for dim in reversed(range(x.dim())):
        old = old * shape[dim]
        if dim and (shape[dim - 1] == 1 or steps[dim - 1] == old * base):
            continue
        while len(strides) < len(wanted) and (new < old or wanted[~len(strides)] == 1):
            strides.append(new * base)
            new = new * wanted[len(wanted) - len(strides)]
        if new != old:
            return None
        base, old, new = steps[dim - 1], 1, 1
    return over(sizes, x, wanted, strides[::-1]) if len(strides) == len(wanted) else None


def sliced(sizes: Sizes, x: Tensor, dim: int = 0, start: Any = None, end: Any = None, step: Any = 1) -> Tensor | None:
    """The meta tensor that a slice is: where it begins and ends in the dimension is asked."""
    if not -x.dim() <= dim < x.dim() or not isinstance(step, int) or step < 1:
        return None
    size = x.shape[dim]
    first = 0 if start is None else bounded_place(sizes, start, size)
    last = size if end is None or (isinstance(end, int) and end == sys.maxsize) else bounded_place(sizes, end, size)
    length = (last - first + step - 1) // step if last >= first else 0
    shape, strides = list(x.shape), list(x.stride())
    shape[dim], offset = length, x.storage_offset() + first * strides[dim]
    strides[dim] = strides[dim] * step
    return over(sizes, x, shape, strides, offset)


def bounded_place(sizes: Sizes, place: Any, size: Any) -> Any:
    """Where a slice begins or ends. That a size of an input is the end is asked, as programs compare sizes.

    Of an integer that Python computes nothing is known: it is the smaller of the two.
    """
    if place < 0:
        return place + size if place >= -size else 0
    if is_certainly(place <= size):
        return place
    found = indices(sizes, (size, place))
    if found is not None and not sizes.stems.keys().isdisjoint(found[1].symbols):
        return number(sizes, least(*found))
    return place if place <= size else size


def selected(sizes: Sizes, x: Tensor, dim: int, index: Any) -> Tensor | None:
    """The meta tensor that an item is: whether there is such a place is asked."""
    if not -x.dim() <= dim < x.dim() or not (index >= -x.shape[dim] and index < x.shape[dim]):
        return None
    shape, strides = list(x.shape), list(x.stride())
    place = index + shape[dim] if index < 0 else index
    offset = x.storage_offset() + place * strides[dim]
    del shape[dim], strides[dim]
    return over(sizes, x, shape, strides, offset)


def unbound(sizes: Sizes, x: Tensor, dim: int = 0) -> list[Tensor] | None:
    """The meta tensors that the items along a dimension are, if their number is none that changes."""
    count = x.shape[dim] if -x.dim() <= dim < x.dim() else None
    if type(count) is not int or not count:
        return None
    found = [selected(sizes, x, dim, index) for index in range(count)]
    return [each for each in found if each is not None] if all(each is not None for each in found) else None


def split(sizes: Sizes, x: Tensor, lengths: Sequence[Any], dim: int = 0) -> list[Tensor] | None:
    """The meta tensors that the pieces of these lengths are, which are all there is."""
    if not -x.dim() <= dim < x.dim() or not all(n >= 0 for n in lengths) or sum(lengths) != x.shape[dim]:
        return None
    found, start = [], 0
    for length in lengths:
        shape = [length if d == dim % x.dim() else n for d, n in enumerate(x.shape)]
        found.append(over(sizes, x, shape, x.stride(), x.storage_offset() + start * x.stride(dim)))
        start = start + length
    return found


def unsqueezed(sizes: Sizes, x: Tensor, dim: int) -> Tensor | None:
    """The meta tensor with one more dimension, of size 1: torch's kernel for symbols asks for strides."""
    rank = x.dim() + 1
    if not -rank <= dim < rank:
        return None
    shape, strides, at = list(x.shape), list(x.stride()), dim % rank
    strides.insert(at, shape[at] * strides[at] if at < x.dim() else 1)
    shape.insert(at, 1)
    return over(sizes, x, shape, strides)


def permuted(sizes: Sizes, x: Tensor, dims: Sequence[int]) -> Tensor | None:
    """The meta tensor with its dimensions in another order."""
    rank = x.dim()
    order = [dim % rank for dim in dims if -rank <= dim < rank]
    if sorted(order) != list(range(rank)) or len(dims) != rank:
        return None
    return over(sizes, x, [x.shape[dim] for dim in order], [x.stride(dim) for dim in order])


def transposed(sizes: Sizes, x: Tensor, a: int = 0, b: int = 1) -> Tensor | None:
    rank = x.dim()
    if not rank or not all(-rank <= dim < rank for dim in (a, b)):
        return None
    order = list(range(rank))
    order[a], order[b] = order[b], order[a]
    return permuted(sizes, x, order)


def expanded(sizes: Sizes, x: Tensor, wanted: Sequence[Any], *, implicit: bool = False) -> Tensor | None:
    """The meta tensor that is as large as wanted, if it is seen which dimensions are repeated."""
    missing = len(wanted) - x.dim()
    shape, strides = list(wanted), [0] * max(missing, 0) + list(x.stride())
    for dim, size in enumerate(wanted):
        own = x.shape[dim - missing] if dim >= missing else 1
        if dim >= missing and (is_certainly_equal(size, -1) or is_certainly_equal(size, own)):
            shape[dim] = own
        elif is_certainly_equal(own, 1) and size >= 0 and not is_one(size):  # else the stride is another one
            strides[dim] = 0
        else:
            return None
    return over(sizes, x, shape, strides) if missing >= 0 else None


def is_one(size: Any) -> bool:
    """Whether a size is one; in a backward pass no size of data is, where only a stride depends on it."""
    asked = size == 1
    return bool(asked.node.guard_or_false() if isinstance(asked, torch.SymBool) else asked)


def over(sizes: Sizes, x: Tensor, shape: Sequence[Any], strides: Sequence[Any] = (), offset: Any = None) -> Tensor:
    """A meta tensor over the memory of `x`, contiguous if no strides are given."""
    place = x.storage_offset() if offset is None else offset
    with private.DisableTorchDispatch(), sizes.trusted():
        base = torch.empty(0, dtype=x.dtype, device="meta").set_(x.untyped_storage(), 0, (0,), (1,))
        return base.as_strided(shape, strides or contiguous(shape), place)
