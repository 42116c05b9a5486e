"""Python's garbage collector rests while a frame is traced: what finalizers do is not the traced program's doing.

It rests while parts of this package are imported, too: it would look at all that torch holds, and find nothing.
"""

from __future__ import annotations

import gc
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from onegraph.base.locks import Lock


class OfThread(threading.local):
    """How often this thread has begun what it rests for and not ended."""

    begun = 0


class Rest:
    """Threads may do so side by side: the first to come switches the collector off, the last to leave on again."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._own = OfThread()
        self._begun = 0
        self._was_enabled = False

    @contextmanager
    def resting(self) -> Iterator[None]:
        with self._lock:
            if self._begun == 0:
                self._was_enabled = gc.isenabled()
                gc.disable()
            self._own.begun += 1
            self._begun += 1
        try:
            yield
        finally:
            with self._lock:
                self._own.begun -= 1
                self._begun -= 1
                if self._begun == 0 and self._was_enabled:
                    gc.enable()

    def after_fork(self) -> None:
        """In the child: those who were at it in other threads will not come back to leave."""
        others = self._begun - self._own.begun
        self._begun = self._own.begun
        if others and not self._begun and self._was_enabled:
            gc.enable()


COLLECTOR = Rest()
os.register_at_fork(after_in_child=COLLECTOR.after_fork)
