"""`flex_attention` in the graph: its functions of numbers run under `torch.vmap`, as torch's own do in eager mode."""

from __future__ import annotations

from typing import Any

from onegraph.capture.calls.registry import policy
from onegraph.capture.calls.tracing import Tracing
from onegraph.torchlib import private
from onegraph.torchlib.flexible_attention import attention, mask_of


@policy(private.FLEX_ATTENTION)
def attend(tracer: Tracing, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    return tracer.interpret(attention, args, kwargs)


@policy(private.create_mask)
def create_mask(tracer: Tracing, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The part of `create_block_mask` that calls the function of the user."""
    named = tracer.bind(private.create_mask, args, kwargs)
    kind = tracer.interpret(private.kind_of_modification, (named["mod_fn"],), {})
    return tracer.interpret(mask_of, (*named.values(), 4 if kind.name == "MASK_MOD" else 5), {})
