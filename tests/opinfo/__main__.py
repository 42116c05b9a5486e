"""Five reports about torch's operators.

    python -m tests.opinfo                       what becomes of each core aten operator: loops, or a call, and why
    python -m tests.opinfo run --jobs 2          every sample of every operator in every type, compiled, against eager
    python -m tests.opinfo accuracy --jobs 2     how far from the truth float32 is, ours and eager's
    python -m tests.opinfo gradients --jobs 2    the gradients of every sample, compiled, against eager's
    python -m tests.opinfo errors --jobs 2       exceptions and warnings of wrong calls, compiled, against eager's

The second takes hours; `--types float32`, `--operators 'pool|norm'` and `--limit 5` make it less. Each operator runs in
a process of its own, so that a crash is one line of the report. The exit status is 1 if anything differed.
"""

from __future__ import annotations

import argparse
import multiprocessing
import multiprocessing.connection
import os
import re
import signal
import sys
import warnings
from collections.abc import Iterator
from importlib import import_module
from typing import Any

import torch
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from onegraph.autograd.graphs import FunctionalGraph
from onegraph.base.config import Config
from onegraph.base.context import Context
from onegraph.compiler import compile_graph
from onegraph.compiler.cpu import CPU
from tests.opinfo.accuracy import ALLOWED, accuracies
from tests.opinfo.coverage import count_uses, report
from tests.opinfo.errors import differences
from tests.opinfo.gradients import TOLERANCE, check_gradients
from tests.opinfo.harness import Backend, check_operator, operators

TYPES = ("float32", "float64", "bfloat16", "float16", "int32", "int64", "bool")
CHECKED = Context(Config.from_environment().replace(verify=True))


def native(graph: FunctionalGraph) -> tuple[Any, tuple[str, ...]]:
    compiled = compile_graph(graph.module, CHECKED, CPU)
    return compiled, compiled.fallbacks


def check(op: Any, dtype: torch.dtype, limit: int | None, backend: Backend = native) -> tuple[Any, ...]:
    """What became of the operator's samples."""
    try:
        found = check_operator(op, backend, limit, dtype=dtype)
    except BaseException as error:
        notes = " | ".join(getattr(error, "__notes__", ()))
        return "differs", f"{type(error).__name__}: {str(error).strip()[:600]} [{notes[:300]}]"
    return "equal", found.equal, sorted(found.fallbacks), len(found.broken)


def check_on_triton(op: Any, dtype: torch.dtype, limit: int | None) -> tuple[Any, ...]:
    """The same of its kernels for GPUs, in Triton's interpreter."""
    from gpu.interpreted.interpreter import native, stand_in_for_processors

    stand_in_for_processors()  # samples that break the graph are compiled publicly
    return check(op, dtype, limit, native)


def train(op: Any, dtype: torch.dtype, limit: int | None, **options: Any) -> tuple[Any, ...]:
    """How many samples of the operator have the gradients of eager."""
    try:
        return "equal", check_gradients(op, dtype, limit, **options)
    except BaseException as error:
        notes = " | ".join(getattr(error, "__notes__", ()))
        return "differs", f"{type(error).__name__}: {str(error).strip()[:600]} [{notes[:300]}]"


def train_on_triton(op: Any, dtype: torch.dtype, limit: int | None) -> tuple[Any, ...]:
    """The same of its kernels for GPUs, in Triton's interpreter."""
    from gpu.interpreted.interpreter import CHECKED, stand_in_for_processors

    stand_in_for_processors()
    return train(op, dtype, limit, **CHECKED)


def judge(op: Any, dtype: torch.dtype, limit: int | None) -> tuple[Any, ...]:
    """Whether all errors of the operator are small, and those, a line each."""
    try:
        found = accuracies(op, limit)
    except BaseException as error:
        return "failed", [f"{op.formatted_name}: {type(error).__name__}: {str(error)[:300]}"]
    return "good" if all(item.is_good for item in found) else "less accurate", [*map(str, found)]


def provoke(op: Any, dtype: torch.dtype, limit: int | None) -> tuple[Any, ...]:
    """How many wrong calls of the operator there are, and those that end otherwise than eager's."""
    return "ended", *differences(op, limit)


def child(run: Any, op: Any, dtype: torch.dtype, limit: int | None, seconds: int, pipe: Any) -> None:
    """Sends what `run` gives for the operator."""
    signal.setitimer(signal.ITIMER_PROF, seconds)
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    sys.stdout = sys.stderr = open(os.devnull, "w")
    pipe.send(run(op, dtype, limit))


def outcomes(work: list[tuple[Any, str]], run: Any, options: argparse.Namespace) -> Iterator[tuple[Any, str, Any]]:
    """What each child that did `run` sent, as they end; children that take too long are ended."""
    limit, jobs, seconds = options.limit, options.jobs, options.seconds
    fork = multiprocessing.get_context("fork")
    running: dict[Any, tuple[Any, Any, str]] = {}
    todo = iter(work)
    while True:
        while len(running) < jobs and (item := next(todo, None)) is not None:
            ours, theirs = fork.Pipe(duplex=False)
            arguments = (run, item[0], getattr(torch, item[1]), limit, seconds, theirs)
            process = fork.Process(target=child, args=arguments)
            process.start()
            theirs.close()
            running[ours] = (process, *item)
        if not running:
            return
        for pipe in multiprocessing.connection.wait(list(running), timeout=1.0):
            process, op, name = running.pop(pipe)
            try:
                result = pipe.recv()
            except EOFError:
                process.join()
                late = process.exitcode == -signal.SIGPROF
                result = ("slow", f"took more than {seconds} s") if late else ("crashed", f"status {process.exitcode}")
            process.join()
            yield op, name, result


def shown(console: Console, total: int) -> Progress:
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    progress = Progress(*columns, console=console, disable=not console.is_terminal)
    progress.add_task("", total=total)
    return progress


def run(options: argparse.Namespace, chosen: list[Any], console: Console) -> int:
    types = [name for name in options.types.split(",") if name]
    work = [(op, name) for name in types for op in chosen if getattr(torch, name) in op.supported_dtypes("cpu")]
    counts: dict[str, list[int]] = {name: [0, 0, 0, 0] for name in types}  # operators, lowered fully, samples, bad
    bad = done = 0
    with shown(console, len(work)) as progress:
        for op, name, (kind, *rest) in outcomes(work, check_on_triton if options.triton else check, options):
            progress.update(progress.task_ids[0], advance=1, description=f"{name} {op.formatted_name}")
            done += 1
            if done % 100 == 0 and not console.is_terminal:
                print(f"{done} of {len(work)}: {name} {op.formatted_name}", flush=True)
            row = counts[name]
            row[0] += 1
            if kind == "equal":
                row[1] += bool(rest[0]) and not rest[1] and not rest[2]
                row[2] += rest[0] + rest[2]
            else:
                row[3] += 1
                bad += 1
                print(f"{kind}: {op.formatted_name} {name}: {rest[0]}", flush=True)
    for name, (ran, full, samples, wrong) in counts.items():
        print(
            f"{name}: {ran} operators, {samples} samples equal, {wrong} operators differ, {full} need no library call"
        )
    return bad > 0


def run_accuracy(options: argparse.Namespace, chosen: list[Any], console: Console) -> int:
    work = [(op, "float32") for op in chosen if torch.float32 in op.supported_dtypes("cpu")]
    bad = 0
    with shown(console, len(work)) as progress:
        for op, _, (kind, found) in outcomes(work, judge, options):
            progress.update(progress.task_ids[0], advance=1, description=op.formatted_name)
            bad += kind != "good"
            for line in [found] if isinstance(found, str) else found:
                print(f"{kind}: {line}", flush=True)
    print(f"{len(work)} operators, {bad} of them less accurate than eager by more than {ALLOWED:g} units")
    return bad > 0


def run_gradients(options: argparse.Namespace, chosen: list[Any], console: Console) -> int:
    types = [name for name in options.types.split(",") if getattr(torch, name) in TOLERANCE]
    work = [(op, t) for t in types for op in chosen if getattr(torch, t) in op.supported_backward_dtypes("cpu")]
    bad = equal = 0
    with shown(console, len(work)) as progress:
        for op, name, (kind, found) in outcomes(work, train_on_triton if options.triton else train, options):
            progress.update(progress.task_ids[0], advance=1, description=f"{name} {op.formatted_name}")
            if kind == "equal":
                equal += found
            else:
                bad += 1
                print(f"{kind}: {op.formatted_name} {name}: {found}", flush=True)
    print(f"{len(work)} operators by type, {equal} samples equal, {bad} differ")
    return bad > 0


def run_errors(options: argparse.Namespace, chosen: list[Any], console: Console) -> int:
    bad = calls = 0
    with shown(console, len(chosen)) as progress:
        for op, _, (kind, *rest) in outcomes([(op, "float32") for op in chosen], provoke, options):
            progress.update(progress.task_ids[0], advance=1, description=op.formatted_name)
            count, found = rest if kind == "ended" else (1, [f"{op.formatted_name}: {kind}: {rest[0]}"])
            calls += count
            bad += len(found)
            for line in found:
                print(line, flush=True)
    print(f"{len(chosen)} operators, {calls} calls, {bad} of them end otherwise than in eager")
    return bad > 0


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.opinfo", description=__doc__.split("\n")[0])
    parser.add_argument(
        "what", nargs="?", choices=("coverage", "run", "accuracy", "gradients", "errors"), default="coverage"
    )
    parser.add_argument("--types", default=",".join(TYPES), help="element types, separated by commas")
    parser.add_argument("--operators", default="", help="a regular expression that names must match")
    parser.add_argument("--limit", type=int, help="samples of each operator (3 for the coverage, else all)")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument(
        "--triton", action="store_true", help="`run` and `gradients`: kernels for GPUs, in Triton's interpreter"
    )
    parser.add_argument("--seconds", type=int, default=600, help="of CPU for one operator in one type")
    options = parser.parse_args()
    if options.triton:
        os.environ["TRITON_INTERPRET"] = "1"  # it is read when Triton is imported
        import_module("gpu.interpreted.interpreter")  # here once, and not by each child
    console = Console(stderr=True)
    chosen = [op for op in operators() if re.search(options.operators, op.formatted_name)]
    if options.what == "run":
        return run(options, chosen, console)
    if options.what == "accuracy":
        return run_accuracy(options, chosen, console)
    if options.what == "gradients":
        return run_gradients(options, chosen, console)
    if options.what == "errors":
        return run_errors(options, chosen, console)
    with shown(console, len(chosen)) as progress:

        def tell(name: str) -> None:
            progress.update(progress.task_ids[0], advance=1, description=name)

        print(report(count_uses(chosen, options.limit or 3, tell)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
