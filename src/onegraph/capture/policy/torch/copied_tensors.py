"""Tensors that are made of tensors: copies, of which torch warns each time that it is asked for one like this."""

from __future__ import annotations

import warnings
from functools import cache
from typing import Any

import torch

from onegraph.capture.calls.tracing import Tracing
from onegraph.torchlib import warned
from onegraph.torchlib.state import untraced

#: The options of a copy. The others make it a leaf, or choose its memory.
OPTIONS = frozenset({"dtype", "device"})


@cache
def warning_of(function: Any, count: int) -> Warning | None:
    """What a function says where the last of its arguments, which are tensors, is to be copied."""
    samples = [torch.zeros(()) for _ in range(count)]
    try:
        with warned.raised():
            function(*samples)
    except Warning as warning:
        return warning
    return None


def copied(tracer: Tracing, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """What `torch.tensor` or `new_tensor` make of a tensor; None where it is to be made by torch.

    The graph has the copy that the warning recommends, and the warning is given behind the graph.
    """
    if not (args and isinstance(args[-1], torch.Tensor)) or kwargs.keys() - OPTIONS or warned.are_errors():
        return None
    with untraced():
        said = warning_of(function, len(args))
    if said is not None:
        tracer.call(warnings.warn, (str(said), type(said)), {})
    defaults = {} if len(args) == 1 else {"dtype": args[0].dtype, "device": args[0].device}
    return args[-1].detach().to(**{**defaults, **kwargs}, copy=True)
