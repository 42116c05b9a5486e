"""A thread works on one frame at a time, and is not interrupted in it.

What runs beside the work in the same thread (a finalizer, a backend's own compiled functions) runs as it is written:
it would wait for what the thread itself holds, or change what the work looks at. Handlers of signals wait until the
work is done, as they may raise: in Python code that torch's C++ calls, that ends the process.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from onegraph import _C


@contextmanager
def work() -> Iterator[bool]:
    """Within, this thread works; whether it was free before. The frame hook does the same around its callback."""
    outer = _C.working(True)
    try:
        yield not outer
    finally:
        _C.working(outer)


@contextmanager
def interrupted_work() -> Iterator[None]:
    """Within, code of the program runs in the midst of the work: it may be interrupted, and compiled."""
    outer = _C.working(False)
    try:
        yield
    finally:
        _C.working(outer)
