"""`torch.utils.checkpoint` in the graph: the function is a part of it, and what it computes is not kept.

The backward pass computes it again from what the function is given. The function itself runs once, where eager runs it
again in the backward pass.
"""

from __future__ import annotations

import inspect
from typing import Any

from torch.utils import checkpoint

from onegraph.capture.breaks import CHECKPOINT as CHECKPOINT_BREAK
from onegraph.capture.breaks import GraphBreak
from onegraph.capture.calls.registry import policy
from onegraph.capture.calls.tracing import Tracing

_SEQUENTIAL = inspect.unwrap(checkpoint.checkpoint_sequential)
#: The options with which a checkpoint is what it is without them.
PLAIN = {"context_fn": checkpoint.noop_context_fn, "debug": False, "preserve_rng_state": True}
#: Those that say how eager computes again.
ABOUT_EAGER = ("determinism_check", "early_stop")


@policy(checkpoint.checkpoint)
def checkpointed(tracer: Tracing, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    options = dict(kwargs)
    if options.pop("use_reentrant", None) is not False or not args:
        raise refused("without use_reentrant=False")
    for name, value in PLAIN.items():
        if options.pop(name, value) is not value:
            raise refused(f"with {name}")
    for name in ABOUT_EAGER:
        options.pop(name, None)
    recorder, function = tracer.recorder, args[0]
    before, recorder.checkpoint = recorder.checkpoint, len(recorder.graph.nodes)
    try:
        return tracer.call(function, args[1:], options)
    finally:
        recorder.checkpoint = before


@policy(checkpoint.checkpoint_sequential)
def checkpointed_in_segments(tracer: Tracing, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    return tracer.interpret(_SEQUENTIAL, args, kwargs)


def refused(why: str) -> GraphBreak:
    return GraphBreak(CHECKPOINT_BREAK, name="torch.utils.checkpoint.checkpoint", what="checkpoint", why=why)
