"""Composite operators on symbolic sizes: before torch 2.12, native code of some (`matmul`) asks for them as numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from onegraph.torchlib.fake import FakeMode
from onegraph.torchlib.private import python_composites
from onegraph.torchlib.shapes import NumbersWanted

#: How the error begins that torch raises where its native code asks a symbolic size for its number.
NEEDS_NUMBERS = "Cannot call "


def call_composite(mode: FakeMode, func: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    """Call an operator on fakes. Where its native code wants numbers, what it consists of is torch's own in Python.

    That is the second choice: what it consists of there may differ from what it does in eager mode.
    """
    if python_composites is None or mode.sizes.is_static:
        return func(*args, **kwargs)
    mode.gives_numbers = False
    try:
        return func(*args, **kwargs)
    except RuntimeError as error:
        if not isinstance(error, NumbersWanted) and not str(error).startswith(NEEDS_NUMBERS):
            raise
    finally:
        mode.gives_numbers = True
    with python_composites():
        return func(*args, **kwargs)
