"""Faults of one rank while two train: it dies, is killed, raises, stops, or compiles alone.

    python -m tests.distributed.faults --count 50 --seed 1

The other rank must come to an end: with eager's parameters where the fault is none, or within the time-out of the
group with an error which, where nobody catches it, is shown with the rank and what has become of it. What is kept on
disk stays good for all that comes later.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import os
import pickle
import random
import select
import signal
import sys
import tempfile
import time
from collections import Counter
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
import torch._dynamo  # each DistributedDataParallel would import it
import torch.distributed as dist
import torch.distributed.fsdp
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import onegraph
from onegraph.base.dataclass import dataclass

KINDS = ("dies", "is killed", "raises", "stops", "compiles alone", "dies while it compiles")
TIME_OUT = 4.0  # seconds, of the group
LIMIT = 60.0  # seconds, of a turn: the machine may be busy
MORE = 10.0  # seconds, beyond the time-out: for what is compiled in the same step
STEPS = 4
WIDTHS = (8, 16, 24)


GONE = "is gone: it was killed, has crashed, or has left the group and ended"
#: What the other rank is told of the one with a fault.
TOLD = {
    "dies": GONE,
    "is killed": GONE,
    "raises": "has raised ZeroDivisionError: of the program, at ",
    "stops": "has not failed: it is elsewhere in the program, or hangs",
    "dies while it compiles": GONE,
}


@dataclass(frozen=True, slots=True)
class Fault:
    """What happens to a rank, in which step, and whether in the forward pass or behind it."""

    kind: str
    rank: int
    step: int
    forward: bool
    within: bool  #: whether the compiled module is in the DistributedDataParallel, or around it
    width: int  #: of the layers: other ones are other entries on disk


@dataclass(frozen=True, slots=True)
class Failure:
    """The error that a rank has ended with: its kind, after which time in a step, and what is shown of it."""

    kind: str
    seconds: float
    shown: str


def drawn(chance: random.Random) -> Fault:
    kind, rank, step = chance.choice(KINDS), chance.randrange(2), chance.randrange(STEPS)
    return Fault(kind, rank, step, chance.random() < 0.5, chance.random() < 0.5, chance.choice(WIDTHS))


def happen(fault: Fault) -> None:
    match fault.kind:
        case "dies":
            os._exit(3)
        case "is killed":
            os.kill(os.getpid(), signal.SIGKILL)
        case "raises":
            raise ZeroDivisionError("of the program")
        case "stops":
            time.sleep(LIMIT)


def model_of(width: int) -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(*[layer for _ in range(3) for layer in (nn.Linear(width, width), nn.Tanh())])


def trained(fault: Fault | None, width: int, within: bool, compiled: Any) -> list[torch.Tensor]:
    """The parameters behind all steps."""
    rank, mine = dist.get_rank(), fault is not None and fault.rank == dist.get_rank()
    model = model_of(width)
    ddp = DistributedDataParallel(compiled(model) if within else model, bucket_cap_mb=0.001)
    run = ddp if within else compiled(ddp)
    if fault is not None and mine and fault.kind == "dies while it compiles":
        signal.signal(signal.SIGALRM, lambda *_: os._exit(3))
        signal.setitimer(signal.ITIMER_REAL, random.Random(f"{fault}").uniform(0.01, 0.6))
    optimizer = torch.optim.SGD(ddp.parameters(), 0.1)
    torch.manual_seed(rank)
    for step in range(STEPS):
        STARTED[:] = [time.monotonic()]
        now = fault is not None and mine and step == fault.step
        rows = 5 if now and fault is not None and fault.kind == "compiles alone" else 4
        optimizer.zero_grad()
        if now and fault is not None and fault.forward:
            happen(fault)
        loss = run(torch.randn(rows, width)).square().mean()
        if now and fault is not None:
            happen(fault)
        loss.backward()
        optimizer.step()
    return [parameter.detach().clone() for parameter in model.parameters()]


#: When the last step began.
STARTED = [0.0]


def failure(error: Exception) -> Failure:
    """Where nobody catches an error, Python calls this."""
    shown, seconds = io.StringIO(), time.monotonic() - STARTED[0]
    with contextlib.redirect_stderr(shown):
        sys.excepthook(type(error), error, error.__traceback__)
    return Failure(type(error).__name__, seconds, shown.getvalue())


def child(fault: Fault, rank: int, store: str, folder: Path) -> Any:
    """How a rank ends: the largest difference to eager's parameters, or a failure."""
    STARTED[:] = [time.monotonic()]
    torch.set_num_threads(1)
    dist.init_process_group(
        "gloo", store=dist.FileStore(store, 2), rank=rank, world_size=2, timeout=timedelta(seconds=TIME_OUT)
    )
    try:
        with onegraph.config.patch(verify=False, cache_dir=folder):
            found = trained(fault, fault.width, fault.within, onegraph.compile)
        if fault.kind != "compiles alone":
            return 0.0
        wanted = trained(fault, fault.width, fault.within, lambda target: target)
        return max(float((a - b).abs().max()) for a, b in zip(found, wanted, strict=True))
    except Exception as error:
        return failure(error)


def turn(fault: Fault, folder: Path) -> list[Any]:
    """How both ranks end; None for one that says nothing."""
    with tempfile.TemporaryDirectory() as place:
        children = []
        for rank in range(2):
            read, write = os.pipe()
            pid = os.fork()
            if not pid:
                outcome = child(fault, rank, f"{place}/store", folder)
                os.write(write, pickle.dumps(outcome)[:60000])
                os._exit(0)
            os.close(write)
            children.append((pid, read))
        try:
            until = time.monotonic() + LIMIT
            other, own = children[1 - fault.rank][1], children[fault.rank][1]
            ends = {1 - fault.rank: ended(other, until, True), fault.rank: ended(own, until, False)}
            return [ends[0], ends[1]]
        finally:
            for pid, read in children:
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
                os.close(read)


def ended(read: int, until: float, waits: bool) -> Any:
    if not select.select([read], [], [], max(0.0, until - time.monotonic()) if waits else TIME_OUT)[0]:
        assert not waits, "it hangs"
        return None
    data = os.read(read, 65536)
    return pickle.loads(data) if data else None


def check(fault: Fault, folder: Path) -> str:
    """How the other rank ends."""
    outcome = turn(fault, folder)[1 - fault.rank]
    if fault.kind == "compiles alone":
        assert isinstance(outcome, float) and outcome < 1e-5, (fault, outcome)
        return "goes on"
    if outcome == 0.0:  # it was done before the other one was seen to be gone
        assert fault.kind == "dies while it compiles", (fault, outcome)
        return "goes on"
    assert isinstance(outcome, Failure), (fault, outcome)
    assert outcome.kind in ("RuntimeError", "DistBackendError", "DistNetworkError"), (fault, outcome)
    assert outcome.seconds < TIME_OUT + MORE, (fault, outcome)
    assert f"this is rank {1 - fault.rank} of 2, " in outcome.shown, (fault, outcome)
    (line,) = [line for line in outcome.shown.splitlines() if f" rank {fault.rank} " in line]
    assert TOLD[fault.kind] in line, (fault, outcome)
    return "raises"


def check_cache(folder: Path) -> None:
    """What is on disk is still good: both ranks train by it, and find all of it."""
    for width in WIDTHS:
        for within in (False, True):
            good = Fault("compiles alone", 0, STEPS, False, within, width)
            assert all(isinstance(outcome, float) and outcome < 1e-5 for outcome in turn(good, folder)), good


def run(count: int, seed: int) -> Counter[tuple[str, str]]:
    chance, found = random.Random(seed), Counter[tuple[str, str]]()
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(count):
            fault = drawn(chance)
            found[fault.kind, check(fault, Path(folder))] += 1
        check_cache(Path(folder))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(prog="tests.distributed.faults")
    parser.add_argument("--count", type=int, default=50)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    for (kind, outcome), number in sorted(run(args.count, args.seed).items()):
        print(f"a rank {kind}: the other {outcome} ({number})")


if __name__ == "__main__":
    main()
