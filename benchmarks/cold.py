"""Cold compile: a fresh process for each measurement.

Measured are CPU-seconds and wall of the first call, and the child processes that the process starts in all its life.
For `x + 1` all caches are empty. For models the stock compiler has its precompiled header, which it makes but once;
then the same call is measured in three processes more, with what the first one left in the caches.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from time import sleep
from typing import Any

from benchmarks.contenders import CONTENDERS
from benchmarks.measure import Result, Settings, sample
from benchmarks.zoo import MODELS

SCRIPT = Path(__file__).with_name("first_call.py")
SMALL = "x + 1"
COMPILERS = ("stock", "onegraph")
CACHES = ("TORCHINDUCTOR_CACHE_DIR", "ONEGRAPH_CACHE_DIR")
POLL = 0.005


@dataclass(frozen=True, slots=True)
class Cold:
    """One process: seconds of its first call, and how many processes it started in all its life.

    `packing` of the seconds were spent on packing weights; `stages` are those of onegraph, if the script tells them;
    `later` are the CPU-seconds of the same calls when they are made again.
    """

    wall: float
    cpu: float
    children: int
    packing: float = 0.0
    stages: Mapping[str, float] = field(default_factory=dict)
    later: Sequence[float] = ()


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


class FirstCallFailed(Exception):
    """The process ended with an error; the message is what it printed last."""


def first_call(
    contender: str, work: str, path: str | None = None, caches: str | None = None, script: Path = SCRIPT
) -> Cold:
    """Measure one process.

    Args:
        work: `x + 1`, the key of a model, or `transform` and the name of a case.
        path: replaces PATH (an empty one: no C compiler is found).
        caches: the folder of the caches, which are empty if none is given.
        script: what is run, with the contender and the work as its arguments.
    """
    with tempfile.TemporaryDirectory() as folder:
        environment = os.environ | {name: f"{caches or folder}/{name}" for name in CACHES}
        environment |= {} if path is None else {"PATH": path}
        environment.pop("PYTHONDONTWRITEBYTECODE", None)  # packages that are installed have their bytecode
        # -P: the modules beside the script must not hide installed packages.
        command = [sys.executable, "-P", str(script), contender, work]
        log = Path(folder, "log")
        with log.open("w") as errors:
            process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=errors, text=True)
        seen: set[tuple[int, str]] = set()
        while process.poll() is None:
            seen |= descendants(process.pid)
            sleep(POLL)
        output = process.stdout.read()
        if process.returncode:
            raise FirstCallFailed(f"{contender}, {work}: {log.read_text()[-2000:]}")
    report = json.loads(output.splitlines()[-1])
    told = {name: report[name] for name in ("packing", "stages", "later") if name in report}
    return Cold(report["wall"], report["cpu"], len(seen), **told)


def run(settings: Settings) -> Iterator[Result]:
    rounds = [{name: first_call(name, SMALL) for name in CONTENDERS} for _ in range(1 if settings.quick else 3)]
    children = ", ".join(f"{name} {max(turn[name].children for turn in rounds)}" for name in CONTENDERS)
    for clock in ("cpu", "wall"):
        samples = {name: sample([getattr(turn[name], clock) for turn in rounds]) for name in CONTENDERS}
        yield Result("cold", f"{SMALL}: {clock}", "s", samples, f"{SMALL}: child processes: {children}")
    yield without_compiler()
    with tempfile.TemporaryDirectory() as header:
        first_call("stock", SMALL, caches=header)
        for model in MODELS[:1] if settings.quick and not settings.only else MODELS:
            if settings.wants(model.key):
                yield from of_model(model, header, 1 if settings.quick else 3)


def of_model(model: Any, header: str, rounds: int) -> Iterator[Result]:
    """Its first call with nothing in the caches but the stock compiler's header, then with all that this one left."""
    with tempfile.TemporaryDirectory() as folder:
        caches = {name: shutil.copytree(header, f"{folder}/{name}") for name in COMPILERS}

        def turn() -> dict[str, float]:
            return {name: first_call(name, model.key, caches=caches[name]).cpu for name in COMPILERS}

        cold, *warm = [turn() for _ in range(1 + rounds)]
    yield Result("cold", f"{model.name}: cpu", "s", {name: sample([cold[name]]) for name in COMPILERS})
    samples = {name: sample([costs[name] for costs in warm]) for name in COMPILERS}
    yield Result("cold", f"{model.name}: cpu, caches warm", "s", samples)


def without_compiler() -> Result:
    """Who still works where no C compiler is on PATH."""
    samples, failed = {}, []
    for name in CONTENDERS:
        try:
            samples[name] = sample([first_call(name, SMALL, path="").cpu])
        except FirstCallFailed:
            failed.append(name)
    note = f"without a C compiler on PATH these fail: {', '.join(failed)}" if failed else ""
    return Result("cold", f"{SMALL}: cpu, no C compiler on PATH", "s", samples, note)
