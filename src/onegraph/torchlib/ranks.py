"""The processes of a group: which of them this one is, and whether the others compile what it compiles.

They tell each other through the store by which the group was made, which holds numbers by name.
"""

from __future__ import annotations

from contextlib import suppress

import torch.distributed as dist

from onegraph.torchlib.private import default_store


def rank() -> int | None:
    """The number of this process among several; None where it is alone."""
    if not dist.is_available() or not dist.is_initialized() or dist.get_world_size() < 2:
        return None
    return dist.get_rank()


def begin(what: str) -> None:
    """Tell the others that this process begins something."""
    if rank() is not None:
        with suppress(RuntimeError):  # the store is gone with the process that held it
            default_store().add(f"onegraph/{what}", 1)


def without(what: str) -> int:
    """How many processes have not begun it by now; 0 where nobody can say."""
    if rank() is not None:
        with suppress(RuntimeError):
            return dist.get_world_size() - int(default_store().add(f"onegraph/{what}", 0))
    return 0
