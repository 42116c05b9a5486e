"""Room for the frames of deep calls.

CPython keeps the frames of Python functions in chunks of memory, 16 KiB each. It asks the system for a new one when a
call finds the last one full, and gives it back when that call returns: a function that is called again and again at
such a border takes ten times as long. A chunk is as large as the frame that it is made for, up to the next power of
two, so that behind a large frame there is room (`push_chunk` in CPython's `Python/pystate.c`, 3.11 to 3.13).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")
SLOTS = 70_000  # of 8 bytes: of a chunk of 1 MiB, 464 KiB are left for the frames of what is called


def _call(function: Callable[..., T], *args: Any) -> T:
    return function(*args)


_call.__code__ = _call.__code__.replace(co_stacksize=SLOTS)


def with_room(function: Callable[..., T], *args: Any) -> T:
    """`function(*args)`, with room for the frames of some hundred calls in it."""
    return _call(function, *args)
