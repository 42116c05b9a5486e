"""The outermost frame of a region whose target is no Python function of the user: a module, a callable object."""

from __future__ import annotations

from collections.abc import Callable
from types import FunctionType
from typing import Any


def root_function(target: Callable[..., Any], name: str) -> FunctionType:
    """A function that calls the target, with code of its own, so that the whole call is one captured frame.

    Messages call the target `self`, as its own methods do.
    """
    self = target

    def root(*args: Any, **kwargs: Any) -> Any:
        return self(*args, **kwargs)

    code = root.__code__.replace(co_filename=f"<compiled {name}>", co_name=name, co_qualname=name, co_firstlineno=1)
    return FunctionType(code, root.__globals__, name, None, root.__closure__)
