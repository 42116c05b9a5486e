"""Warm starts: CPU-seconds of the first calls where another process has compiled them before, and of that process.

Importing torch, transformers and onegraph, and building the model, is not counted; but for `x + 1` the import of
onegraph is. Each round is a process without caches and one with those that it left, of each contender in turn. The
stock compiler has its precompiled header in any case, which it makes but once. The note says what the same calls cost
when they are made again: the rest is what the first ones cost more.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from benchmarks.cold import COMPILERS, Cold, FirstCallFailed, first_call
from benchmarks.cold import SMALL as ANYTHING
from benchmarks.measure import Result, Settings, sample
from benchmarks.starts import PROGRAMS, Program

SCRIPT = Path(__file__).with_name("warm_call.py")
TURNS = ("cold", "warm")
SLOWEST = 3  # stages in a note


def run(settings: Settings) -> Iterator[Result]:
    with tempfile.TemporaryDirectory() as header:
        first_call("stock", ANYTHING, caches=header)
        for program in PROGRAMS[:1] if settings.quick and not settings.only else PROGRAMS:
            if settings.wants(program.key):
                yield from of_program(program, header, 1 if settings.quick else 3)


def of_program(program: Program, header: str, rounds: int) -> Iterator[Result]:
    found: dict[tuple[str, str], list[Cold]] = {(turn, name): [] for turn in TURNS for name in COMPILERS}
    failed: list[str] = []
    for number in range(rounds):
        shift = number % len(COMPILERS)
        for name in COMPILERS[shift:] + COMPILERS[:shift]:
            if name not in failed:
                with tempfile.TemporaryDirectory() as folder:
                    caches = shutil.copytree(header, f"{folder}/caches")
                    try:
                        for turn in TURNS:
                            found[turn, name].append(first_call(name, program.key, caches=caches, script=SCRIPT))
                    except FirstCallFailed:
                        failed.append(name)
    for turn in TURNS:
        samples = {name: sample([each.cpu for each in found[turn, name]]) for name in COMPILERS if found[turn, name]}
        yield Result(
            "warm", f"{program.name}: {turn}", "s", samples, note(program, turn, found[turn, "onegraph"], failed)
        )


def note(program: Program, turn: str, runs: Sequence[Cold], failed: Sequence[str]) -> str:
    """What onegraph's seconds are made of, in the round that took least."""
    parts = [f"{name} fails" for name in failed]
    if runs:
        best = min(runs, key=lambda each: each.cpu)
        slowest = sorted(best.stages.items(), key=lambda stage: -stage[1])[:SLOWEST]  # each with those inside of it
        parts.append(f"{best.packing:.3f} s of onegraph's {best.cpu:.3f} pack weights")
        parts += [f"{stage} {seconds:.3f}" for stage, seconds in slowest]
        if best.later:
            parts.append(f"later calls take {min(best.later):.3f}")
    return f"{program.name}, {turn}: {', '.join(parts)}" if parts else ""
