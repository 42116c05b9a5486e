"""A process is known to the others of its group, and so is what it compiles for long; one that is alone is not."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from onegraph.base.late import late_module
from onegraph.torchlib.ranks import rank

if TYPE_CHECKING:
    from onegraph.torchlib.rank_states import announced, be_known, explain
else:
    explain = late_module("onegraph.torchlib.rank_states").explain
    announced = late_module("onegraph.torchlib.rank_states").announced
    be_known = late_module("onegraph.torchlib.rank_states").be_known


def join() -> None:
    """Be known to the others from now on."""
    if rank() is not None:
        be_known()


def explained(error: BaseException) -> bool:
    """Whether it is the error of processes that cannot communicate: it is noted on it how the others are."""
    return rank() is not None and explain(error)


@contextmanager
def compiling(frame: object) -> Iterator[None]:
    """Within it this process compiles the frame."""
    if rank() is None:
        yield
    else:
        with announced(frame):
            yield
