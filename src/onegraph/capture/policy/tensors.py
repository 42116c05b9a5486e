"""Torch functions that tracing must know more about than their operations."""

from __future__ import annotations

from typing import Any

import torch
from torch.amp import autocast_mode

from onegraph.capture.breaks import HIGHER_ORDER, NONDETERMINISTIC, OPAQUE_OBJECT, STATE_CHANGE, GraphBreak
from onegraph.capture.policy.registry import breaks, native, policy
from onegraph.capture.texts import MARK

breaks(STATE_CHANGE, torch.set_default_dtype, torch.set_default_device, torch.use_deterministic_algorithms)
breaks(STATE_CHANGE, torch.set_num_threads, torch.set_default_tensor_type)
breaks(NONDETERMINISTIC, torch.manual_seed, torch.seed, torch.initial_seed, torch.get_rng_state, torch.set_rng_state)
breaks(
    HIGHER_ORDER, torch.func.grad, torch.func.jacrev, torch.func.jacfwd, torch.func.hessian, torch.func.functional_call
)
breaks(HIGHER_ORDER, torch.func.jvp, torch.func.vjp, torch.func.linearize, torch.autograd.grad, torch.autograd.backward)
breaks(HIGHER_ORDER, torch.Tensor.backward)
breaks(HIGHER_ORDER, torch.Tensor.register_hook, torch.Tensor.register_post_accumulate_grad_hook)
breaks(HIGHER_ORDER, torch.autograd.graph.saved_tensors_hooks, torch.autograd.graph.save_on_cpu)
breaks(HIGHER_ORDER, torch.autograd.graph.saved_tensors_hooks.__enter__)
breaks(HIGHER_ORDER, torch.autograd.graph.saved_tensors_hooks.__exit__)
breaks(HIGHER_ORDER, torch.autograd.graph.register_multi_grad_hook, torch.autograd.functional.jacobian)
breaks(HIGHER_ORDER, torch.autograd.functional.hessian, torch.autograd.functional.vjp, torch.autograd.functional.jvp)
breaks(HIGHER_ORDER, torch.Tensor.requires_grad_, torch.Tensor.retain_grad)
breaks(STATE_CHANGE, torch.inference_mode, torch.set_float32_matmul_precision, torch.autograd.set_detect_anomaly)
breaks(HIGHER_ORDER, torch.utils.checkpoint.checkpoint, torch.utils.checkpoint.checkpoint_sequential)
native("deep", torch.broadcast_shapes, torch.is_tensor, torch.is_floating_point, torch.finfo, torch.iinfo)


@policy(torch.compiler.is_compiling, torch.compiler.is_dynamo_compiling)
def compiling(tracer: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    return True


@policy(torch.jit.is_scripting, torch.jit.is_tracing, torch._jit_internal.is_scripting)
def scripting(tracer: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    return False


@policy(torch._check_tensor_all)
def check_all(tracer: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """The check is made when the graph runs. Its message may print tensors, which the graph cannot."""
    message = kwargs.get("message", args[1] if len(args) > 1 else None)
    text = "Expected cond to be True" if message is None else tracer.convert(tracer.call(message, (), {}), "str")
    torch._assert_async(args[0].all(), MARK.sub("<a tensor>", text))


class ForwardContext:
    """The `ctx` of a custom function's forward when no gradient will ask for what it saves."""

    needs_input_grad = ()

    def nothing(self, *args: Any) -> None:
        """What is said for the backward is not needed."""

    save_for_backward = save_for_forward = mark_dirty = mark_non_differentiable = set_materialize_grads = nothing


@policy(torch.autograd.Function.apply.__func__)
def apply(tracer: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Where no gradients are recorded, a custom function is its forward."""
    cls, *inputs = args
    if torch.is_grad_enabled():
        raise GraphBreak(HIGHER_ORDER, name=f"{cls.__name__}.apply")
    forward = tracer.getattr(cls, "forward")
    if cls.setup_context is torch.autograd.Function.setup_context:
        result = tracer.call(forward, (ForwardContext(), *inputs), kwargs)
    else:
        result = tracer.call(forward, tuple(inputs), kwargs)
        tracer.call(tracer.getattr(cls, "setup_context"), (ForwardContext(), tuple(inputs), result), {})
    if any(result is value for value in inputs):
        raise GraphBreak(HIGHER_ORDER, name=f"{cls.__name__}.apply, which returns its input")
    return result


@policy(autocast_mode.autocast.__enter__)
def enter_autocast(tracer: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Autocast is state that the function mode does not see: its ends become nodes of the graph."""
    mode = args[0]
    values = (mode.device, mode.fast_dtype, mode._enabled, mode._cache_enabled)
    node = tracer.recorder.graph.call_function(autocast_mode._enter_autocast, values)
    tracer.open_autocasts.append((mode, node))
    with torch._C.DisableTorchFunction():
        return autocast_mode.autocast.__enter__(mode)


@policy(autocast_mode.autocast.__exit__)
def exit_autocast(tracer: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    mode, *exception = args
    if not tracer.open_autocasts or tracer.open_autocasts[-1][0] is not mode:
        raise GraphBreak(OPAQUE_OBJECT, what="an autocast context that was entered outside")
    _, node = tracer.open_autocasts.pop()
    tracer.recorder.graph.call_function(autocast_mode._exit_autocast, (node,))
    with torch._C.DisableTorchFunction():
        return autocast_mode.autocast.__exit__(mode, *exception)
