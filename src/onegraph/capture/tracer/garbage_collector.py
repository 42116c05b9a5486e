"""Python's garbage collector rests while a frame is traced: what finalizers do is not the traced program's doing."""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from contextlib import contextmanager


class Rest:
    """Threads may trace side by side: the first to come switches the collector off, the last to leave on again."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._tracing = 0
        self._was_enabled = False

    @contextmanager
    def while_tracing(self) -> Iterator[None]:
        with self._lock:
            if self._tracing == 0:
                self._was_enabled = gc.isenabled()
                gc.disable()
            self._tracing += 1
        try:
            yield
        finally:
            with self._lock:
                self._tracing -= 1
                if self._tracing == 0 and self._was_enabled:
                    gc.enable()


COLLECTOR = Rest()
