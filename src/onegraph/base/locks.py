"""Locks that cannot stop a thread for good: it may take again what it holds, and a forked child finds them free.

Of the threads of a process only the one that forks goes on in the child: what the others held stays held there.
"""

from __future__ import annotations

import os
import threading
import weakref


class Lock:
    """A reentrant lock, used in a `with`. In a forked child it is free, unless the thread that goes on holds it."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._owner = 0
        self._depth = 0
        _LOCKS.add(self)

    def __enter__(self) -> None:
        self._lock.acquire()
        self._owner = threading.get_ident()
        self._depth += 1

    def __exit__(self, *exception: object) -> None:
        self._depth -= 1
        if not self._depth:
            self._owner = 0
        self._lock.release()

    def renew(self) -> None:
        """In a forked child."""
        if self._owner != threading.get_ident():
            self._lock = threading.RLock()
            self._owner = self._depth = 0


_LOCKS: weakref.WeakSet[Lock] = weakref.WeakSet()


def _renew_all() -> None:
    for lock in list(_LOCKS):
        lock.renew()


os.register_at_fork(after_in_child=_renew_all)
