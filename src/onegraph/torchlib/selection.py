"""Items of tensors at places that are symbolic numbers: torch's own indexing asks for the value of each.

x[:, n]        x.select(1, n)
x[n, ..., m]   x[:, ..., :].select(-1, m).select(0, n)
x[n] = y       x.select(0, n)[...] = y
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from types import EllipsisType
from typing import Any

import torch

#: What may stand in an index beside None; tensors and lists among these choose several items.
BASIC = (int, torch.SymInt, slice, EllipsisType)


@dataclass(frozen=True, slots=True)
class Selection:
    """An index in two steps: `rest` without the symbolic numbers, then each of `chosen`, the last dimension first."""

    rest: tuple[Any, ...]
    chosen: tuple[tuple[int, torch.SymInt], ...]

    @property
    def is_all(self) -> bool:
        """Whether the first step leaves the tensor as it is."""
        return all(item is ... or item == slice(None) for item in self.rest)

    def made(self, call: Callable[..., Any], tensor: Any, index: Any, *value: Any) -> Any:
        """The item of the tensor, or its assignment, by `call(function, *args)`."""
        if not self.is_all:
            tensor = call(torch.Tensor.__getitem__, tensor, self.rest)
        for dim, number in self.chosen:
            tensor = call(torch.Tensor.select, tensor, dim, number)
        return call(torch.Tensor.__setitem__, tensor, ..., *value) if value else tensor


def selection(func: Any, args: tuple[Any, ...]) -> Selection | None:
    """How a tensor is indexed by symbolic numbers among slices and plain numbers; None where it is not."""
    if func is not torch.Tensor.__getitem__ and func is not torch.Tensor.__setitem__:
        return None
    tensor, index = args[:2]
    items = index if type(index) is tuple else (index,)
    if not any(isinstance(item, torch.SymInt) for item in items):
        return None
    if not all(item is None or (isinstance(item, BASIC) and type(item) is not bool) for item in items):
        return None
    consumed = sum(item is not None and item is not ... for item in items)
    if consumed > tensor.dim() or sum(item is ... for item in items) > 1:
        return None  # an error, which names the index as it is
    chosen, dim = [], 0
    for item in items:
        if isinstance(item, torch.SymInt):
            chosen.append((dim, item))
        dim += tensor.dim() - consumed if item is ... else 0 if isinstance(item, int) else 1
    rest = tuple(slice(None) if isinstance(item, torch.SymInt) else item for item in items)
    return Selection(rest, tuple(reversed(chosen)))
