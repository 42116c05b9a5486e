"""The outermost frame of a region whose target is no Python function of the user: a module, a callable object."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from contextlib import suppress
from types import FunctionType, MethodType
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


class _Static:
    __call__ = staticmethod(lambda argument: None)


#: Whether a `__call__` that is a static method is seen as it is called: before Python 3.13 as a function of the object.
_SEES_STATIC = bool(inspect.signature(_Static()).parameters)


def write_signature(call: Any, module: Any) -> None:
    """Let `inspect` tell the signature of a module of the static method that is its `__call__`."""
    call.__wrapped__ = type(module).__call__
    if _SEES_STATIC:
        with suppress(TypeError, ValueError):  # of one that has none to tell
            call.__signature__ = inspect.signature(MethodType(type(module).__call__, module))
