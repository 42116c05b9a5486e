"""What `onegraph simulate` forecasts for ranks of this machine, beside what steps of DistributedDataParallel take.

Each process measures what it computes while the others do so, too, and how fast gloo connects them; a forecast is made
of that. Then the same step is run with its gradients really reduced.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch
import torch.distributed as dist
import torch.multiprocessing
from torch.nn.parallel import DistributedDataParallel

import onegraph
from benchmarks.data_parallel import MODELS, in_turn
from benchmarks.measure import Result, Run, Settings, sample
from onegraph.tools.simulation.local import measure_link
from onegraph.tools.simulation.measuring import EAGER, NO_OVERLAP, OURS, Training, buckets_for, measure, training_of
from onegraph.tools.simulation.model import simulate
from onegraph.tools.target import Target

RANKS = (2, 4)
EACH = 3  # rounds for one forecast
WAYS: dict[str, Callable[[Run], Run]] = {
    NO_OVERLAP: lambda step: onegraph.compile(step, options={"optimize_ddp": False}),
    EAGER: lambda step: step,
    OURS: onegraph.compile,
}


def run(settings: Settings) -> Iterator[Result]:
    """Seconds of a step of each model, for each number of ranks and each way of reducing."""
    for key, (name, _) in MODELS.items():
        if settings.wants(key):
            for ranks in RANKS:
                command = [sys.executable, "-m", __name__, key, str(ranks), str(settings.rounds(30))]
                made = subprocess.run(command, check=True, capture_output=True, text=True)
                for way, times in json.loads(made.stdout.splitlines()[-1]).items():
                    samples = {each: sample(found) for each, found in times.items()}
                    yield Result("data_parallel_forecast", f"{name}: {ranks} ranks, {way}", "ms", samples)


def stepping(key: str, wrap: Callable[[Any], Any]) -> Run:
    torch.manual_seed(0)
    model, inputs = MODELS[key][1]()
    called, optimizer = wrap(model), torch.optim.SGD(model.parameters(), 0.01)

    def train() -> None:
        optimizer.zero_grad()
        loss = called(inputs).square().mean()
        loss.backward()
        optimizer.step()

    return train


def forecast(training: Training, ranks: int, rounds: int) -> dict[str, float]:
    """Seconds of a step by each way. All ranks call this."""
    steps = measure(training, buckets_for(training, None), rounds, dist.barrier)
    link, speeds = measure_link(ranks)
    return {way: simulate(step, link, ranks, speeds, step.spread).seconds for way, step in steps.items()}


def compare(rank: int, folder: str, key: str, ranks: int, rounds: int) -> None:
    """One of the processes; the first one prints what is forecast and measured, by way. Both are made in turn, so that
    what else the machine does falls on them alike."""
    torch.set_num_threads(1)
    init = {"init_method": f"file://{folder}/store", "rank": rank, "world_size": ranks}
    dist.init_process_group("gloo", **init)
    training = training_of(Target(stepping(key, lambda model: model), ()))
    steps = {way: compiled(stepping(key, DistributedDataParallel)) for way, compiled in WAYS.items()}
    for step in steps.values():
        for _ in range(4):  # buckets are built anew behind the first one
            step()
    found: dict[str, dict[str, list[float]]] = {way: {"forecast": [], "measured": []} for way in WAYS}
    for _ in range(rounds // EACH):
        for way, seconds in forecast(training, ranks, EACH).items():
            found[way]["forecast"].append(seconds)
        for way, times in in_turn(steps, EACH).items():
            found[way]["measured"] += times
    if rank == 0:
        print(json.dumps(found), flush=True)
    dist.barrier()
    dist.destroy_process_group()


def main(key: str, ranks: str, rounds: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        process = partial(compare, folder=folder, key=key, ranks=int(ranks), rounds=int(rounds))
        torch.multiprocessing.spawn(process, nprocs=int(ranks))


if __name__ == "__main__":
    main(*sys.argv[1:])
