"""What processes do that torchrun has started: they train by each way in, and fail once.

torchrun --nproc-per-node 2 --max-restarts 1 -m tests.distributed.launched --folder FOLDER --fault raises
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import onegraph
from tests.capture.kept.children import listening

FAULTS = ("", "raises", "is killed", "hangs")
WAYS = ("import", "install", "backend")
STEPS = 3


class Layers(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(width, width) for _ in range(3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = torch.tanh(layer(x))
        return x


def trained(width: int, compiled: Callable[[Any], Any], within: bool) -> list[torch.Tensor]:
    """The parameters behind some steps of data-parallel training; the compiled module is in it, or around it."""
    torch.manual_seed(0)
    model = Layers(width)
    ddp = DistributedDataParallel(compiled(model) if within else model)
    run = ddp if within else compiled(ddp)
    optimizer = torch.optim.SGD(ddp.parameters(), 0.1)
    torch.manual_seed(dist.get_rank())
    for _ in range(STEPS):
        optimizer.zero_grad()
        run(torch.randn(4, width)).square().mean().backward()
        optimizer.step()
    return [parameter.detach().clone() for parameter in model.parameters()]


def compiled_by(way: str) -> Callable[[Any], Any]:
    if way == "backend":
        return lambda target: torch.compile(target, backend="onegraph")
    return torch.compile if way == "install" else onegraph.compile


def differences(way: str, width: int) -> list[float]:
    """The largest ones to eager's parameters, with the compiled module in the data-parallel one, and around it."""
    found = []
    for within in (True, False):
        pairs = zip(trained(width, compiled_by(way), within), trained(width, lambda same: same, within), strict=True)
        found.append(max(float((ours - eagers).abs().max()) for ours, eagers in pairs))
    return found


def work(folder: str, fault: str, ways: tuple[str, ...]) -> None:
    """Train by each way, and write down what came of it, by number of the restart and rank."""
    torch.set_num_threads(1)
    restart = int(os.environ["TORCHELASTIC_RESTART_COUNT"])
    store, rank, size = next(dist.rendezvous("env://"))
    own = dist.PrefixStore(f"start {restart}", store)  # gloo would find addresses of the first start
    dist.init_process_group("gloo", store=own, rank=rank, world_size=size, timeout=timedelta(seconds=30))
    report: dict[str, Any] = {}
    with onegraph.config.patch(verify=False, cache_dir=Path(folder) / "cache"):
        for number, way in enumerate(ways):
            said = listening()
            onegraph.counters.clear()
            if way == "install":
                with onegraph.install():
                    found = differences(way, 16 + number)
            else:
                found = differences(way, 16 + number)
            frames = onegraph.counters["frames"]["total"]
            report[way] = {"differences": found, "said": [*said], "frames": frames}
            onegraph.reset()
        (Path(folder) / f"{restart}.{rank}.json").write_text(json.dumps(report))
        dist.barrier()
        if fault and restart == 0:
            fail(fault, rank)
    dist.barrier()
    dist.destroy_process_group()


def fail(fault: str, rank: int) -> None:
    """Rank 1 has a fault, for which the other one waits."""
    group = dist.new_group([0, 1], timeout=timedelta(seconds=2))
    if rank == 1 and fault == "raises":
        raise ZeroDivisionError("of the program")
    if rank == 1 and fault == "is killed":
        os.kill(os.getpid(), signal.SIGKILL)
    if rank == 1 and fault == "hangs":
        time.sleep(60)
    dist.all_reduce(torch.ones(1), group=group)


def main() -> None:
    parser = argparse.ArgumentParser(prog="tests.distributed.launched")
    parser.add_argument("--folder", required=True)
    parser.add_argument("--fault", choices=FAULTS, default="")
    parser.add_argument("--ways", nargs="+", choices=WAYS, default=WAYS)
    args = parser.parse_args()
    work(args.folder, args.fault, tuple(args.ways))


if __name__ == "__main__":
    main()
