"""Items of tensors at places that are symbolic numbers, or tensors: torch's own indexing asks for the value of each.

x[:, n]        x.select(1, n)
x[n, ..., m]   x[:, ..., :].select(-1, m).select(0, n)
x[n] = y       x.select(0, n)[...] = y
x[t]           x.index_select(0, t.reshape(1)).squeeze(0), a copy of what is a view of x
x[:, t] = y    x.movedim((1,), (0,)).index_put_((t,), y)
x[ts] = y      x.index_put_((ts,), y), where only the data say how many there are: torch asks whether it is one
"""

from __future__ import annotations

from collections.abc import Callable
from types import EllipsisType
from typing import Any

import torch

from onegraph.base.dataclass import dataclass
from onegraph.torchlib.private import DisableTorchFunction, is_functorch_wrapped_tensor

#: What may stand in an index beside None; other tensors and lists among these choose several items.
BASIC = (int, torch.SymInt, slice, EllipsisType)
#: The types of tensors of no dimensions that choose one item: `index_select` takes no others, and bytes are masks.
PLACES = (torch.int64, torch.int32)

Call = Callable[..., Any]
Chosen = tuple[tuple[int, Any], ...]


@dataclass(frozen=True, slots=True)
class Selection:
    """An index in two steps: `rest` without the numbers that are not known, then each of these at its dimension.

    `symbols` are chosen first, the last dimension first; `tensors` from what is left, likewise.
    """

    rest: tuple[Any, ...]
    symbols: Chosen
    tensors: Chosen

    @property
    def is_all(self) -> bool:
        """Whether the first step leaves the tensor as it is."""
        return all(item is ... or item == slice(None) for item in self.rest)

    def made(self, call: Call, tensor: Any, index: Any, *value: Any) -> Any:
        """The item of the tensor, or its assignment, by `call(function, *args)`."""
        found = self._view(call, tensor)
        if value:
            return self._assigned(call, found, *value)
        for dim, place in self.tensors:
            found = call(torch.Tensor.index_select, found, dim, call(torch.Tensor.reshape, place, (1,)))
            found = call(torch.Tensor.squeeze, found, dim)
        return found

    def _assigned(self, call: Call, target: Any, value: Any) -> Any:
        if not self.tensors:
            return call(torch.Tensor.__setitem__, target, ..., value)
        dims, places = zip(*reversed(self.tensors), strict=True)
        if dims != tuple(range(len(dims))):
            target = call(torch.Tensor.movedim, target, dims, tuple(range(len(dims))))
        return put(call, target, places, value)

    def _view(self, call: Call, tensor: Any) -> Any:
        if not self.is_all:
            tensor = call(torch.Tensor.__getitem__, tensor, self.rest)
        for dim, number in self.symbols:
            tensor = call(torch.Tensor.select, tensor, dim, number)
        return tensor


@dataclass(frozen=True, slots=True)
class Places:
    """The items that tensors of whole numbers choose, to be assigned to."""

    tensors: tuple[torch.Tensor, ...]

    def made(self, call: Call, tensor: Any, index: Any, value: Any) -> None:
        put(call, tensor, self.tensors, value)


def put(call: Call, target: Any, places: tuple[torch.Tensor, ...], value: Any) -> None:
    """Write a value, a number or a tensor of any type, to the places of the first dimensions."""
    if not isinstance(value, torch.Tensor):
        value = call(torch.Tensor.new_full, target, (), value)
    elif value.dtype != target.dtype:
        value = call(torch.Tensor.to, value, target.dtype)
    call(torch.Tensor.index_put_, target, places, value)


def selection(func: Any, args: tuple[Any, ...]) -> Selection | Places | None:
    """How a tensor is indexed by numbers that are not known among slices and plain numbers; None where it is not.

    Or that it is assigned a tensor of which only the data say how many items it has.
    """
    if func is not torch.Tensor.__getitem__ and func is not torch.Tensor.__setitem__:
        return None
    tensor, index = args[:2]
    items = index if type(index) is tuple else (index,)
    if not any(isinstance(item, torch.SymInt | torch.Tensor) for item in items):
        return None
    with DisableTorchFunction():
        if func is torch.Tensor.__setitem__ and (places := of_places(tensor, items, args[2])) is not None:
            return places
        if not all(item is None or is_number(item) or type(item) in (slice, EllipsisType) for item in items):
            return None
        made = of_numbers(tensor, items)
        if made is None or not made.tensors:
            return made
        if not all(place.device == tensor.device for _, place in made.tensors) or is_functorch_wrapped_tensor(tensor):
            return None
        return made if func is torch.Tensor.__setitem__ or keeps_layout(made, tensor) else None


def of_places(tensor: torch.Tensor, items: tuple[Any, ...], value: Any) -> Places | None:
    if not isinstance(value, torch.Tensor) or value.device != tensor.device or len(items) > tensor.dim():
        return None
    if not any(isinstance(size, torch.SymInt) for size in value.shape):
        return None
    alike = all(isinstance(item, torch.Tensor) and item.device == tensor.device for item in items)
    whole = alike and all(item.dtype in PLACES and item.dim() for item in items)
    if not whole or any(map(is_functorch_wrapped_tensor, (tensor, value, *items))):
        return None
    rank = tensor.dim() - len(items) + max(item.dim() for item in items)
    return Places(items) if value.dim() <= rank else None  # torch's own drops dimensions of one item before


def is_number(item: Any) -> bool:
    if isinstance(item, torch.Tensor):
        return item.dim() == 0 and item.dtype in PLACES and not is_functorch_wrapped_tensor(item)
    return isinstance(item, int | torch.SymInt) and type(item) is not bool


def of_numbers(tensor: torch.Tensor, items: tuple[Any, ...]) -> Selection | None:
    consumed = sum(item is not None and item is not ... for item in items)
    if consumed > tensor.dim() or sum(item is ... for item in items) > 1:
        return None  # an error, which names the index as it is
    symbols, tensors, dim, left = [], [], 0, 0
    for item in items:
        if isinstance(item, torch.SymInt):
            symbols.append((dim, item))
        elif isinstance(item, torch.Tensor):
            tensors.append((left, item))
        wide = tensor.dim() - consumed if item is ... else 0 if isinstance(item, int) else 1
        dim += wide
        left += 0 if isinstance(item, torch.SymInt) else wide
    unknown = (torch.SymInt, torch.Tensor)
    rest = tuple(slice(None) if isinstance(item, unknown) else item for item in items)
    return Selection(rest, tuple(reversed(symbols)), tuple(reversed(tensors)))


def keeps_layout(made: Selection, tensor: torch.Tensor) -> bool:
    """Whether a copy of the item has the strides of the view that it stands for."""
    view = made._view(lambda function, *args: function(*args), tensor)
    chosen = {dim for dim, _ in made.tensors}
    sizes = [size for dim, size in enumerate(view.shape) if dim not in chosen]
    strides = [stride for dim, stride in enumerate(view.stride()) if dim not in chosen]
    wanted = 1
    for size, stride in zip(reversed(sizes), reversed(strides), strict=True):
        if type(stride) is not int or type(wanted) is not int or stride != wanted:
            return False
        wanted *= size
    return True
