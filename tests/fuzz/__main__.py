"""The long run: `python -m tests.fuzz --count 20000 --seed 0 --jobs 2` runs so many programs in twin worlds.

Each program that differs is made small and written to a file; of differences of one kind, the first few. The exit
status is 1 if there were any.
"""

from __future__ import annotations

import argparse
import contextlib
import multiprocessing
import multiprocessing.connection
import os
import random
import signal
import sys
import time
import warnings
from collections import Counter
from dataclasses import fields
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from tests.fuzz.programs import draw_program
from tests.fuzz.shrink import shrink
from tests.fuzz.twin import Measured, Unfit, Way, compare, count_operators, way_of

#: Programs that one process runs, and how many of one kind of difference are made small.
CHUNK, SHRUNK = 100, 2


def run_one(number: int, out: Path, fast: bool, tell: Any) -> None:
    text, way, measured = draw_program(random.Random(number)), way_of(number), Measured()
    tell(("began", number))
    try:
        difference = compare(text, way, measured)
        if number % 20 == 0 and difference is None:
            count_operators(text, measured)
    except Unfit:
        tell(("unfit", number))
        return
    if difference is not None:
        path = out / f"program_{number}.py"
        path.write_text(f"# {way}\n# {difference.kind}\n{text}")
        tell(("differs", number, difference.kind))
        if not fast and claim(out, difference.kind):
            small = shrink(text, lambda candidate: same_kind(candidate, way, difference.kind))
            explained = "".join(f"# {line}\n" for line in difference.text.splitlines()[-20:])
            (out / f"small_{number}.py").write_text(f"# {way}\n{explained}{small}")
    tell(("ran", number, measured))


def claim(out: Path, kind: str) -> bool:
    """Whether this is one of the first differences of its kind."""
    name = "".join(letter if letter.isalnum() else "_" for letter in kind)
    for number in range(SHRUNK):
        try:
            (out / f".{name}_{number}").touch(exist_ok=False)
        except FileExistsError:
            continue
        return True
    return False


def same_kind(text: str, way: Way, kind: str) -> bool:
    try:
        found = compare(text, way)
    except Unfit:
        return False
    return found is not None and found.kind == kind


def run_chunk(numbers: range, out: Path, fast: bool, pipe: Any) -> None:
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    sys.stdout = open(os.devnull, "w")
    for number in numbers:
        run_one(number, out, fast, pipe.send)
    pipe.send(("end",))


class Run:
    """The processes of a run, and what they have told."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.out: Path = options.out
        self.out.mkdir(parents=True, exist_ok=True)
        last = options.seed + options.count
        self.chunks = [range(at, min(at + CHUNK, last)) for at in range(options.seed, last, CHUNK)]
        self.workers: dict[Any, tuple[Any, range, int]] = {}
        self.kinds: Counter[str] = Counter()
        self.first: dict[str, int] = {}
        self.total = Measured(ran=0)
        self.done = self.unfit = self.whole = 0

    def start(self, numbers: range) -> None:
        mine, theirs = multiprocessing.Pipe(duplex=False)
        arguments = (numbers, self.out, self.options.fast, theirs)
        process = multiprocessing.get_context("fork").Process(target=run_chunk, args=arguments, daemon=True)
        process.start()
        theirs.close()
        self.workers[mine] = (process, numbers, numbers.start)

    def run(self, progress: Progress) -> None:
        task = progress.add_task("programs", total=self.options.count)
        while self.chunks or self.workers:
            while self.chunks and len(self.workers) < self.options.jobs:
                self.start(self.chunks.pop(0))
            for pipe in multiprocessing.connection.wait(list(self.workers), timeout=1):
                self.hear(pipe)
            progress.update(task, completed=self.done, description=f"{sum(self.kinds.values())} differ")

    def hear(self, pipe: Any) -> None:
        process, numbers, current = self.workers[pipe]
        try:
            told = pipe.recv()
        except EOFError:  # the process is dead
            del self.workers[pipe]
            process.join()
            self.differs(current, f"the process died: {signal_name(process.exitcode)}")
            (self.out / f"program_{current}.py").write_text(draw_program(random.Random(current)))
            self.done += 1
            if current + 1 < numbers.stop:
                self.chunks.append(range(current + 1, numbers.stop))
            return
        match told:
            case ("began", number):
                self.workers[pipe] = (process, numbers, number)
            case ("unfit", number):
                self.done, self.unfit = self.done + 1, self.unfit + 1
            case ("differs", number, kind):
                self.differs(number, kind)
            case ("ran", number, measured):
                self.done += 1
                self.note(measured)
            case ("end",):
                del self.workers[pipe]
                process.join()

    def differs(self, number: int, kind: str) -> None:
        self.kinds[kind] += 1
        self.first.setdefault(kind, number)

    def note(self, measured: Measured) -> None:
        self.whole += measured.skipped == 0
        if measured.ran < 0:
            measured.compiled = measured.ran = 0
        for each in fields(Measured):
            setattr(self.total, each.name, getattr(self.total, each.name) + getattr(measured, each.name))

    def report(self, console: Console, seconds: float) -> None:
        total, ran = self.total, self.done - self.unfit
        console.print(f"{ran} programs ran in {seconds:.0f} s ({ran / seconds:.1f} a second), {self.unfit} were unfit")
        console.print(
            f"{total.calls} calls, {total.raised} of them raised; {total.graphs} graphs, {total.breaks} breaks"
        )
        console.print(f"no frame skipped: {self.whole / max(ran, 1):.1%} of the programs")
        console.print(
            f"operators compiled: {total.compiled / max(total.ran, 1):.1%} (counted in one program of twenty)"
        )
        console.print(f"{sum(self.kinds.values())} programs differ, in {len(self.kinds)} kinds")
        for kind, count in self.kinds.most_common():
            console.print(f"  {count:5}  {kind}  (first: {self.first[kind]})", markup=False, highlight=False)


def signal_name(code: int | None) -> str:
    return signal.Signals(-code).name if code is not None and code < 0 else f"exit status {code}"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--count", type=int, default=1000, help="how many programs")
    parser.add_argument("--seed", type=int, default=0, help="the number of the first program")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes")
    parser.add_argument("--out", type=Path, default=Path("build/fuzz"), help="where programs that differ are written")
    parser.add_argument("--fast", action="store_true", help="do not make the programs small")
    console, began = Console(), time.monotonic()
    run = Run(parser.parse_args())
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console) as progress, contextlib.suppress(KeyboardInterrupt):
        run.run(progress)
    run.report(console, time.monotonic() - began)
    return bool(run.kinds)


if __name__ == "__main__":
    sys.exit(main())
