"""DistributedDataParallel: the module that it holds is captured, what it does around it stays outside of the graph.

What comes before the forward pass runs before the graph, so it must not matter what the graph has done until then. The
gradients are reduced while a backward pass runs, so that is eager's, and no part of a graph.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.nn.parallel import DistributedDataParallel

from onegraph.capture.breaks import COMMUNICATION, GraphBreak
from onegraph.capture.calls.registry import policy
from onegraph.capture.calls.tracing import Tracing
from onegraph.capture.interp.rests import Rest
from onegraph.capture.pyobject.contents import UNFILLED
from onegraph.torchlib import data_parallel, private
from onegraph.torchlib.histories import is_recorded
from onegraph.torchlib.pytree import leaves_of, map_leaves_of

NAME = "DistributedDataParallel.forward"


@policy(DistributedDataParallel.forward, passing=True)
def forward(tracer: Tracing, args: tuple[Any, ...], kwargs: dict[str, Any], rest: Rest | None) -> Any:
    ddp = args[0]
    within = tracer.open_levels or tracer.recorder.checkpoint is not None
    seen = tracer.world.origin.get(id(ddp)) is not None and tracer.world.attributes(ddp) is not None
    if not seen or within or not private.DATA_PARALLEL.is_there:
        raise GraphBreak(COMMUNICATION, name=NAME)
    real = tracer.world.real(ddp)
    buffers = {id(buffer) for buffer in real.module.buffers()}
    # Another time, or behind a look at what is written to before the forward pass:
    looked_at = any(held[0] is ddp for _, held, _ in tracer.preparations)
    looked_at = looked_at or tracer.recorder.fake.effects.unknown  # it may have communicated: all ranks do so in order
    looked_at = looked_at or any(id(given.example) in buffers for given in tracer.recorder.inputs)
    hooked = tracer.world.present(tracer.world.attributes(ddp), "buffer_hook")
    if looked_at or hooked or any(tracer.getattr(ddp, name) for name in data_parallel.UNKNOWN):
        raise GraphBreak(COMMUNICATION, name=NAME)
    return tracer.call(data_parallel.forward, args, kwargs, rest)


@policy(data_parallel.prepare)
def prepare(tracer: Tracing, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    for name in data_parallel.BUCKETS:
        tracer.getattr(args[0], name)  # the backward graph is cut by it
    tracer.preparations.append((data_parallel.prepared, (args[0], *state(tracer, args[0])), {}))


@policy(data_parallel.finish)
def finish(tracer: Tracing, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    ddp, output = args
    watched: tuple[torch.Tensor, ...] = ()
    if tracer.getattr(ddp, "find_unused_parameters") or tracer.getattr(ddp, "static_graph"):
        output = map_leaves_of(lambda value: seen_apart(tracer, value), output)
        watched = tuple(value for value in leaves_of(output) if has_gradient(value))
    tracer.effects.append((data_parallel.finished, (ddp, *state(tracer, ddp), *watched), {}))
    return output


def state(tracer: Tracing, ddp: Any) -> tuple[bool | None, bool]:
    """Whether gradients are reduced, None if the trace has not asked, and recorded, at this place of the program."""
    sync = tracer.world.attributes(ddp).get("require_backward_grad_sync", UNFILLED)
    return None if sync is UNFILLED else sync, torch.is_grad_enabled()


def seen_apart(tracer: Tracing, value: Any) -> Any:
    """The output itself is not what the module gives, but a copy."""
    return tracer.call(torch.clone, (value,), {}) if has_gradient(value) else value


def has_gradient(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and is_recorded(value)
