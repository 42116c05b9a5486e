"""Hooks of tensors, and tensors that keep their gradients.

What registers a hook takes note of it: it is registered for real behind the graph (`heap/hooks.py`). A backward pass in
compiled code calls it where it would be called (`gradients.py`).
"""

from __future__ import annotations

import inspect
from typing import Any

import torch
from torch.utils.hooks import RemovableHandle

from onegraph.capture.breaks import TENSOR_HOOK, GraphBreak
from onegraph.capture.calls.registry import policy
from onegraph.capture.calls.tracing import Tracing
from onegraph.capture.heap.hooks import Hook
from onegraph.torchlib.histories import is_recorded
from onegraph.torchlib.hooked import history_of
from onegraph.torchlib.private import is_functorch_wrapped_tensor

_REGISTER = inspect.signature(torch.Tensor.register_hook)
_POST = torch.Tensor.register_post_accumulate_grad_hook


@policy(torch.Tensor.register_hook)
def register(tracer: Tracing, args: tuple[Any, ...], kwargs: dict[str, Any]) -> RemovableHandle:
    tensor, function = _REGISTER.bind(*args, **kwargs).args
    return registered(tracer, torch.Tensor.register_hook, tensor, function)


@policy(_POST)
def register_post(tracer: Tracing, args: tuple[Any, ...], kwargs: dict[str, Any]) -> RemovableHandle:
    tensor, function = _REGISTER.bind(*args, **kwargs).args
    if is_recorded(tensor) and not tracer.getattr(tensor, "is_leaf"):
        raise RuntimeError("post accumulate grad hooks cannot be registered on non-leaf tensors")
    return registered(tracer, _POST, tensor, function)


def registered(tracer: Tracing, how: Any, tensor: torch.Tensor, function: Any) -> RemovableHandle:
    if not is_recorded(tensor):
        raise RuntimeError("cannot register a hook on a tensor that doesn't require gradient")
    require_plain(tracer, f"Tensor.{how.__name__}", tensor)
    handle = RemovableHandle.__new__(RemovableHandle)
    tracer.note_birth(handle)
    tracer.world.hooks.add(Hook(how, tensor, function, handle, history_of(tensor), tracer.step()))
    return handle


def require_plain(tracer: Tracing, name: str, tensor: torch.Tensor) -> None:
    """Break the graph where a hook would run in more than one backward pass, or of a tensor that is none outside."""
    if tracer.open_levels or is_functorch_wrapped_tensor(tensor):
        raise GraphBreak(TENSOR_HOOK, name=name, why="under a transform of torch.func")
    if tracer.recorder.checkpoint is not None:
        raise GraphBreak(TENSOR_HOOK, name=name, why="in a checkpoint, which computes the tensor again")
    if history_of(tensor) is None:
        raise GraphBreak(TENSOR_HOOK, name=name, why="on a view of which autograd does not tell the history")


@policy(RemovableHandle.remove)
def remove(tracer: Tracing, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    hooks = tracer.world.hooks
    if id(args[0]) in hooks.handles:
        hooks.remove(args[0])
    else:
        tracer.interpret(RemovableHandle.remove, args, kwargs)


@policy(RemovableHandle.__enter__)
def enter(tracer: Tracing, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    return args[0]


@policy(RemovableHandle.__exit__)
def leave(tracer: Tracing, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    tracer.call(RemovableHandle.remove, args[:1], {})


@policy(torch.Tensor.retain_grad)
def retain(tracer: Tracing, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    (tensor,) = args
    if not is_recorded(tensor):
        raise RuntimeError("can't retain_grad on Tensor that has requires_grad=False")
    hooks = tracer.world.hooks
    if tracer.getattr(tensor, "is_leaf") or any(tensor is each for each in hooks.retaining):
        return
    require_plain(tracer, "Tensor.retain_grad", tensor)
    hooks.retaining.append(tensor)
    if not tracer.recorder.is_input(tensor):
        tracer.world.gradients[tensor] = None  # which is read without a warning from now on
