"""Locks that cannot stop a thread for good: it may take again what it holds, and a forked child finds them free.

Of the threads of a process only the one that forks goes on in the child: what the others held stays held there.
"""

from __future__ import annotations

import os
import threading
import weakref
from typing import Any

_LOCKS: weakref.WeakSet[Any] = weakref.WeakSet()


def new_lock() -> threading.RLock:
    made = threading.RLock()
    _LOCKS.add(made)
    return made


def _free_those_of_others() -> None:
    for lock in list(_LOCKS):
        if not lock._is_owned():
            lock._at_fork_reinit()


os.register_at_fork(after_in_child=_free_those_of_others)
