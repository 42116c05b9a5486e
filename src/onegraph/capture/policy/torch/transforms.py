"""torch.vmap: its levels are state that the function mode does not see, so entering and leaving them become nodes.

What runs in between is recorded as the program wrote it, over batched tensors; replayed, the same levels batch it.
"""

from __future__ import annotations

from typing import Any

import torch

from onegraph.capture.calls.registry import policy
from onegraph.capture.calls.tracing import Tracing
from onegraph.torchlib.private import FUNCTORCH, DisableTorchFunction, predispatch

native = FUNCTORCH
functions = predispatch


@policy(functions._vmap_increment_nesting)
def enter_level(tracer: Tracing, args: tuple[Any, ...], kwargs: dict[str, Any]) -> int:
    level = native._vmap_increment_nesting(*args)
    node = tracer.recorder.graph.call_function(native._vmap_increment_nesting, tracer.recorder.as_argument(args))
    tracer.open_levels[level] = node
    return level


@policy(functions._vmap_decrement_nesting)
def leave_level(tracer: Tracing, args: tuple[Any, ...], kwargs: dict[str, Any]) -> int:
    level = native._vmap_decrement_nesting()
    tracer.recorder.graph.call_function(native._vmap_decrement_nesting)
    del tracer.open_levels[level]
    return level


@policy(functions._add_batch_dim)
def batch(tracer: Tracing, args: tuple[Any, ...], kwargs: dict[str, Any]) -> torch.Tensor:
    tensor, dim, level = args
    dim = dim + tensor.dim() if dim < 0 else dim
    return noted(tracer, native._add_batch_dim, tensor, (dim, level), (dim, tracer.open_levels[level]))


@policy(functions._remove_batch_dim)
def unbatch(tracer: Tracing, args: tuple[Any, ...], kwargs: dict[str, Any]) -> torch.Tensor:
    tensor, level, size, dim = args
    return noted(tracer, native._remove_batch_dim, tensor, (level, size, dim), (tracer.open_levels[level], size, dim))


def noted(tracer: Tracing, function: Any, tensor: torch.Tensor, now: tuple[Any, ...], later: tuple[Any, ...]) -> Any:
    """Call a function that the mode does not see, and record it; `later` names the level by its node."""
    recorder = tracer.recorder
    with DisableTorchFunction():
        result = function(tensor, *now)
    node = recorder.graph.call_function(function, recorder.as_argument((tensor, *later)))
    recorder.bind_result(node, result)
    return result


@policy(functions.lazy_load_decompositions)
def load_decompositions(tracer: Tracing, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """They are for operators without a batching rule; torch loads them when the graph runs."""
