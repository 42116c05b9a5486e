"""Modules that are imported when a function of theirs is first called.

A process whose calls are found on disk needs none of the stages that capture and compile: it does not import them.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import cache
from importlib import import_module
from types import ModuleType
from typing import Any

from onegraph.base.garbage_collector import COLLECTOR


def imported(name: str) -> ModuleType:
    """The module of that name. The garbage collector rests meanwhile: what modules hold is there to stay."""
    if name in sys.modules:
        return import_module(name)
    with COLLECTOR.resting():
        return import_module(name)


class LateModule:
    """Has the functions of a module; each is the same object whenever it is asked for."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, function: str) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            return getattr(imported(self._name), function)(*args, **kwargs)

        call.__name__ = call.__qualname__ = function
        setattr(self, function, call)
        return call


@cache
def late_module(name: str) -> Any:
    """The module of that name; it is imported under `TYPE_CHECKING` as well, for checkers of types."""
    return LateModule(name)
