"""Imports in compiled code: done for real while tracing, and guarded by what the process has as its modules."""

from __future__ import annotations

import builtins
import importlib
import importlib.util
import sys
from typing import Any

from onegraph.capture.policy.registry import policy
from onegraph.capture.source import Const, Item
from onegraph.torchlib.state import tracing_suspended

MODULES = Const(id(sys.modules), "sys.modules", sys.modules)


def guard_module(tracer: Any, name: str) -> None:
    """Guard that the process has the same module under a name."""
    tracer.world.guard(Item(MODULES, name), "is", sys.modules[name])


@policy(builtins.__import__)
def import_(tracer: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """A module is imported for real, outside of the tracing modes: its own tensors must not be fake."""
    with tracing_suspended():
        module = builtins.__import__(*args, **kwargs)
        name, names, _, listed, level = (*args, *(None, None, (), 0)[len(args) - 1 :])
        if level:
            name = importlib.util.resolve_name("." * level + name, importlib._bootstrap._calc___package__(names))
    for part in {name, name if listed else name.partition(".")[0]}:
        if part in sys.modules:
            guard_module(tracer, part)
    return module


@policy(importlib.import_module)
def import_module(tracer: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    with tracing_suspended():
        module = importlib.import_module(*args, **kwargs)
        name = importlib.util.resolve_name(*args, **kwargs) if args[0].startswith(".") else args[0]
    guard_module(tracer, name)
    return module
