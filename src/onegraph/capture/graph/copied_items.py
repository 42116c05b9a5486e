"""Copies of items that are views in eager: `x[t]` at a place that only the graph knows.

As long as nobody can tell, a copy does. Where the item or its tensor is written to, or the item is handed out or asked
where it lies, the graph has to end before the item is made.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch

from onegraph.capture.breaks import TENSOR_AS_INDEX, GraphBreak
from onegraph.torchlib.histories import storage_of
from onegraph.torchlib.private import is_functorch_wrapped_tensor
from onegraph.torchlib.selection import Places, Selection

Step = tuple[int, int]


class CopiedItems:
    """The copies of one trace, by the address of their storage: that of the tensor, and the step that made them.

    `step` says which one is being traced.
    """

    def __init__(self) -> None:
        self.step: Callable[[], Step | None] = lambda: None
        self._made: dict[int, tuple[int, Step | None]] = {}

    def made(self, chosen: Selection | Places, call: Callable[..., Any], tensor: torch.Tensor, *given: Any) -> Any:
        """An item of a tensor, or its assignment, by `call(function, *args)`."""
        found = chosen.made(call, tensor, *given)
        if chosen.tensors and found is not None:
            self._made[storage_of(found)] = storage_of(tensor), self.step()
        return found

    def refuse_writes(self, storages: Iterable[int]) -> None:
        """Break the graph if a copy is in one of these storages, or from one of them."""
        if self._made:
            written = set(storages)
            for item, (tensor, step) in self._made.items():
                if item in written or tensor in written:
                    raise made_at(step)

    def refuse(self, tensor: torch.Tensor) -> None:
        """Break the graph if the tensor is a copy, or a view of one."""
        if self._made and not is_functorch_wrapped_tensor(tensor):
            found = self._made.get(storage_of(tensor))
            if found is not None:
                raise made_at(found[1])


def made_at(step: Step | None) -> GraphBreak:
    broken = GraphBreak(TENSOR_AS_INDEX)
    broken.born = step
    return broken
