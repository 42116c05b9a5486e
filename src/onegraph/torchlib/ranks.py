"""The processes of a group: which of them this one is, and whether the others compile what it compiles.

They tell each other through the store by which the group was made, which holds numbers and texts by name.
"""

from __future__ import annotations

import os
from collections import Counter
from contextlib import suppress
from typing import Any

import torch.distributed as dist

from onegraph.base.config import restarts
from onegraph.torchlib.private import default_store

#: How often this process has begun something.
BEGUN: Counter[str] = Counter()
#: The group of the process that this one was forked from, whose connections are not for this one.
INHERITED: list[Any] = []


def rank() -> int | None:
    """The number of this process among several; None where it is alone."""
    if not dist.is_available() or not dist.is_initialized() or dist.group.WORLD in INHERITED:
        return None
    return None if dist.get_world_size() < 2 else dist.get_rank()


def key(what: str) -> str:
    """The name of something in the store. torchrun may give the store to the processes of several starts."""
    return f"onegraph/{restarts()}/{what}"


def begin(what: str) -> None:
    """Tell the others that this process begins something, perhaps once more."""
    if rank() is not None:
        BEGUN[what] += 1
        with suppress(RuntimeError):  # the store is gone with the process that held it
            default_store().add(key(f"{what}/{BEGUN[what]}"), 1)


def without(what: str) -> int:
    """How many processes have not begun it by now, as often as this one; 0 where nobody can say."""
    if rank() is not None and what in BEGUN:
        with suppress(RuntimeError):
            return dist.get_world_size() - int(default_store().add(key(f"{what}/{BEGUN[what]}"), 0))
    return 0


def _inherit() -> None:
    INHERITED[:] = [dist.group.WORLD] if dist.is_available() and dist.is_initialized() else []


os.register_at_fork(after_in_child=_inherit)
