"""Imports in compiled code: done for real while tracing, and guarded by what the process has as its modules."""

from __future__ import annotations

import builtins
import contextlib
import importlib
import importlib.util
import sys
from collections.abc import Iterator
from typing import Any

from onegraph.capture.calls.registry import policy
from onegraph.capture.calls.tracing import Tracing
from onegraph.capture.guards.source import Const, Item
from onegraph.torchlib.state import tracing_suspended

MODULES = Const(id(sys.modules), "sys.modules", sys.modules)


@contextlib.contextmanager
def importing(tracer: Tracing, *names: str) -> Iterator[None]:
    """Import for real, outside of the tracing modes: a module's own tensors must not be fake.

    What the process has under these names then is guarded, also where there is no such module.
    """
    try:
        with tracing_suspended():
            yield
    finally:
        for name in dict.fromkeys(names):
            if name in sys.modules:
                tracer.world.guard(Item(MODULES, name), "is", sys.modules[name])
            else:
                tracer.world.guard(MODULES, "lacks", name)


@policy(builtins.__import__)
def import_(tracer: Tracing, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    given: list[Any] = [*args, *(None, None, (), 0)[len(args) - 1 :]]
    name, names, _, listed, level = given
    if level:
        name = importlib.util.resolve_name("." * level + name, importlib._bootstrap._calc___package__(names))  # type: ignore[attr-defined]
    with importing(tracer, name, name if listed else name.partition(".")[0]):
        return builtins.__import__(*args, **kwargs)


@policy(importlib.import_module)
def import_module(tracer: Tracing, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    name = importlib.util.resolve_name(*args, **kwargs) if args[0].startswith(".") else args[0]
    with importing(tracer, name):
        return importlib.import_module(*args, **kwargs)
