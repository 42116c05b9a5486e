"""`torch.utils.checkpoint` in the graph: the function is a part of it, and what it computes is not kept.

The backward pass computes it again from what the function is given. The function itself runs once, where eager runs it
again in the backward pass. A selective one is asked of each operator of the graph whether it is to be kept.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import torch
from torch.utils import checkpoint

from onegraph.capture.breaks import CHECKPOINT as CHECKPOINT_BREAK
from onegraph.capture.breaks import GraphBreak
from onegraph.capture.calls.registry import policy
from onegraph.capture.calls.tracing import Tracing
from onegraph.capture.pyobject.exact_types import isinstance
from onegraph.torchlib.graph import Checkpoint
from onegraph.torchlib.histories import is_recorded
from onegraph.torchlib.state import untraced

_SEQUENTIAL = inspect.unwrap(checkpoint.checkpoint_sequential)
#: Those that say how eager computes again.
ABOUT_EAGER = ("determinism_check", "early_stop")


@policy(checkpoint.checkpoint)
def checkpointed(tracer: Tracing, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    options = dict(kwargs)
    reentrant = options.pop("use_reentrant", None)
    if type(reentrant) is not bool or not args:
        raise refused("without use_reentrant")
    if reentrant and torch.is_grad_enabled() and not any(map(has_gradients, args[1:])):
        raise refused("with use_reentrant=True, and no argument that has gradients")
    if options.pop("debug", False):
        raise refused("with debug")
    for name in ABOUT_EAGER:
        options.pop(name, None)
    preserves = options.pop("preserve_rng_state", True)
    recorder, effects = tracer.recorder, tracer.recorder.fake.effects
    keeps = kept_by(tracer, options.pop("context_fn", checkpoint.noop_context_fn))
    before, recorder.checkpoint = recorder.checkpoint, Checkpoint(keeps)
    drawn, effects.random = effects.random, False
    try:
        result = tracer.call(args[0], args[1:], options)
        if effects.random and not preserves:
            raise refused("with preserve_rng_state=False, of a function that draws random numbers")
        return result
    finally:
        recorder.checkpoint, effects.random = before, drawn or effects.random


def has_gradients(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and is_recorded(value)


def kept_by(tracer: Tracing, context: Any) -> Callable[..., bool] | None:
    """What a selective checkpoint keeps: its contexts are those of `create_selective_checkpoint_contexts`."""
    if context is checkpoint.noop_context_fn:
        return None
    tracer.world.realize_deep(context)
    with untraced():
        contexts = tracer.world.real(context)()
    chooses = getattr(contexts[0], "policy_fn", None) if isinstance(contexts, tuple) and contexts else None
    if chooses is None:
        raise refused("with context_fn")

    def keeps(operator: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
        asked = checkpoint.SelectiveCheckpointContext(is_recompute=False)
        return chooses(asked, operator, *args, **kwargs) in KEPT

    return keeps


KEPT = (True, checkpoint.CheckpointPolicy.MUST_SAVE, checkpoint.CheckpointPolicy.PREFER_SAVE)


@policy(checkpoint.checkpoint_sequential)
def checkpointed_in_segments(tracer: Tracing, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    return tracer.interpret(_SEQUENTIAL, args, kwargs)


def refused(why: str) -> GraphBreak:
    return GraphBreak(CHECKPOINT_BREAK, name="torch.utils.checkpoint.checkpoint", what="checkpoint", why=why)
