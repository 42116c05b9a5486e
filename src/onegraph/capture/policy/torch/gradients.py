"""`torch.autograd.grad` and `backward` in the graph: they differentiate what it has computed, so a call is a node.

What was computed outside has a history that the graph does not know. So the inputs of the graph that have
gradients must be leaves, or the only input of the graph for which gradients are asked, where a gradient ends anyway.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import partial
from typing import Any

import torch

from onegraph.capture.breaks import BACKWARD_CALL, GRADIENT_CALL, REQUIRES_GRAD, GraphBreak
from onegraph.capture.calls.registry import policy
from onegraph.capture.calls.tracing import Tracing
from onegraph.capture.guards.source import Attr
from onegraph.torchlib.private import DisableTorchFunction, is_functorch_wrapped_tensor
from onegraph.torchlib.pytree import leaves_of
from onegraph.torchlib.strides import is_certainly_dense
from onegraph.torchlib.transforms import accumulate

_GRAD = inspect.signature(torch.autograd.grad)
_BACKWARD = inspect.signature(torch.Tensor.backward)
_BACKWARDS = inspect.signature(torch.autograd.backward)
#: What looks at the gradients of a leaf.
HOOKS = ("_backward_hooks", "_post_accumulate_grad_hooks")
_RECORDING = inspect.signature(lambda self, requires_grad=True: None)


@policy(torch.autograd.grad)
def gradient_call(tracer: Tracing, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    given = _GRAD.bind(*args, **kwargs).arguments
    outputs, asked = tensors_of(given["outputs"]), tensors_of(given["inputs"])
    if not any(map(is_functorch_wrapped_tensor, outputs)):
        refused = partial(GraphBreak, GRADIENT_CALL, name="torch.autograd.grad", what="torch.autograd.grad")
        require_computed_here(outputs, refused)
        known = [tensor for tensor in asked if tracer.recorder.is_input(tensor)]
        for each in tracer.recorder.inputs:
            if each.recorded and not (len(known) == 1 and each.fake is known[0]):
                require_leaf(tracer, each, refused)
    found: Any = tracer.run_native(torch.autograd.grad, args, kwargs)
    return found


@policy(torch.Tensor.backward)
def backward_of(tracer: Tracing, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    given = _BACKWARD.bind(*args, **kwargs).arguments
    gradient = given.pop("gradient", None)
    tracer.call(torch.autograd.backward, (given.pop("self"), gradient), given)


@policy(torch.autograd.backward)
def backward(tracer: Tracing, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """The gradients of all leaves, each of which is accumulated as eager does."""
    given = _BACKWARDS.bind(*args, **kwargs).arguments
    outputs = tensors_of(given["tensors"])
    refused = partial(GraphBreak, BACKWARD_CALL, name="backward", what="backward")
    for option in ("create_graph", "inputs", "grad_variables"):
        value = given.get(option)
        if value is not None and value is not False:
            raise refused(why=f"with {option}")
    require_computed_here(outputs, refused)
    inputs = [each for each in tracer.recorder.inputs if each.recorded]
    for each in inputs:
        require_leaf(tracer, each, refused)
    leaves = [*(each.fake for each in inputs), *tracer.recorder.made_leaves()]
    if not leaves or any(map(is_functorch_wrapped_tensor, outputs)):
        raise refused(why="of what was computed from no leaf")
    options = {"retain_graph": bool(given.get("retain_graph")), "allow_unused": True}
    found = tracer.run_native(torch.autograd.grad, (outputs, leaves, given.get("grad_tensors")), options)
    for leaf, gradient in zip(leaves, found, strict=True):
        if gradient is not None:
            with DisableTorchFunction():
                is_dense = is_certainly_dense(leaf)
            tracer.call(accumulate, (leaf, gradient, is_dense), {})


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


def require_computed_here(outputs: list[torch.Tensor], refused: Callable[..., GraphBreak]) -> None:
    """Raise the graph break of what has no history in the graph."""
    if not all(map(has_history, outputs)):
        raise refused(why="of what was computed outside")


def require_leaf(tracer: Tracing, each: Any, refused: Callable[..., GraphBreak]) -> None:
    """Guard that an input is a leaf that no hook looks at; raise the graph break if it is not."""
    real, origin = each.example, tracer.world.origin[id(each.fake)]
    with DisableTorchFunction():
        facts = {name: getattr(real, name) for name in ("is_leaf", *HOOKS)}
    if not facts.pop("is_leaf") or any(hooks is not None for hooks in facts.values()):
        raise refused(why=f"through the input {each.name}, which was computed outside or has hooks")
    tracer.world.admit(True, Attr(origin, "is_leaf"))
    for name, hooks in facts.items():
        tracer.world.admit(hooks, Attr(origin, name))
