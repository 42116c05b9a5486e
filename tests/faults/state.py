"""The state of the process, which no accident in a compilation may change."""

from __future__ import annotations

import gc
import signal
import warnings
from typing import Any

import torch

import onegraph
from onegraph import _C
from onegraph.torchlib import private
from onegraph.torchlib.warned import OfThread


def state() -> dict[str, Any]:
    """What must be as before."""
    return {
        "is_compiling": onegraph.is_compiling(),
        "collector": gc.isenabled(),
        "grad mode": torch.is_grad_enabled(),
        "function modes": len(private.function_mode_stack()),
        "dispatch modes": len(private.dispatch_mode_stack()),
        "torch function": private.get_torch_function_state(),
        "transforms": private.transforms_depth(),
        "default dtype": torch.get_default_dtype(),
        "autocast cache": torch.is_autocast_cache_enabled(),
        "hooks": private.top_saved_tensors_hooks(False),
        "filters": sum(type(rule[3]) is OfThread for rule in warnings.filters),
        "warn always": torch.is_warn_always_enabled(),
        "context": _C.current_context(),
        "working": is_working(),
        "looking": is_looking(),
        "signals": arrives(),
    }


def is_working() -> bool:
    outer = _C.working(True)
    _C.working(outer)
    return outer


def is_looking() -> bool:
    outer = _C.looking(False)
    _C.looking(outer)
    return outer


def arrives() -> bool:
    """Whether a handler of a signal runs at once."""
    seen: list[int] = []
    outer = signal.signal(signal.SIGUSR1, lambda number, frame: seen.append(number))
    try:
        signal.raise_signal(signal.SIGUSR1)
    finally:
        signal.signal(signal.SIGUSR1, outer)
    return bool(seen)


def changed(before: dict[str, Any]) -> list[str]:
    now = state()
    return [f"{name}: {before[name]} -> {now[name]}" for name in before if before[name] != now[name]]
