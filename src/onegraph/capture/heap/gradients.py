"""What the program reads of autograd in tensors, and sets: `grad` is set for real behind the graph."""

from __future__ import annotations

from typing import Any

import torch

from onegraph.capture.breaks import GRAD_WRITE, GraphBreak
from onegraph.capture.bytecode.frame import NULL
from onegraph.torchlib.private import DisableTorchFunction


class Gradients:
    """What was set, by the identity of the tensors, which are kept alive."""

    def __init__(self) -> None:
        self._set: dict[int, tuple[torch.Tensor, Any]] = {}

    def read(self, tensor: torch.Tensor, name: str) -> Any:
        """What an attribute of autograd is; `NULL` if it is another one, or was not set."""
        if name == "grad_fn" and not tensor.requires_grad:
            return None
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
