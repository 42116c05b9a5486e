"""torch.vmap: its levels are state that the function mode does not see, so entering and leaving them become nodes.

What runs in between is recorded as the program wrote it, over batched tensors; replayed, the same levels batch it.
"""

from __future__ import annotations

from typing import Any

import torch

from onegraph.capture.breaks import FUNCTION_TRANSFORM
from onegraph.capture.calls.registry import breaks, policy
from onegraph.capture.calls.tracing import Tracing
from onegraph.torchlib.private import VMAP, DisableTorchFunction, vmap_impl

if not VMAP.is_there:
    breaks(FUNCTION_TRANSFORM, torch.vmap, vmap_impl)


@policy(VMAP.increment)
def enter_level(tracer: Tracing, args: tuple[Any, ...], kwargs: dict[str, Any]) -> int:
    level: int = VMAP.increment_native(*args)
    node = tracer.recorder.graph.call_function(VMAP.increment_native, tracer.recorder.as_argument(args))
    tracer.open_levels[level] = node
    return level


@policy(VMAP.decrement)
def leave_level(tracer: Tracing, args: tuple[Any, ...], kwargs: dict[str, Any]) -> int:
    level: int = VMAP.decrement_native()
    tracer.recorder.graph.call_function(VMAP.decrement_native)
    del tracer.open_levels[level]
    return level


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
    """Call a function that the mode does not see, and record it; `later` names the level by its node."""
    recorder = tracer.recorder
    with DisableTorchFunction():
        result: torch.Tensor = function(tensor, *now)
    node = recorder.graph.call_function(function, recorder.as_argument((tensor, *later)))
    recorder.bind_result(node, result)
    return result


@policy(VMAP.load)
def load_decompositions(tracer: Tracing, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """They are for operators without a batching rule; torch loads them when the graph runs."""
