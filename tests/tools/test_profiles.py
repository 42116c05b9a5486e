"""What profilers see: ranges in the traces of torch's, `perf`'s map of kernels, and the times that a report shows."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from import_graph import ROOT

import onegraph
from onegraph.base import events as ev
from onegraph.compile import EVENTS
from onegraph.ir.plan import ExternCall, Launch

Range = tuple[str, float, float]


def traced(run: Callable[[], Any], folder: Path) -> list[Range]:
    """The ranges of ours that a trace of torch's profiler has: name, begin, end."""
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        run()
    profile.export_chrome_trace(str(folder / "trace.json"))
    events = json.loads((folder / "trace.json").read_text())["traceEvents"]
    found = [(each["name"], each["ts"], each["ts"] + each["dur"]) for each in events if each.get("ph") == "X"]
    return sorted((each for each in found if is_ours(each[0])), key=lambda each: each[1])


def is_ours(name: str) -> bool:
    return name.startswith("onegraph ") or name.rpartition("_")[2].isalnum() and len(name.rpartition("_")[2]) == 16


def within(inner: Range, outer: Range) -> bool:
    return outer[1] <= inner[1] and inner[2] <= outer[2]


def test_regions_graphs_and_kernels_have_names(tmp_path: Path) -> None:
    @onegraph.compile
    def scaled(x: torch.Tensor) -> torch.Tensor:
        return (x.sin() + 1).sum(0)

    x = torch.randn(8, 8)
    scaled(x)
    region, graph, kernel = traced(lambda: scaled(x), tmp_path)
    assert region[0].startswith("onegraph region test_regions") and region[0].endswith("scaled")
    assert graph[0].startswith("onegraph graph scaled (") and "test_profiles.py:" in graph[0]
    assert kernel[0].startswith("sin_add_sum_")
    assert within(kernel, graph) and within(graph, region)


def test_backward_graphs_have_names(tmp_path: Path) -> None:
    layers = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.GELU(), torch.nn.LayerNorm(8))
    compiled = onegraph.compile(layers, options={"smallest_recorded_graph": 0})

    def step() -> None:
        compiled(torch.ones(2, 8)).sum().backward()

    step()
    names = [name for name, *_ in traced(step, tmp_path)]
    assert names[0] == "onegraph region Sequential"
    assert [name.partition(" (")[0] for name in names if " graph " in name] == [
        "onegraph graph Sequential",
        "onegraph backward graph Sequential",
    ]


def test_ranges_end_where_a_graph_fails(tmp_path: Path) -> None:
    @onegraph.compile
    def row(table: torch.Tensor, at: torch.Tensor) -> torch.Tensor:
        return table[at] + 1

    table = torch.randn(4, 4)
    row(table, torch.tensor([1]))

    def both() -> None:
        with pytest.raises(IndexError):
            row(table, torch.tensor([9]))
        row(table, torch.tensor([3]))

    found = traced(both, tmp_path)
    regions = [each for each in found if each[0].startswith("onegraph region")]
    assert len(regions) == 2 and regions[0][2] <= regions[1][1]
    assert sum(each[0].startswith("onegraph graph") for each in found) == 2


def test_a_profiler_within_sees_what_runs_then(tmp_path: Path) -> None:
    inner = onegraph.compile(lambda x: x * 2)
    outer = onegraph.compile(lambda x: inner(x) + 1)
    x = torch.ones(4)
    outer(x)
    before = outer(x)
    names = [name for name, *_ in traced(lambda: outer(x), tmp_path)]
    assert names[0].startswith("onegraph region") and names[-1].startswith("mul_add_")
    assert torch.equal(before, outer(x))


def test_kernels_are_measured_where_that_is_asked_for() -> None:
    planned: list[ev.MemoryPlanned] = []
    leave = EVENTS.subscribe(lambda event: planned.append(event) if isinstance(event, ev.MemoryPlanned) else None)

    def f(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return (x @ w).sin().sum(0)

    x, w = torch.randn(16, 32), torch.randn(32, 8)
    with onegraph.config.patch(measure=True):
        measured = onegraph.compile(f)
        measured(x, w)
    for _ in range(4):
        measured(x, w)
    onegraph.compile(lambda x: x + 1)(x)
    leave()
    ours, other = planned
    assert other.times is None
    timed = [step for step in ours.plan.steps if isinstance(step, Launch | ExternCall)]
    counts, spent = ours.times[::2], ours.times[1::2]
    assert list(counts) == [5] * (1 + len(timed)) and min(spent) > 0 and spent[0] >= sum(spent[1:])
    (call,) = (step for step in timed if isinstance(step, ExternCall))
    assert (call.moved, call.flops) == (4 * (16 * 32 + 32 * 8 + 16 * 8), 2 * 16 * 32 * 8)
    (kernel,) = ours.plan.kernels
    assert kernel.name.startswith("sin_sum_")
    assert (kernel.moved, kernel.flops) == (4 * (16 * 8 + 8), 2 * 16 * 8)


PROGRAM = """
import os, torch, onegraph
onegraph.compile(lambda x: x.sin() + 1)(torch.ones(64))
from onegraph.compiler.codegen.loading import LIVING
map = f"/tmp/perf-{os.getpid()}.map"
print(open(map).read(), end="")
os.unlink(map)
for key, function in LIVING.items():
    print("at", f"{function.address:x}", key[2])
"""


def test_perf_is_told_of_kernels(tmp_path: Path) -> None:
    environment = os.environ | {
        "PYTHONPATH": str(ROOT / "src"),
        "ONEGRAPH_PERF_MAP": "1",
        "ONEGRAPH_VERIFY": "0",
        "ONEGRAPH_CACHE_DIR": str(tmp_path),
    }
    for _ in range(2):  # the second finds its code on disk
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM], env=environment, capture_output=True, text=True, timeout=120
        )
        assert done.returncode == 0, done.stderr
        lines = [line.split() for line in done.stdout.splitlines()]
        (known,) = (line for line in lines if line[0] == "at")
        told = {name: (int(address, 16), int(size, 16)) for address, size, name in lines if address != "at"}
        address, size = told[known[2]]
        assert address == int(known[1], 16) and size > 0 and known[2].startswith("sin_add_")
        assert told[f"{known[2]}.part"][1] > 64  # the loops
        placed = sorted(told.values())
        assert all(begin + size <= after for (begin, size), (after, _) in zip(placed, placed[1:], strict=False))
