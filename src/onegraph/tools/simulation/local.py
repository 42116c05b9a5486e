"""Ranks of this machine: how fast gloo connects them, and what they compute while all of them work."""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from statistics import median
from time import perf_counter, process_time, sleep

import torch
import torch.distributed as dist

from onegraph.base.dataclass import dataclass
from onegraph.base.errors import InvalidArgument, OnegraphError
from onegraph.tools.simulation.measuring import buckets_for, measure, training_of
from onegraph.tools.simulation.model import ALONE, MESSAGES, Link, Speeds, Step, sent, speeds_of_shared_cores
from onegraph.tools.target import load

SIZES = tuple(1 << power for power in (12, 15, 18, 20, 22, 24))  # bytes of the all-reduces to which a line is fitted
TRIALS = 15  # of each size
POLL = 0.05  # seconds
TIME_OUT = timedelta(minutes=5)
OWN_GROUP = "the file makes a process group of its own, beside which the ranks of this machine can have none"


@dataclass(frozen=True, slots=True)
class Measured:
    """What is known of a step, and of the ranks that run it: see `model`."""

    steps: dict[str, Step]
    link: Link
    speeds: Speeds


def measure_ranks(spec: str, inputs: str | None, ranks: int, limits: Sequence[int] | None, rounds: int) -> Measured:
    """A step, and gloo's connections, of so many processes of this machine. They work at the same time, a thread each.

    Args:
        spec: `file.py::function`, as `inputs` for `load`.
        limits: bytes at which buckets are full.

    Raises:
        OnegraphError: if one of them fails.
    """
    with tempfile.TemporaryDirectory() as folder:
        request = json.dumps([spec, inputs, ranks, limits, rounds, folder])
        program = f"import sys; from {__name__} import worker; worker(sys.argv[1], int(sys.argv[2]))"
        errors = [Path(folder, f"errors{rank}") for rank in range(ranks)]
        running = []
        try:
            for rank, path in enumerate(errors):
                with path.open("w") as file:
                    command = [sys.executable, "-c", program, request, str(rank)]
                    running.append(subprocess.Popen(command, stdout=file, stderr=file))
            while any(process.poll() is None for process in running):
                check(running, errors)  # a rank that is gone may leave the others waiting
                sleep(POLL)
            check(running, errors)
        finally:
            for process in running:
                process.kill()
                process.wait()
        found: Measured = pickle.loads(Path(folder, "measured").read_bytes())
        return found


def check(running: Sequence[subprocess.Popen[bytes]], errors: Sequence[Path]) -> None:
    """Raise the error of a process that has failed, if one has."""
    for rank, (process, path) in enumerate(zip(running, errors, strict=True)):
        if process.poll():
            said = path.read_text().strip().splitlines() or ["it says nothing"]
            raise OnegraphError(f"rank {rank} of this machine has failed: {said[-1]}")


def worker(request: str, rank: int) -> None:
    """One of these processes. What it raises is the last line that it prints."""
    try:
        work(request, rank)
    except OnegraphError as error:
        sys.exit(f"{error}")
    except Exception as error:
        sys.exit(f"{type(error).__name__}: {error}")


def work(request: str, rank: int) -> None:
    """Measure, together with the others; the first one writes what is found."""
    spec, inputs, ranks, limits, rounds, folder = json.loads(request)
    torch.set_num_threads(1)
    target = load(spec, inputs)
    if dist.is_initialized():
        raise InvalidArgument(OWN_GROUP)
    where = f"file://{folder}/store"
    dist.init_process_group("gloo", init_method=where, rank=rank, world_size=ranks, timeout=TIME_OUT)
    training = training_of(target)
    steps = measure(training, buckets_for(training, limits), rounds, dist.barrier)
    link, speeds = measure_link(ranks)
    if rank == 0:
        Path(folder, "measured").write_bytes(pickle.dumps(Measured(steps, link, speeds)))
    dist.barrier()
    dist.destroy_process_group()


def measure_link(ranks: int) -> tuple[Link, Speeds]:
    """What the default group connects, while nothing is computed; and what remains of the speeds of computation, in a
    thread for each rank, and communication where they share this machine."""
    if ranks == 1:
        return Link(float("inf"), 0.0), ALONE
    times = []
    for size in SIZES:
        values = torch.zeros(size // 4)
        spent = []
        for _ in range(TRIALS):
            dist.barrier()
            start, used = perf_counter(), process_time()
            dist.all_reduce(values)
            spent.append((perf_counter() - start, process_time() - used))
        times.append(median(seconds for seconds, _ in spent))
    load = sum(used for _, used in spent) / sum(seconds for seconds, _ in spent)  # of the largest size
    cores = len(os.sched_getaffinity(0)) / ranks
    return fitted(SIZES, times, ranks), speeds_of_shared_cores(cores, 1, load)


def fitted(sizes: Sequence[int], times: Sequence[float], ranks: int) -> Link:
    """The link whose ring takes these times, with the least squares of relative errors."""
    seconds = torch.tensor(times, dtype=torch.float64)
    rows = torch.stack([1 / seconds, torch.tensor(sizes, dtype=torch.float64) / seconds], 1)
    start, each = torch.linalg.lstsq(rows, torch.ones(len(times), 1, dtype=torch.float64)).solution.flatten().tolist()
    return Link(sent(ranks) / max(each, 1e-15), max(start, 0.0) / MESSAGES["ring"](ranks))
