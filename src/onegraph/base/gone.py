"""Something to do when an object is gone.

`weakref.finalize` does the same, but numbers its uses where programs can see it.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

_WAITING: dict[int, weakref.ref[Any]] = {}


def when_gone(value: Any, function: Callable[..., Any], *args: Any) -> None:
    """Call the function with these arguments when nobody holds the value any more; not at the end of the process."""

    def call(reference: weakref.ref[Any]) -> None:
        _WAITING.pop(id(reference), None)
        function(*args)

    reference = weakref.ref(value, call)
    _WAITING[id(reference)] = reference
