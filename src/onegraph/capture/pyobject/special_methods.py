"""Special methods that are objects, not functions: native code would call the real ones while tracing."""

from __future__ import annotations

import functools
from collections.abc import Container
from types import FunctionType
from typing import Any

from onegraph.capture.pyobject.exact_types import isinstance
from onegraph.capture.pyobject.layout import HEAP_TYPE


def is_stateful(found: Any) -> bool:
    """Whether what a class has as a special method is an object of the program, of which a trace needs a shadow."""
    kind = type(found)
    if kind is FunctionType or not kind.__flags__ & HEAP_TYPE or isinstance(found, type | functools._lru_cache_wrapper):
        return False
    return callable(found)


class StatefulClasses:
    """The classes whose special methods are such objects; those that the trace has `made` hold shadows already."""

    def __init__(self, made: Container[int]) -> None:
        self._made = made
        self._known: dict[type, bool] = {}

    def __call__(self, cls: type) -> bool:
        if cls not in self._known:
            self._known[cls] = id(cls) not in self._made and any(
                is_stateful(found)
                for kind in cls.__mro__
                if kind.__flags__ & HEAP_TYPE
                for name, found in vars(kind).items()
                if name.startswith("__")
            )
        return self._known[cls]
