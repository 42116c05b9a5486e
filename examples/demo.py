"""Compile four real models, compare them with eager, and let the compiled GPT-2 write.

python examples/demo.py [gpt2 bert vit resnet]
"""

from __future__ import annotations

import argparse
import statistics
import sys
from collections.abc import Callable
from dataclasses import dataclass
from time import perf_counter

import torch
from models import WORKLOADS, Workload, relative_error
from rich import box
from rich.console import Console
from rich.table import Table
from torch import nn
from writer import write

import onegraph
from onegraph.base import events as ev
from onegraph.compile import EVENTS
from onegraph.tools.progress import Stages, following
from onegraph.tools.record import Recorded, recording

COUNTED = (ev.GraphCaptured, ev.GraphBroken, ev.KernelsCompiled)


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the table; times in seconds."""

    name: str
    graphs: int
    breaks: int
    kernels: int
    compile: float
    eager: float
    compiled: float
    error: float


def timed(run: Callable[[], object]) -> float:
    start = perf_counter()
    run()
    return perf_counter() - start


def interleaved(eager: Callable[[], object], compiled: Callable[[], object], rounds: int) -> tuple[float, float]:
    """Medians of both, measured in turn, so that what else the machine does falls on both."""
    times = [(timed(eager), timed(compiled)) for _ in range(rounds)]
    return statistics.median(t for t, _ in times), statistics.median(t for _, t in times)


def count(recorded: list[Recorded]) -> tuple[int, int, int]:
    events = [item.event for item in recorded]
    graphs = sum(isinstance(event, ev.GraphCaptured) for event in events)
    breaks = sum(isinstance(event, ev.GraphBroken) for event in events)
    return graphs, breaks, sum(event.kernels for event in events if isinstance(event, ev.KernelsCompiled))


def measure(workload: Workload, stages: Stages, rounds: int) -> tuple[Row, nn.Module, nn.Module]:
    """Build, run eagerly, compile, compare and time one model."""
    stages.start(workload.name, "building the model with random weights")
    model, inputs = workload.build()
    stages.step("running eagerly")
    expected = model(**inputs)
    compiled = onegraph.compile(model)
    with recording(EVENTS, COUNTED) as recorded:
        start = perf_counter()
        actual = compiled(**inputs)
        first = perf_counter() - start
    stages.step("timing")
    eager_time, compiled_time = interleaved(lambda: model(**inputs), lambda: compiled(**inputs), rounds)
    graphs, breaks, kernels = count(recorded)
    error = relative_error(expected, actual)
    row = Row(workload.name, graphs, breaks, kernels, first - compiled_time, eager_time, compiled_time, error)
    stages.finish(f"{eager_time * 1e3:.1f} ms eager, {compiled_time * 1e3:.1f} ms compiled")
    return row, model, compiled


def table(rows: list[Row], threads: int) -> Table:
    title = f"float32, batch 1, {threads} threads; medians, eager and compiled in turn"
    out = Table(title=title, box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    out.add_column("model", no_wrap=True)
    headers = ("graphs", "breaks", "kernels", "compile\ns", "eager\nms", "compiled\nms", "ratio", "rel.\nerror")
    for header in headers:
        out.add_column(header, justify="right", no_wrap=True)
    for row in rows:
        out.add_row(
            row.name,
            str(row.graphs),
            str(row.breaks),
            str(row.kernels),
            f"{row.compile:.2f}",
            f"{row.eager * 1e3:.1f}",
            f"{row.compiled * 1e3:.1f}",
            f"x{row.eager / row.compiled:.2f}",
            f"{row.error:.0e}",
        )
    return out


def generate(console: Console, eager: nn.Module, compiled: nn.Module, tokens: int) -> None:
    """Let both write from the same start, and compare what they wrote."""
    console.print("\nGPT-2 writes (its weights are random, and so are its words):", highlight=False)
    written: list[int] = []

    def say(token: int, word: str) -> None:
        written.append(token)
        console.print(word, end=" ", style="green", highlight=False)

    compiled_time = timed(lambda: write(compiled, tokens, say))
    reference: list[int] = []
    eager_time = timed(lambda: write(eager, tokens, lambda token, word: reference.append(token)))
    same = "the same tokens as eager" if written == reference else "not the tokens that eager writes"
    console.print(
        f"\n{tokens} tokens, {same}: {tokens / compiled_time:.1f} tokens/s compiled, {tokens / eager_time:.1f} eager",
        highlight=False,
    )


def main() -> int:
    known = [workload.key for workload in WORKLOADS]
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("models", nargs="*", metavar="model", help=f"of {', '.join(known)} (default: all)")
    parser.add_argument("--rounds", type=int, default=9, help="calls that the medians are taken of")
    parser.add_argument("--tokens", type=int, default=24, help="tokens to generate")
    args = parser.parse_args()
    if unknown := set(args.models) - set(known):
        parser.error(f"unknown model {unknown.pop()!r}; accepted: {', '.join(known)}")

    console = Console()
    torch.manual_seed(0)
    rows: list[Row] = []
    writers: tuple[nn.Module, nn.Module] | None = None
    with torch.no_grad():
        with following(EVENTS, console) as stages:
            for workload in WORKLOADS:
                if not args.models or workload.key in args.models:
                    row, model, compiled = measure(workload, stages, args.rounds)
                    rows.append(row)
                    if workload.key == "gpt2":
                        writers = model, compiled
        console.print(table(rows, torch.get_num_threads()))
        if writers:
            generate(console, *writers, args.tokens)
    return 0


if __name__ == "__main__":
    sys.exit(main())
