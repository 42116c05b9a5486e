"""Cold compile: a fresh process with an empty cache for each measurement.

Measured are CPU-seconds and wall of the first call, and the child processes that the process starts in all its life.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from time import sleep

from benchmarks.measure import Result, Settings, sample

SCRIPT = Path(__file__).with_name("first_call.py")
WORK = ("x + 1", "GPT-2 small")
POLL = 0.005


@dataclass(frozen=True, slots=True)
class Cold:
    """One cold process: seconds of its first call, and how many processes it started in all its life."""

    wall: float
    cpu: float
    children: int


def descendants(root: int) -> set[tuple[int, str]]:
    """All processes below `root`, each as its id and its start time (ids are reused)."""
    parents: dict[int, list[tuple[int, str]]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except (FileNotFoundError, ProcessLookupError):
                continue
            parents.setdefault(int(fields[1]), []).append((int(entry.name), fields[19]))
    found: set[tuple[int, str]] = set()
    pending = [root]
    while pending:
        below = parents.get(pending.pop(), [])
        found.update(below)
        pending.extend(pid for pid, _ in below)
    return found


def first_call(contender: str, work: str, path: str | None = None) -> Cold | None:
    """Measure one process; None if it fails. `path` replaces PATH (an empty one: no C compiler is found)."""
    with tempfile.TemporaryDirectory() as cache:
        environment = os.environ | {
            "TORCHINDUCTOR_CACHE_DIR": f"{cache}/stock",
            "ONEGRAPH_CACHE_DIR": f"{cache}/onegraph",
        }
        environment |= {} if path is None else {"PATH": path}
        command = [sys.executable, str(SCRIPT), contender, work]
        process = subprocess.Popen(
            command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        seen: set[tuple[int, str]] = set()
        while process.poll() is None:
            seen |= descendants(process.pid)
            sleep(POLL)
        output = process.stdout.read()
    if process.returncode:
        return None
    report = json.loads(output.splitlines()[-1])
    return Cold(report["wall"], report["cpu"], len(seen))


def run(settings: Settings) -> Iterator[Result]:
    contenders = ("eager", "stock", "onegraph")
    for work in WORK[:1] if settings.quick else WORK:
        rounds = [{name: first_call(name, work) for name in contenders} for _ in range(1 if settings.quick else 3)]
        done = {name: [cold[name] for cold in rounds if cold[name] is not None] for name in contenders}
        done = {name: colds for name, colds in done.items() if colds}
        children = ", ".join(f"{name} {max(c.children for c in colds)}" for name, colds in done.items())
        note = f"child processes: {children}"
        yield Result(
            "cold", f"{work}: CPU", "s", {n: sample([c.cpu for c in colds]) for n, colds in done.items()}, note
        )
        yield Result(
            "cold", f"{work}: wall", "s", {n: sample([c.wall for c in colds]) for n, colds in done.items()}, note
        )
    without = {name: first_call(name, "x + 1", path="") for name in contenders}
    working = {name: sample([cold.cpu]) for name, cold in without.items() if cold is not None}
    failed = ", ".join(name for name, cold in without.items() if cold is None)
    yield Result("cold", "x + 1: CPU, no C compiler on PATH", "s", working, f"fails: {failed}" if failed else "")
