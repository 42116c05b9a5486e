"""Processes of one group, with gloo, that have imported what this one has."""

from __future__ import annotations

import os
import pickle
import selectors
import signal
import tempfile
import time
import traceback
from collections.abc import Callable
from datetime import timedelta
from typing import Any, BinaryIO

import torch
import torch.distributed as dist

TIME_OUT = 60.0  # seconds, of all


def two_processes(function: Callable[..., Any], *args: Any, size: int = 2, group_timeout: float = 30.0) -> list[Any]:
    """What a function gives in each process of a group, by rank. What it gives is pickled.

    Raises:
        AssertionError: it has raised something in one of them, or not come back. The others are ended.
    """
    with tempfile.TemporaryDirectory() as folder, selectors.DefaultSelector() as waiting:
        children = []
        for rank in range(size):
            pid, out = _start(rank, size, os.path.join(folder, "store"), group_timeout, function, args)
            waiting.register(out, selectors.EVENT_READ, rank)
            children.append(pid)
        try:
            return _results(waiting, size, time.monotonic() + TIME_OUT)
        finally:
            for pid in children:
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)


def _start(
    rank: int, size: int, store: str, group_timeout: float, function: Callable[..., Any], args: tuple[Any, ...]
) -> tuple[int, BinaryIO]:
    """A process with its number in the group, and where its result comes."""
    read, write = os.pipe()
    if pid := os.fork():
        os.close(write)
        return pid, os.fdopen(read, "rb")
    torch.set_num_threads(1)
    try:
        timeout = timedelta(seconds=group_timeout)
        dist.init_process_group("gloo", store=dist.FileStore(store, size), rank=rank, world_size=size, timeout=timeout)
        result = function(*args), ""
        dist.barrier()  # nobody leaves while another one talks to it
    except BaseException:
        result = None, traceback.format_exc()
    with os.fdopen(write, "wb") as out:
        pickle.dump(result, out)
    os._exit(0)


def _results(waiting: selectors.BaseSelector, size: int, until: float) -> list[Any]:
    results: dict[int, Any] = {}
    while len(results) < size:
        ready = waiting.select(max(0.0, until - time.monotonic()))
        missing = [rank for rank in range(size) if rank not in results]
        assert ready, f"ranks {missing} have not come back within {TIME_OUT:.0f} s"
        for key, _ in ready:
            data = key.fileobj.read()  # type: ignore[union-attr]
            assert data, f"rank {key.data} is gone"
            results[key.data], raised = pickle.loads(data)
            assert not raised, f"rank {key.data} has raised\n{raised}"
            waiting.unregister(key.fileobj)
    return [results[rank] for rank in range(size)]
