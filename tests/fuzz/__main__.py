"""The long run: `python -m tests.fuzz --count 20000 --seed 0 --jobs 2` runs so many programs in twin worlds.

Each program that differs is made small and written to a file; of differences of one kind, the first few. The exit
status is 1 if there were any.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import multiprocessing
import multiprocessing.connection
import os
import random
import resource
import signal
import sys
import time
import warnings
from collections import Counter
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from tests.fuzz.methods import draw_methods
from tests.fuzz.programs import draw_program
from tests.fuzz.raising import draw_raising
from tests.fuzz.recording import draw_recording
from tests.fuzz.shrink import shrink
from tests.fuzz.twin import COMPILED_LIMIT, HANGS, Measured, Unfit, Way, compare, count_operators, way_of

#: What programs are about, and how one is drawn.
DRAWINGS = {
    "anything": draw_program,
    "exceptions": draw_raising,
    "gradients": draw_recording,
    "methods": draw_methods,
}
#: Programs that one process runs, and how many of one kind of difference are made small.
CHUNK, SHRUNK = 100, 2
#: Bytes that a process may map beyond those of its start, and seconds of silence after which it is killed: a program
#: that takes all memory, or that hangs where no signal is heard, must not end the run.
MEMORY, SILENCE = 6 << 30, 900.0
#: What a process ends with that cannot end the program as it was written.
ENDLESS = 3
#: Seconds that a smaller program may take compiled, where the first one does not end.
SMALL_LIMIT = 4.0


def run_one(number: int, about: str, out: Path, fast: bool, tell: Any) -> bool:
    """Run one program, and tell of it; whether the process can be trusted with the next one."""
    text, way, measured = DRAWINGS[about](random.Random(number)), way_of(number, about), Measured()
    tell(("began", number))
    try:
        difference = compare(text, way, measured, give_up=lambda: os._exit(ENDLESS))
        if number % 20 == 0 and difference is None:
            count_operators(text, measured)
    except Unfit:
        tell(("unfit", number))
        return True
    if difference is not None:
        path = out / f"program_{number}.py"
        path.write_text(f"# {way}\n# {difference.kind}\n{text}\n{commented(difference.text)}")
        tell(("differs", number, difference.kind))
        if not fast and claim(out, difference.kind):
            small = shrink(text, lambda candidate: same_kind(candidate, way, difference.kind))
            (out / f"small_{number}.py").write_text(f"# {way}\n{commented(difference.text)}{small}")
    tell(("ran", number, measured))
    return difference is None or difference.kind != HANGS


def commented(text: str) -> str:
    return "".join(f"# {line}\n" for line in text.splitlines()[-30:])


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
        found = compare(text, way, limit=SMALL_LIMIT if kind == HANGS else COMPILED_LIMIT)
    except Unfit:
        return False
    return found is not None and found.kind == kind


def run_chunk(numbers: range, about: str, out: Path, fast: bool, pipe: Any) -> None:
    warnings.simplefilter("ignore")
    gc.freeze()  # collections are for the programs
    torch.set_num_threads(1)
    mapped = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (mapped + MEMORY, mapped + MEMORY))
    sys.stdout = open(os.devnull, "w")
    at = next((number for number in numbers if not run_one(number, about, out, fast, pipe.send)), numbers.stop)
    pipe.send(("end", at + 1))


@dataclass(slots=True)
class Worker:
    """A process, the programs it is to run, the one that it runs, and when it was heard last."""

    process: Any
    numbers: range
    current: int
    heard: float


class Run:
    """The processes of a run, and what they have told."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.out: Path = options.out
        self.out.mkdir(parents=True, exist_ok=True)
        last = options.seed + options.count
        self.chunks = [range(at, min(at + CHUNK, last)) for at in range(options.seed, last, CHUNK)]
        self.workers: dict[Any, Worker] = {}
        self.kinds: Counter[str] = Counter()
        self.first: dict[str, int] = {}
        self.total = Measured(ran=0)
        self.done = self.unfit = self.whole = 0

    def start(self, numbers: range) -> None:
        mine, theirs = multiprocessing.Pipe(duplex=False)
        arguments = (numbers, self.options.about, self.out, self.options.fast, theirs)
        process = multiprocessing.get_context("fork").Process(target=run_chunk, args=arguments, daemon=True)
        process.start()
        theirs.close()
        self.workers[mine] = Worker(process, numbers, numbers.start, time.monotonic())

    def run(self, progress: Progress) -> None:
        task = progress.add_task("programs", total=self.options.count)
        while self.chunks or self.workers:
            while self.chunks and len(self.workers) < self.options.jobs:
                self.start(self.chunks.pop(0))
            for pipe in multiprocessing.connection.wait(list(self.workers), timeout=1):
                self.hear(pipe)
            for worker in self.workers.values():
                if time.monotonic() - worker.heard > SILENCE:
                    worker.process.kill()
            progress.update(task, completed=self.done, description=f"{sum(self.kinds.values())} differ")

    def hear(self, pipe: Any) -> None:
        worker = self.workers[pipe]
        worker.heard = time.monotonic()
        try:
            told = pipe.recv()
        except EOFError:  # the process is dead
            worker.process.join()
            self.done += 1
            self.leave(pipe, worker.current + 1)
            if worker.process.exitcode == ENDLESS:
                self.unfit += 1
                return
            self.differs(worker.current, f"the process died: {signal_name(worker.process.exitcode)}")
            text = DRAWINGS[self.options.about](random.Random(worker.current))
            (self.out / f"program_{worker.current}.py").write_text(text)
            return
        match told:
            case ("began", number):
                worker.current = number
            case ("unfit", number):
                self.done, self.unfit = self.done + 1, self.unfit + 1
            case ("differs", number, kind):
                self.differs(number, kind)
            case ("ran", number, measured):
                self.done += 1
                self.note(measured)
            case ("end", following):
                worker.process.join()
                self.leave(pipe, following)

    def leave(self, pipe: Any, following: int) -> None:
        """A process has ended; another one runs what is left of its programs, from `following` on."""
        stop = self.workers.pop(pipe).numbers.stop
        if following < stop:
            self.chunks.insert(0, range(following, stop))

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
        console.print(f"{total.failed} graphs failed on their data")
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
    parser.add_argument("--about", choices=list(DRAWINGS), default="anything", help="what the programs are about")
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
