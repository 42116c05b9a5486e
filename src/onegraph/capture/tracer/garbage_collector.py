"""Python's garbage collector rests while a frame is traced: what finalizers do is not the traced program's doing."""

from __future__ import annotations

import gc
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from onegraph.base.locks import Lock


class OfThread(threading.local):
    """How often this thread has begun to trace and not ended."""

    tracing = 0


class Rest:
    """Threads may trace side by side: the first to come switches the collector off, the last to leave on again."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._own = OfThread()
        self._tracing = 0
        self._was_enabled = False

    @contextmanager
    def while_tracing(self) -> Iterator[None]:
        with self._lock:
            if self._tracing == 0:
                self._was_enabled = gc.isenabled()
                gc.disable()
            self._own.tracing += 1
            self._tracing += 1
        try:
            yield
        finally:
            with self._lock:
                self._own.tracing -= 1
                self._tracing -= 1
                if self._tracing == 0 and self._was_enabled:
                    gc.enable()

    def after_fork(self) -> None:
        """In the child: those who traced in other threads will not come back to leave."""
        others = self._tracing - self._own.tracing
        self._tracing = self._own.tracing
        if others and not self._tracing and self._was_enabled:
            gc.enable()


COLLECTOR = Rest()
os.register_at_fork(after_in_child=COLLECTOR.after_fork)
