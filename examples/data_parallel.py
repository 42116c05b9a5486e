"""Data-parallel training in two processes, and a picture of what one of them does in a step.

    python examples/data_parallel.py timeline.svg

The picture has a row for what the process computes and a row for the gradients on their way: a bucket of them travels
while the backward pass computes the next.
"""

from __future__ import annotations

import sys
import tempfile
from functools import partial
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import torch.multiprocessing
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.profiler import ProfilerActivity, profile

import onegraph

PROCESSES = 2
WIDTH, LEFT, RIGHT, ROW = 920, 130, 40, 34
#: What events of the profiler are shown in which row, by how their names begin, and in which color.
ROWS = {
    "forward graph": ("onegraph graph", "#2f6fb0"),
    "backward graphs": ("onegraph backward graph", "#57935a"),
    "all-reduce": ("gloo:all_reduce", "#e08e45"),
}


def train(rank: int, folder: str, picture: str) -> None:
    torch.set_num_threads(1)
    torch.manual_seed(0)
    store = dist.FileStore(f"{folder}/store", PROCESSES)
    dist.init_process_group("gloo", store=store, rank=rank, world_size=PROCESSES)
    model = nn.Sequential(*[layer for _ in range(8) for layer in (nn.Linear(1024, 1024), nn.GELU())])
    ddp = DistributedDataParallel(model, bucket_cap_mb=8)
    compiled = onegraph.compile(ddp, fullgraph=True)
    optimizer = torch.optim.SGD(ddp.parameters(), 1.0)
    inputs = torch.randn(256, 1024)

    def step() -> float:
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(compiled(inputs), inputs)
        loss.backward()
        optimizer.step()
        return loss.item()

    losses = [step() for _ in range(4)]
    dist.barrier()
    with profile(activities=[ProfilerActivity.CPU]) as seen:
        losses.append(step())
        dist.barrier()
    if rank == 0:
        print("losses:", *(f"{loss:.6f}" for loss in losses))
        spans = shown(seen.events())
        for row, start, end in spans:
            print(f"{row:16} {start:8.1f} ms to {end:8.1f} ms")
        Path(picture).write_text(drawn(spans))
    dist.destroy_process_group()


def shown(events: Any) -> list[tuple[str, float, float]]:
    """The spans of all rows, in milliseconds from the first one on."""
    found = [
        (row, event.time_range.start / 1e3, event.time_range.end / 1e3)
        for event in events
        for row, (name, _) in ROWS.items()
        if event.name.startswith(name)
    ]
    begin = min(start for _, start, _ in found)
    return sorted(((row, start - begin, end - begin) for row, start, end in found), key=lambda span: span[1])


def drawn(spans: list[tuple[str, float, float]]) -> str:
    length = max(end for _, _, end in spans)
    scale = (WIDTH - LEFT - RIGHT) / length
    height = ROW * len(ROWS) + 48
    style = "font-family:sans-serif;font-size:13px"
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img" style="{style}">',
        "<title>One step of data-parallel training, in one of two processes</title>",
        f'<rect width="{WIDTH}" height="{height}" fill="#ffffff"/>',
    ]
    for number, (row, (_, color)) in enumerate(ROWS.items()):
        top = 12 + number * ROW
        parts.append(f'<text x="{LEFT - 10}" y="{top + 16}" text-anchor="end" fill="#333333">{row}</text>')
        for _, start, end in (span for span in spans if span[0] == row):
            x, width = LEFT + start * scale, max((end - start) * scale, 1)
            place = f'x="{x:.1f}" y="{top}" width="{width:.1f}" height="{ROW - 10}" rx="2"'
            parts.append(f'<rect {place} fill="{color}"><title>{row}: {start:.1f} to {end:.1f} ms</title></rect>')
    bottom = 12 + len(ROWS) * ROW
    parts.append(f'<line x1="{LEFT}" y1="{bottom}" x2="{WIDTH - RIGHT}" y2="{bottom}" stroke="#9aa5b1"/>')
    for number in range(5):
        at = length * number / 4
        x = LEFT + at * scale
        parts.append(f'<text x="{x:.0f}" y="{bottom + 20}" text-anchor="middle" fill="#555555">{at:.0f} ms</text>')
    return "\n".join([*parts, "</svg>\n"])


def main(picture: str = "timeline.svg") -> None:
    with tempfile.TemporaryDirectory() as folder:
        torch.multiprocessing.spawn(partial(train, folder=folder, picture=picture), nprocs=PROCESSES)
    print(f"drawn in {picture}")


if __name__ == "__main__":
    main(*sys.argv[1:])
