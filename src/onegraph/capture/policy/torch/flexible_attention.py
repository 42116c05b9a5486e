"""`flex_attention` in the graph: its functions of numbers run under `torch.vmap`, as torch's own do in eager mode.

The module of torch is known by name: to import it takes long.
"""

from __future__ import annotations

from typing import Any

from onegraph.capture.calls.registry import policy
from onegraph.capture.calls.tracing import Tracing
from onegraph.capture.directives.skipped_code import BESIDE
from onegraph.capture.interp.rests import Rest
from onegraph.capture.policy.torch.control_flow import call_whole
from onegraph.torchlib import private
from onegraph.torchlib.flexible_attention import attention, mask_of

MODULE = "torch.nn.attention.flex_attention"


def attend(tracer: Tracing, rest: Rest | None, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """`flex_attention`, which checks its arguments, and calls the operator below."""
    BESIDE.add(function.__code__)
    return call_whole(function, "flex_attention", tracer, args, kwargs)


@policy(private.FLEX_ATTENTION)
def compute(tracer: Tracing, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    return tracer.interpret(attention, args, kwargs)


def make_mask(tracer: Tracing, rest: Rest | None, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """`create_mask`, the part of `create_block_mask` that calls the function of the user."""
    named = tracer.bind(function, args, kwargs)
    kind = tracer.interpret(function.__globals__["_get_mod_type"], (named["mod_fn"],), {})
    return tracer.interpret(mask_of, (*named.values(), 4 if kind.name == "MASK_MOD" else 5), {})


def has_no_symbols(
    tracer: Tracing, rest: Rest | None, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> bool:
    """`has_free_unbacked_symbols`: torch's own compiler has such, which it can ask nothing."""
    return False
