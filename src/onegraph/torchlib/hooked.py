"""Gradients that go through hooks of tensors: what a hook has made of a gradient is given in its place."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.overrides import handle_torch_function
from torch.utils.hooks import RemovableHandle

from onegraph.torchlib.primals import Edge, edge_of, edges_behind, given_instead
from onegraph.torchlib.private import DisableTorchFunction, has_torch_function


def gradients_given(
    outputs: Sequence[Tensor],
    inputs: Sequence[Tensor],
    grad_outputs: Sequence[Tensor | None] | None,
    points: Sequence[Tensor],
    values: Sequence[Tensor],
    **options: Any,
) -> tuple[Tensor | None, ...]:
    """`torch.autograd.grad`, where the gradients of `points` are these values, whatever arrives there."""
    tensors = (*outputs, *inputs)
    if has_torch_function(tensors):
        found: tuple[Tensor | None, ...] = handle_torch_function(
            gradients_given, tensors, outputs, inputs, grad_outputs, points, values, **options
        )
        return found
    with given_instead(list(zip(points, values, strict=True))):
        return torch.autograd.grad(outputs, inputs, grad_outputs, **options)


def register_as(handle: RemovableHandle, register: Callable[..., RemovableHandle], tensor: Tensor, hook: Any) -> None:
    """Make a blank handle that of a hook, which is registered."""
    vars(handle).update(vars(register(tensor, hook)))


def history_of(tensor: Tensor) -> Edge | None:
    """Where gradients of the tensor arrive; None if none do, or autograd refuses to tell."""
    with DisableTorchFunction():
        try:
            return edge_of(tensor) if tensor.requires_grad else None
        except RuntimeError:  # a view that was made in `no_grad`, and is written to
            return None


def edges_reached(tensors: Sequence[Tensor]) -> set[Edge]:
    """Where gradients arrive that the tensors are given: at themselves, and at what they are computed from."""
    own = {edge for edge in map(history_of, tensors) if edge is not None}
    with DisableTorchFunction():
        computed = [tensor for tensor in tensors if history_of(tensor) is not None and tensor.grad_fn is not None]
        return own | edges_behind(computed)
