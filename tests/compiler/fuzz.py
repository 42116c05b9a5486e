"""The long run: `python -m tests.compiler.fuzz --count 50000 --seed 0 --jobs 2` compiles so many random graphs.

Each is run and compared with eager; the checker of the loop IR runs after every pass. `--symbolic` leaves sizes to the
call, `--networks` has products with weights among the operators, `--cpu x86-64-v3` makes code for an older machine.
Work is done in child processes, so that a crash is one line. The exit status is 1 if there was any difference.
"""

from __future__ import annotations

import argparse
import multiprocessing
import multiprocessing.connection
import os
import signal
import sys
import time
import warnings
from typing import Any

import torch
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from onegraph.compiler.cpu import CPU
from onegraph.compiler.target import Target
from tests.compiler.graphs import compare, compiled
from tests.compiler.random_graphs import RandomGraph, RandomNetwork, Unfit, symbolic_dims

TOLERANCE = {torch.float32: 2e-4, torch.float64: 1e-8}
CHUNK = 50  # graphs of one child


class FloatingTypes(TorchDispatchMode):
    """The floating-point types that operators within compute in: the coarsest one says what can be expected."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: set[torch.dtype] = set()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        results = [x for x in tree_leaves(result) if isinstance(x, torch.Tensor)]
        self.seen |= {x.dtype for x in results if x.is_floating_point()}
        return result


def difference(
    seed: int, symbolic: bool = False, networks: bool = False, cpu: str = "", target: Target = CPU, **options: Any
) -> str:
    """What is wrong with the graph of this seed, compiled with these options, in one line; empty if nothing is."""
    try:
        graph = RandomNetwork(seed) if networks else RandomGraph(seed)
        with FloatingTypes() as types:
            expected = graph.expected()
    except Unfit:
        return ""
    tolerance = max(TOLERANCE.get(dtype, 0.1) for dtype in {graph.dtype, *types.seen})
    run: Any = None
    dims = symbolic_dims(graph) if symbolic else None
    options["target_cpu"] = cpu
    if isinstance(graph, RandomNetwork):
        options |= {"library_calls": graph.calls, "parameters": graph.parameters}
    try:
        run = compiled(graph.function, *graph.inputs, symbolic=dims, target=target, **options)
        compare(run(*graph.inputs), expected, rtol=tolerance, atol=tolerance)
    except Exception as error:
        if run is not None and isinstance(error, AssertionError) and is_as_good(graph, run(*graph.inputs), expected):
            return ""
        text = " ".join(str(error).split())
        return f"{type(error).__name__}: {text[:300]}"
    return ""


def is_as_good(graph: RandomGraph, ours: Any, theirs: Any) -> bool:
    """Whether our results are about as near as eager's to those of double precision: some graphs amplify roundings."""
    if not graph.dtype.is_floating_point:
        return False
    truth = graph.function(*(x.double() for x in graph.inputs))
    for mine, other, exact in zip(ours, theirs, truth, strict=True):
        if facts(mine) != facts(other) or not torch.equal(mine.isnan(), other.isnan()):
            return False
        known = exact.double().isfinite() & mine.isfinite() & other.isfinite()
        errors = [(x.double() - exact.double())[known].abs() for x in (mine, other)]
        if known.any() and errors[0].max() > 4 * errors[1].max():
            return False
    return True


def facts(x: torch.Tensor) -> tuple[Any, ...]:
    return x.dtype, x.shape, [s for s, n in zip(x.stride(), x.shape, strict=True) if n > 1 and x.numel()]


def run_chunk(seeds: range, options: argparse.Namespace, pipe: Any) -> None:
    """Runs in a child; sends each seed before it is tried, and what was found."""
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    sys.stderr = open(os.devnull, "w")
    for seed in seeds:
        signal.setitimer(signal.ITIMER_PROF, options.seconds)
        pipe.send(("began", seed))
        pipe.send(("ended", difference(seed, options.symbolic, options.networks, options.cpu)))
    pipe.send(("done", None))


def ended(status: int) -> str:
    return "took too long" if status == -signal.SIGPROF else f"the process ended with status {status}"


def search(options: argparse.Namespace, console: Console) -> int:
    fork = multiprocessing.get_context("fork")
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    progress = Progress(*columns, TimeRemainingColumn(), console=console, disable=not console.is_terminal)
    task = progress.add_task("graphs", total=options.count)
    todo = [
        range(first, min(first + CHUNK, options.seed + options.count))
        for first in reversed(range(options.seed, options.seed + options.count, CHUNK))
    ]
    running: dict[Any, list[Any]] = {}
    what = "RandomNetwork" if options.networks else "RandomGraph"
    bad = done = 0
    start = time.monotonic()
    with progress:
        while todo or running:
            while todo and len(running) < options.jobs:
                ours, theirs = fork.Pipe(duplex=False)
                seeds = todo.pop()
                child = fork.Process(target=run_chunk, args=(seeds, options, theirs))
                child.start()
                theirs.close()
                running[ours] = [child, seeds, seeds.start]
            for pipe in multiprocessing.connection.wait(list(running), timeout=1.0):
                entry = running[pipe]
                try:
                    kind, found = pipe.recv()
                except EOFError:
                    entry[0].join()
                    kind, found = "crashed", ended(entry[0].exitcode)
                if kind == "began":
                    entry[2] = found
                    continue
                if kind != "done":
                    done += 1
                    progress.update(task, advance=1, description=f"{bad} differ")
                    if found:
                        bad += 1
                        print(f"{what}({entry[2]}): {found}", flush=True)
                    if done % 500 == 0 and not console.is_terminal:
                        print(f"{done} graphs, {done / (time.monotonic() - start):.1f} a second", flush=True)
                if kind != "ended":
                    del running[pipe]
                    entry[0].join()
                if kind == "crashed":
                    todo.append(range(entry[2] + 1, entry[1].stop))
    seconds = time.monotonic() - start
    print(f"{done} graphs in {seconds:.0f} s ({done / seconds:.1f} a second), {bad} differ")
    return bad > 0


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.compiler.fuzz", description=__doc__.split("\n")[0])
    parser.add_argument("--count", type=int, default=1000, help="graphs")
    parser.add_argument("--seed", type=int, default=0, help="the first graph's number")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--cpu", default="", help="the machine to make code for, as LLVM names it (default: this one)")
    parser.add_argument("--networks", action="store_true", help="with products, convolutions and attention")
    parser.add_argument("--seconds", type=int, default=60, help="of CPU for one graph")
    parser.add_argument("--symbolic", action="store_true", help="sizes are known at the call only")
    return search(parser.parse_args(), Console(stderr=True))


if __name__ == "__main__":
    sys.exit(main())
