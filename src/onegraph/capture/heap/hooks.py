"""What the program sets for autograd: hooks of tensors, and `grad`. Both are done for real behind the graph.

A hook runs in backward passes, as the program has written it. So what it looks at leaves the graph, as does its tensor,
if gradients can arrive there later: at the tensor, or through something that leaves the graph and is computed from it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import field
from typing import Any

import torch
from torch.utils.hooks import RemovableHandle

from onegraph.base.dataclass import dataclass
from onegraph.capture.breaks import GRAD_WRITE, TENSOR_HOOK, GraphBreak
from onegraph.capture.bytecode.frame import NULL
from onegraph.torchlib.histories import is_recorded
from onegraph.torchlib.hooked import history_of
from onegraph.torchlib.primals import Edge
from onegraph.torchlib.private import DisableTorchFunction


@dataclass(slots=True, eq=False)
class Hook:
    """`register(tensor, function)` gave the handle. `edge` is where gradients of the tensor arrived then."""

    register: Callable[..., Any]
    tensor: torch.Tensor
    function: Any
    handle: RemovableHandle
    edge: Edge | None
    born: tuple[int, int]

    def is_moved(self) -> bool:
        """Whether gradients of the tensor arrive elsewhere now: it was written to."""
        return history_of(self.tensor) != self.edge

    def refused(self, why: str) -> GraphBreak:
        broken = GraphBreak(TENSOR_HOOK, name=f"Tensor.{self.register.__name__}", why=why)
        broken.born = self.born
        return broken


@dataclass(slots=True)
class Hooks:
    """The hooks that are registered, in their order, and the tensors that keep their gradients."""

    registered: list[Hook] = field(default_factory=list)
    #: All handles that the trace has made, by identity.
    handles: dict[int, RemovableHandle] = field(default_factory=dict)
    retaining: list[torch.Tensor] = field(default_factory=list)
    #: Inputs of which the program has said whether gradients are recorded.
    changed: list[torch.Tensor] = field(default_factory=list)

    def add(self, hook: Hook) -> None:
        self.registered.append(hook)
        self.handles[id(hook.handle)] = hook.handle

    def remove(self, handle: RemovableHandle) -> None:
        self.registered = [hook for hook in self.registered if hook.handle is not handle]

    def of(self, handle: Any) -> Hook | None:
        return next((hook for hook in self.registered if hook.handle is handle), None)

    def state(self) -> tuple[Any, ...]:
        changed = [(id(tensor), is_recorded(tensor)) for tensor in self.changed]
        return (*map(id, self.registered), *map(id, self.retaining), *changed)

    def note_change(self, tensor: torch.Tensor) -> None:
        if not any(tensor is each for each in self.changed):
            self.changed.append(tensor)

    def points(self) -> Iterator[tuple[torch.Tensor, list[Any]]]:
        """Tensors with the functions that make other gradients of theirs."""
        of_tensors: dict[int, tuple[torch.Tensor, list[Any]]] = {}
        for hook in self.registered:
            if hook.register is torch.Tensor.register_hook:
                of_tensors.setdefault(id(hook.tensor), (hook.tensor, []))[1].append(hook.function)
        yield from of_tensors.values()

    def behind(self, leaf: torch.Tensor) -> list[Any]:
        """The functions that are called when the gradient of a leaf is accumulated."""
        return [
            h.function for h in self.registered if h.tensor is leaf and h.register is not torch.Tensor.register_hook
        ]

    def require_unmoved(self) -> None:
        for hook in self.registered:
            if hook.is_moved():
                raise hook.refused("on a tensor that is written to afterwards")

    def clear(self) -> None:
        self.registered.clear()
        self.handles.clear()
        self.retaining.clear()
        self.changed.clear()


class Gradients:
    """The gradients that were set, by the identity of the tensors, which are kept alive."""

    def __init__(self) -> None:
        self._set: dict[int, tuple[torch.Tensor, Any]] = {}

    def read(self, tensor: torch.Tensor, name: str) -> Any:
        """What an attribute of autograd is; `NULL` if it is another one, or was not set."""
        if name == "grad_fn" and (not tensor.requires_grad or isinstance(tensor, torch.nn.Parameter)):
            return None  # a fake that is a parameter is one that the graph has made
        return self._set[id(tensor)][1] if name == "grad" and id(tensor) in self._set else NULL

    def __setitem__(self, tensor: torch.Tensor, value: Any) -> None:
        """Set the attribute. What autograd refuses breaks the graph, so that it is refused there."""
        if value is not None:
            with DisableTorchFunction():
                fits = isinstance(value, torch.Tensor) and value is not tensor and value.shape == tensor.shape
                fits = fits and value.dtype is tensor.dtype and value.device == tensor.device
                fits = fits and value.layout is tensor.layout
            if not fits:
                raise GraphBreak(GRAD_WRITE, name="grad")
        self._set[id(tensor)] = (tensor, value)

    def items(self) -> list[tuple[torch.Tensor, Any]]:
        return list(self._set.values())

    def clear(self) -> None:
        self._set.clear()
