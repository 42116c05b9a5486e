"""Steps of data-parallel training by two processes of this machine, a thread each, with gloo.

The models are built and compiled in both; the steps of all contenders are made in turn, each between two barriers, so
that a step takes as long as the slower process.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Any

import torch
import torch.distributed as dist
import torch.multiprocessing
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from benchmarks.contenders import CONTENDERS
from benchmarks.measure import Result, Run, Settings, sample

SIZE = 2
WORDS = 2000


class Block(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.before, self.between = nn.LayerNorm(width), nn.LayerNorm(width)
        self.project, self.join = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.widen, self.narrow = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        parts = self.project(self.before(x)).view(batch, length, 3, self.heads, width // self.heads)
        query, key, value = parts.permute(2, 0, 3, 1, 4)
        seen = nn.functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.join(seen.transpose(1, 2).reshape(x.shape))
        result: torch.Tensor = x + self.narrow(nn.functional.gelu(self.widen(self.between(x))))
        return result


def language() -> tuple[nn.Module, torch.Tensor]:
    width = 384
    blocks = [Block(width, 6) for _ in range(4)]
    model = nn.Sequential(nn.Embedding(WORDS, width), *blocks, nn.LayerNorm(width), nn.Linear(width, WORDS))
    return model, torch.randint(0, WORDS, (4, 64))


def layers() -> tuple[nn.Module, torch.Tensor]:
    return nn.Sequential(*[part for _ in range(8) for part in (nn.Linear(1024, 1024), nn.ReLU())]), torch.randn(
        64, 1024
    )


MODELS: dict[str, tuple[str, Callable[[], tuple[nn.Module, torch.Tensor]]]] = {
    "language": ("GPT of 4 layers, 384 wide, 4 x 64 words", language),
    "layers": ("8 layers of 1024, 64 rows", layers),
}


def run(settings: Settings) -> Iterator[Result]:
    """Seconds of a step of each model."""
    for key, (name, _) in MODELS.items():
        if settings.wants(key):
            command = [sys.executable, "-m", "benchmarks.data_parallel", key, str(settings.rounds(30))]
            made = subprocess.run(command, check=True, capture_output=True, text=True)
            times = json.loads(made.stdout.splitlines()[-1])
            yield Result("data_parallel", name, "ms", {each: sample(found) for each, found in times.items()})


def stepping(key: str, compile_model: Callable[[Any], Any]) -> Run:
    torch.manual_seed(0)
    model, inputs = MODELS[key][1]()
    ddp = DistributedDataParallel(model)
    called, optimizer = compile_model(ddp), torch.optim.SGD(ddp.parameters(), 0.01)

    def step() -> None:
        optimizer.zero_grad()
        called(inputs).square().mean().backward()
        optimizer.step()

    return step


def in_turn(steps: Mapping[str, Run], rounds: int) -> dict[str, list[float]]:
    """Seconds of each step between two barriers, in rounds that begin with another one each."""
    names = list(steps)
    times: dict[str, list[float]] = {name: [] for name in names}
    for turn in range(rounds):
        shift = turn % len(names)
        for name in names[shift:] + names[:shift]:
            dist.barrier()
            start = perf_counter()
            steps[name]()
            dist.barrier()
            times[name].append(perf_counter() - start)
    return times


def measured(rank: int, store: str, key: str, rounds: int) -> None:
    """One of the processes; the first one prints the seconds of all steps, by contender."""
    torch.set_num_threads(1)
    dist.init_process_group("gloo", store=dist.FileStore(store, SIZE), rank=rank, world_size=SIZE)
    steps = {name: stepping(key, compile_model) for name, compile_model in CONTENDERS.items()}
    for step in steps.values():
        for _ in range(3):  # buckets are built anew behind the first one
            step()
    times = in_turn(steps, rounds)
    if rank == 0:
        print(json.dumps(times), flush=True)
    dist.destroy_process_group()


def main(key: str, rounds: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        store = os.fspath(Path(folder) / "store")
        torch.multiprocessing.spawn(partial(measured, store=store, key=key, rounds=int(rounds)), nprocs=SIZE)


if __name__ == "__main__":
    main(*sys.argv[1:])
