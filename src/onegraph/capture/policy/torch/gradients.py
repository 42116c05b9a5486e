"""`torch.autograd.grad` in the graph: it differentiates what the graph has computed, so the call is a node.

What was computed outside has a history that the graph does not know. So the inputs of the graph that have
gradients must be leaves, or the only input of the graph for which gradients are asked, where a gradient ends anyway.
"""

from __future__ import annotations

import inspect
from typing import Any

import torch

from onegraph.capture.breaks import GRADIENT_CALL, REQUIRES_GRAD, GraphBreak
from onegraph.capture.calls.registry import policy
from onegraph.capture.calls.tracing import Tracing
from onegraph.capture.guards.source import Attr
from onegraph.torchlib.private import DisableTorchFunction, is_functorch_wrapped_tensor
from onegraph.torchlib.pytree import leaves_of

_SIGNATURE = inspect.signature(torch.autograd.grad)
_RECORDING = inspect.signature(lambda self, requires_grad=True: None)


@policy(torch.autograd.grad)
def gradient_call(tracer: Tracing, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    given = _SIGNATURE.bind(*args, **kwargs).arguments
    outputs, asked = tensors_of(given["outputs"]), tensors_of(given["inputs"])
    if not any(map(is_functorch_wrapped_tensor, outputs)):
        for tensor in outputs:
            if not has_history(tensor):
                raise GraphBreak(GRADIENT_CALL, name="torch.autograd.grad", what="torch.autograd.grad")
        known = [tensor for tensor in asked if tracer.recorder.is_input(tensor)]
        for each in tracer.recorder.inputs:
            if each.recorded and not (len(known) == 1 and each.fake is known[0]):
                require_leaf(tracer, each)
    found: Any = tracer.run_native(torch.autograd.grad, args, kwargs)
    return found


@policy(torch.Tensor.requires_grad_)
def record_gradients(tracer: Tracing, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Of a tensor that the graph has made it is an operation of the graph; an input has been given it outside."""
    given = _RECORDING.bind(*args, **kwargs)
    given.apply_defaults()
    tensor, records = given.args
    with DisableTorchFunction():
        same = tensor.requires_grad is records
    if same and (records or not has_history(tensor)):
        return tensor
    if id(tensor) not in tracer.recorder.nodes or tracer.recorder.is_input(tensor):
        raise GraphBreak(REQUIRES_GRAD, name="Tensor.requires_grad_", what="Tensor.requires_grad_")
    found: Any = tracer.run_native(torch.Tensor.requires_grad_, args, kwargs)
    return found


def tensors_of(value: Any) -> list[torch.Tensor]:
    return [leaf for leaf in leaves_of(value) if isinstance(leaf, torch.Tensor)]


def has_history(tensor: torch.Tensor) -> bool:
    with DisableTorchFunction():
        return tensor.grad_fn is not None


def require_leaf(tracer: Tracing, each: Any) -> None:
    """Guard that an input is a leaf that no hook looks at; break the graph if it is not."""
    world, real = tracer.world, each.example
    with DisableTorchFunction():
        hooks = real._backward_hooks
        known = real.is_leaf and not hooks
    if not known:
        raise GraphBreak(GRADIENT_CALL, name="torch.autograd.grad", what="torch.autograd.grad")
    origin = world.origin[id(each.fake)]
    world.admit(True, Attr(origin, "is_leaf"))
    world.admit(hooks, Attr(origin, "_backward_hooks"))
