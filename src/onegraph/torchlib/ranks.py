"""The processes of a group: which of them this one is, and whether the others compile what it compiles.

They tell each other through the store by which the group was made, which holds numbers and texts by name.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

import torch.distributed as dist

from onegraph.base.late import late_module
from onegraph.torchlib.private import default_store

if TYPE_CHECKING:
    from onegraph.torchlib.rank_states import announced, be_known
else:  # a process that is alone needs nothing of it
    announced = late_module("onegraph.torchlib.rank_states").announced
    be_known = late_module("onegraph.torchlib.rank_states").be_known

#: The group of the process that this one was forked from, whose connections are not for this one.
INHERITED: list[Any] = []


def rank() -> int | None:
    """The number of this process among several; None where it is alone."""
    if not dist.is_available() or not dist.is_initialized() or dist.group.WORLD in INHERITED:
        return None
    return None if dist.get_world_size() < 2 else dist.get_rank()


def join() -> None:
    """Be known to the others, where there are any, from now on."""
    if rank() is not None:
        be_known()


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


@contextmanager
def compiling(frame: object) -> Iterator[None]:
    """Within it this process compiles the frame: the others can see it where that takes long."""
    if rank() is None:
        yield
    else:
        with announced(frame):
            yield


def _inherit() -> None:
    INHERITED[:] = [dist.group.WORLD] if dist.is_available() and dist.is_initialized() else []


os.register_at_fork(after_in_child=_inherit)
