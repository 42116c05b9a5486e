"""Composite operators on symbolic sizes: before torch 2.13, native code of some (`matmul`) asks for them as numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from onegraph.torchlib.private import python_composites

#: How the error begins that torch raises where its native code asks a symbolic size for its number.
NEEDS_NUMBERS = "Cannot call "


def call_composite(func: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Call an operator. Where its native code takes numbers only, what it consists of is torch's own in Python.

    That is the second choice: what it consists of there may differ from what it does in eager mode.
    """
    try:
        return func(*args, **kwargs)
    except RuntimeError as error:
        if not str(error).startswith(NEEDS_NUMBERS):
            raise
    with python_composites():
        return func(*args, **kwargs)
