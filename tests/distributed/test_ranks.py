"""What a rank says of itself, and of what it alone compiles."""

from __future__ import annotations

import contextlib
import io
import logging

import torch
import torch.distributed as dist

import onegraph
from tests.distributed.processes import two_processes


class Kept(logging.Handler):
    def __init__(self) -> None:
        super().__init__()
        self.messages: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.messages.append(record.getMessage())


def recompiling(sizes: tuple[tuple[int, ...], tuple[int, ...]]) -> tuple[list[str], str]:
    """Warnings and logs of a process whose inputs have these sizes."""
    kept, shown = Kept(), io.StringIO()
    logging.getLogger("onegraph").addHandler(kept)
    compiled = onegraph.compile(lambda x: x.sin() + 1, dynamic=False)
    with contextlib.redirect_stderr(shown), onegraph.config.patch(logs=("recompiles",)):
        for size in sizes[dist.get_rank()]:
            compiled(torch.ones(size))
            dist.barrier()
    return kept.messages, shown.getvalue()


def test_a_rank_that_compiles_alone_is_named() -> None:
    (first, _), (second, logs) = two_processes(recompiling, ((2, 2, 2), (2, 2, 3)))
    (message,) = second
    assert not first
    assert message.startswith("rank 1 has compiled another version of ")
    assert "which 1 of the other ranks have not begun to compile" in message
    assert message.endswith("because `x` had size [2], has [3]")
    assert "[rank 1] [recompiles]" in logs


def test_ranks_that_compile_together_say_nothing() -> None:
    (first, _), (second, _) = two_processes(recompiling, ((2, 3, 4), (2, 3, 4)))
    assert not first and not second
