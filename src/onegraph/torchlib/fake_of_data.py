"""The fakes of operators the size of whose results only the data say, custom ones among them.

An operator is one row: a function of the mode and of the operator's arguments, which gives the fake results. It makes
new sizes, which raises NotOfData where the trace has none.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

from onegraph.ir.index import Index
from onegraph.torchlib.data_sizes import Birth, NotOfData
from onegraph.torchlib.private import DynamicOutputShapeException, fake_impl
from onegraph.torchlib.size_expression import Condition
from onegraph.torchlib.strides import at_least_one, contiguous, is_certainly_equal

aten = torch.ops.aten
MASKS = (torch.bool, torch.uint8)


def laid(mode: Any, shape: list[Any], dtype: torch.dtype, strides: list[Any] | None = None) -> Tensor:
    """A new fake with these sizes, contiguous unless strides are given."""
    with mode.sizes.trusted():
        fake: Tensor = mode._laid_out((shape, contiguous(shape) if strides is None else strides, dtype))
    return fake


def nonzero(mode: Any, x: Tensor) -> Tensor:
    rows = mode.sizes.data.new(mode.sizes, x.numel())
    return laid(mode, [rows, x.dim()], torch.int64, [1, at_least_one(rows)])  # a column for each dimension


def masked_select(mode: Any, x: Tensor, mask: Tensor) -> Tensor:
    torch.broadcast_shapes(x.shape, mask.shape)
    most = mask.numel() if x.dim() == mask.dim() and all(map(is_certainly_equal, x.shape, mask.shape)) else None
    return laid(mode, [mode.sizes.data.new(mode.sizes, most)], x.dtype)


def index(mode: Any, x: Tensor, indices: list[Tensor | None]) -> Any:
    """Each mask is as many indices as it has dimensions, all of one length."""
    masks = [each for each in indices if each is not None and is_mask(each)]
    if not masks or not all(mask.dim() for mask in masks):  # one of no dimensions makes a new one
        return NotImplemented
    dim = last_dim_of(indices)
    places: list[Tensor | None] = []
    for each in indices:
        if each is None or not is_mask(each):
            places.append(each)
            continue
        for size, masked in zip(x.shape[len(places) :], each.shape, strict=False):
            if size != masked:
                raise IndexError(f"a mask of shape {tuple(each.shape)} does not fit a tensor of {tuple(x.shape)}")
        rows = mode.sizes.data.new(mode.sizes, each.numel(), dim=dim)
        places += [laid(mode, [rows], torch.int64) for _ in range(each.dim())]
    with mode:
        return aten.index.Tensor(x, places)


def last_dim_of(indices: list[Tensor | None]) -> int:
    """The last of the dimensions that indices have in the result: these are in the place of the first, or in front."""
    ranks: list[int] = []  # of what indexes each dimension of the tensor; 0: nothing does
    for each in indices:
        ranks += [0] if each is None else [1] * each.dim() if is_mask(each) else [each.dim()]
    given = [place for place, rank in enumerate(ranks) if rank]
    together = given[-1] - given[0] == len(given) - 1
    return (given[0] if together else 0) + max(ranks) - 1


def unique(
    mode: Any, x: Tensor, sorted: bool = True, return_inverse: bool = False, return_counts: bool = False
) -> tuple[Tensor, ...]:
    return _unique(mode, x, x.shape if return_inverse else [0], return_counts)


def unique_consecutive(
    mode: Any, x: Tensor, return_inverse: bool = False, return_counts: bool = False, dim: int | None = None
) -> Any:
    if dim is not None:
        return NotImplemented
    return _unique(mode, x, x.shape if return_inverse else [0], return_counts)


def _unique(mode: Any, x: Tensor, inverse: Any, counts: bool) -> tuple[Tensor, ...]:
    found = mode.sizes.data.new(mode.sizes, x.numel())
    results = ([found], x.dtype), (list(inverse), torch.int64), ([found if counts else 0], torch.int64)
    return tuple(laid(mode, shape, dtype) for shape, dtype in results)


def unique_dim(
    mode: Any, x: Tensor, dim: int, sorted: bool = True, return_inverse: bool = False, return_counts: bool = False
) -> tuple[Tensor, ...]:
    """Rows are stacked, and the dimension is put back. It always gives what it is not asked for, too."""
    dim = dim % x.dim() if x.dim() else 0
    shape = list(x.shape)
    others = shape[:dim] + shape[dim + 1 :]
    found = mode.sizes.data.new(mode.sizes, shape[dim], dim=dim)
    first, *steps = contiguous([found, *others])
    rows = laid(mode, [*shape[:dim], found, *shape[dim + 1 :]], x.dtype, [*steps[:dim], first, *steps[dim:]])
    return rows, laid(mode, [shape[dim]], torch.int64), laid(mode, [found], torch.int64)


def repeat_interleave(mode: Any, repeats: Tensor, *, output_size: Any = None) -> Tensor:
    length = mode.sizes.data.new(mode.sizes) if output_size is None else output_size
    return laid(mode, [length], repeats.dtype)


def bincount(mode: Any, x: Tensor, weights: Tensor | None = None, minlength: Any = 0) -> Tensor:
    dtype = torch.int64 if weights is None else torch.float32 if weights.dtype == torch.float32 else torch.float64
    return laid(mode, [mode.sizes.data.new(mode.sizes)], dtype)


def is_mask(value: Any) -> bool:
    return isinstance(value, Tensor) and value.dtype in MASKS


OF_DATA: Mapping[Any, Callable[..., Any]] = {
    aten.nonzero.default: nonzero,
    aten.masked_select.default: masked_select,
    aten.index.Tensor: index,
    aten._unique2.default: unique,
    aten.unique_consecutive.default: unique_consecutive,
    aten.unique_dim.default: unique_dim,
    aten.repeat_interleave.Tensor: repeat_interleave,
    aten.bincount.default: bincount,
}


class Context:
    """What `torch.library.get_ctx()` gives the fake implementation of a custom operator: it makes sizes of data."""

    def __init__(self, mode: Any, func: Any) -> None:
        self.mode, self.func = mode, func

    def new_dynamic_size(self, *, min: int = 0, max: int | None = None) -> torch.SymInt:
        """A size that only the data say. The limits are checked in the graph: torch relies on them.

        Raises:
            ValueError: a limit is symbolic, or below 0.
            DynamicOutputShapeException: there are no such sizes here.
        """
        if isinstance(min, torch.SymInt) or isinstance(max, torch.SymInt):
            raise ValueError(f"new_dynamic_size(min={min}, max={max}) takes integers")
        if min < 0:
            raise ValueError(f"new_dynamic_size(min={min}): a size is not negative")
        return self._new(min, max)

    def create_unbacked_symint(self, *, min: int = 2, max: int | None = None) -> torch.SymInt:
        """The older name. Its 2 is what torch compiles for; such sizes are 0 and 1, too."""
        return self._new(0 if min == 2 else min, max)

    def _new(self, least: int, most: int | None) -> torch.SymInt:
        sizes = self.mode.sizes
        try:
            size: torch.SymInt = sizes.data.new(sizes)
        except NotOfData:
            raise DynamicOutputShapeException(self.func) from None
        for condition in (
            *((Condition("<=", Index.of(least), size.node.index),) if least else ()),
            *((Condition("<=", size.node.index, Index.of(most)),) if most is not None else ()),
        ):
            sizes.remember(condition, True)
        return size


def run_kernel(mode: Any, func: Any, kernel: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    """Run the fake implementation of a custom operator.

    Raises:
        DynamicOutputShapeException: a size that it makes is that of no result.
    """
    newborn, context = mode.sizes.data.newborn, Context(mode, func)
    before = len(newborn)
    with fake_impl.set_ctx_getter(lambda: context), mode:
        result = kernel(*args, **kwargs)
    if len(newborn) > before:
        newborn[before:] = [found_in(result, birth, func) for birth in newborn[before:]]
    return result


def found_in(result: Any, birth: Birth, func: Any) -> Birth:
    """The size with its place: the first result that has it."""
    for place, each in enumerate(result if isinstance(result, tuple | list) else (result,)):
        for dim, size in enumerate(each.shape if isinstance(each, Tensor) else ()):
            if isinstance(size, torch.SymInt) and size.node.index.symbol == birth.symbol:
                return Birth(birth.symbol, place, dim)
    raise DynamicOutputShapeException(func)
