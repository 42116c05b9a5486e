"""Transforms of functions: their levels are state that the function mode does not see, so entering and leaving them
become nodes, and what lifts tensors to a level and takes them down.

What runs in between is recorded as the program wrote it, over batched tensors, tensors of a level that differentiates,
and dual numbers; replayed, the same levels do the same. torch's own Python code of the transforms is interpreted.
"""

from __future__ import annotations

import contextlib
from typing import Any

import torch
from torch.autograd import forward_ad

from onegraph.capture.breaks import FUNCTION_TRANSFORM, GRADIENT_CALL, SAVED_TENSOR_HOOKS, GraphBreak
from onegraph.capture.calls.registry import breaks, policy
from onegraph.capture.calls.tracing import Tracing
from onegraph.torchlib.private import (
    TRANSFORMS,
    VMAP,
    DisableTorchFunction,
    enter_dual,
    enter_dual_level,
    leave_dual,
    leave_dual_level,
    make_dual,
    make_dual_native,
    record_forward,
    unpack_dual,
    unpack_dual_native,
    vmap_impl,
)
from onegraph.torchlib.pytree import leaves_of
from onegraph.torchlib.transforms import derivative_at, differentiable, gradients, standard_basis

if not VMAP.is_there:
    breaks(FUNCTION_TRANSFORM, torch.vmap, vmap_impl)
if not TRANSFORMS.is_there:
    breaks(FUNCTION_TRANSFORM, torch.func.grad, torch.func.grad_and_value, torch.func.jvp, torch.func.vjp)
    breaks(FUNCTION_TRANSFORM, torch.func.jacrev, torch.func.jacfwd, torch.func.hessian, torch.func.linearize)


def entered(tracer: Tracing, function: Any, *args: Any) -> int:
    """Enter a level, now and when the graph runs."""
    level: int = function(*args)
    node = tracer.recorder.graph.call_function(function, tracer.recorder.as_argument(args))
    tracer.open_levels[level] = node
    return level


def left(tracer: Tracing, function: Any) -> int:
    """Leave the level that was entered last, now and when the graph runs."""
    level: int = function()
    tracer.recorder.graph.call_function(function)
    del tracer.open_levels[level]
    return level


@policy(VMAP.increment)
def enter_level(tracer: Tracing, args: tuple[Any, ...], kwargs: dict[str, Any]) -> int:
    return entered(tracer, VMAP.increment_native, *args)


@policy(VMAP.decrement)
def leave_level(tracer: Tracing, args: tuple[Any, ...], kwargs: dict[str, Any]) -> int:
    return left(tracer, VMAP.decrement_native)


@policy(VMAP.add)
def batch(tracer: Tracing, args: tuple[Any, ...], kwargs: dict[str, Any]) -> torch.Tensor:
    tensor, dim, level = args
    dim = dim + tensor.dim() if dim < 0 else dim
    return noted(tracer, VMAP.add_native, tensor, (dim, level), (dim, tracer.open_levels[level]))


@policy(VMAP.remove)
def unbatch(tracer: Tracing, args: tuple[Any, ...], kwargs: dict[str, Any]) -> torch.Tensor:
    tensor, level, size, dim = args
    return noted(tracer, VMAP.remove_native, tensor, (level, size, dim), (tracer.open_levels[level], size, dim))


def noted(
    tracer: Tracing, function: Any, tensor: torch.Tensor, now: tuple[Any, ...], later: tuple[Any, ...]
) -> torch.Tensor:
    """Call a function that the mode does not see, and record it; `later` names the level by its node.

    What has not changed since it was lifted to a level is the tensor that was given, of its class.
    """
    recorder = tracer.recorder
    with DisableTorchFunction():
        result: torch.Tensor = function(tensor, *now)
    node = recorder.graph.call_function(function, recorder.as_argument((tensor, *later)))
    recorder.bind_result(node, result)
    given: torch.Tensor = recorder.handles.handle_of(result)
    return given


@policy(TRANSFORMS.enter_grad)
def enter_grad(tracer: Tracing, args: tuple[Any, ...], kwargs: dict[str, Any]) -> int:
    return entered(tracer, TRANSFORMS.enter_grad)


@policy(TRANSFORMS.leave_grad)
def leave_grad(tracer: Tracing, args: tuple[Any, ...], kwargs: dict[str, Any]) -> int:
    return left(tracer, TRANSFORMS.leave_grad)


@policy(TRANSFORMS.enter_jvp)
def enter_jvp(tracer: Tracing, args: tuple[Any, ...], kwargs: dict[str, Any]) -> int:
    return entered(tracer, TRANSFORMS.enter_jvp_native)


@policy(TRANSFORMS.leave_jvp)
def leave_jvp(tracer: Tracing, args: tuple[Any, ...], kwargs: dict[str, Any]) -> int:
    return left(tracer, TRANSFORMS.leave_jvp_native)


@policy(TRANSFORMS.lift)
def lift(tracer: Tracing, args: tuple[Any, ...], kwargs: dict[str, Any]) -> torch.Tensor:
    tensor, level = args
    return noted(tracer, TRANSFORMS.lift, tensor, (level,), (tracer.open_levels[level],))


@policy(TRANSFORMS.lower)
def lower(tracer: Tracing, args: tuple[Any, ...], kwargs: dict[str, Any]) -> torch.Tensor:
    tensor, level = args
    return noted(tracer, TRANSFORMS.lower_native, tensor, (level,), (tracer.open_levels[level],))


@policy(TRANSFORMS.record)
def record_gradients(tracer: Tracing, args: tuple[Any, ...], kwargs: dict[str, Any]) -> torch.Tensor:
    """It is the same tensor, of which the graph goes on with what this gives: so it cannot be left out."""
    tensor: torch.Tensor = args[0]
    with DisableTorchFunction():
        differentiable(tensor)
    node = tracer.recorder.graph.call_function(differentiable, tracer.recorder.as_argument(args))
    del tracer.recorder.nodes[id(tensor)]
    tracer.recorder.bind_result(node, tensor)
    return tensor


@policy(TRANSFORMS.gradients)
def take_gradients(tracer: Tracing, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """torch's own imports its compiler."""
    return tracer.call(gradients, args, kwargs)


@policy(TRANSFORMS.basis)
def basis_of(tracer: Tracing, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """torch's own, before 2.13, counts in a tensor."""
    return tracer.call(standard_basis, args, kwargs)


@policy(torch.func.linearize)
def linearized(tracer: Tracing, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """torch's own captures a graph, which tracing does anyway; what that depends on is constant in it."""
    if kwargs or not args:
        return tracer.interpret(torch.func.linearize, args, kwargs)
    func, *primals = args
    value = tracer.call(func, tuple(primals), {})
    if any(isinstance(leaf, torch.Tensor) and leaf.requires_grad for leaf in leaves_of(value)):
        raise GraphBreak(FUNCTION_TRANSFORM, name="torch.func.linearize", what="torch.func.linearize")
    return value, tracer.call(derivative_at, (func, tuple(primals)), {})


@policy(torch.func.functionalize)
def functionalized(tracer: Tracing, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """What it leaves out of a program, writes and views, the stages behind capture leave out anyway."""
    torch.func.functionalize(*args, **kwargs)  # which checks its arguments
    return args[0] if args else kwargs["func"]


@policy(torch.autograd.graph.disable_saved_tensors_hooks)
def without_hooks(tracer: Tracing, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Transforms refuse such hooks, which break the graph anyway."""
    if (tracer.frames[-1].globals.get("__name__") or "").startswith("torch._functorch."):
        return contextlib.nullcontext()
    name = "torch.autograd.graph.disable_saved_tensors_hooks"
    raise GraphBreak(SAVED_TENSOR_HOOKS, name=name, what=name)


# ---- dual numbers ----------------------------------------------------------------------------------------------------


def _follows_levels(function: Any) -> None:
    """Where the graph ends while a level is open, it ends in front of the step that has opened it: what follows runs
    for real, as a whole."""

    @policy(function)
    def call(tracer: Tracing, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if not tracer.open_levels and tracer.dual_step is None:
            tracer.dual_step = tracer.step()
        return tracer.interpret(function, args, kwargs)


for _function in (forward_ad.enter_dual_level, forward_ad.dual_level.__enter__):
    _follows_levels(_function)


def refuse_open_level(tracer: Tracing) -> None:
    """Break the graph that ends while dual numbers are open."""
    if tracer.dual_step is not None:
        name = "forward_ad.dual_level"
        broken = GraphBreak(GRADIENT_CALL, name=name, what=name, why="which is open where the graph ends")
        broken.born = tracer.dual_step
        raise broken


@policy(*{enter_dual, enter_dual_level})
def dual_entered(tracer: Tracing, args: tuple[Any, ...], kwargs: dict[str, Any]) -> int:
    level: int = enter_dual_level()
    tracer.recorder.graph.call_function(enter_dual_level)
    return level


@policy(*{leave_dual, leave_dual_level})
def dual_left(tracer: Tracing, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    leave_dual_level(*args, **kwargs)
    tracer.recorder.graph.call_function(leave_dual_level, args, kwargs)
    if not tracer.open_levels:
        tracer.dual_step = None


@policy(make_dual)
def dual_made(tracer: Tracing, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    return tracer.run_native(make_dual_native, args, kwargs)


@policy(unpack_dual)
def dual_unpacked(tracer: Tracing, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    return tracer.run_native(unpack_dual_native, args, kwargs)


@policy(record_forward)
def set_forward(tracer: Tracing, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    record_forward(*args)
    tracer.recorder.graph.call_function(record_forward, args)


@policy(VMAP.load)
def load_decompositions(tracer: Tracing, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """They are for operators without a batching rule; torch loads them when the graph runs."""
