"""The whole table in a terminal: `python -m tests.zoo [name ...] [--backend eager] [--stock] [--train]`."""

from __future__ import annotations

import argparse
import collections
import sys
import time
import traceback
from dataclasses import replace
from typing import Any

import torch
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

import onegraph

from .models import MODELS
from .row import Model
from .train import train
from .trial import Outcome, attempt, call


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.zoo", description=__doc__)
    parser.add_argument("names", nargs="*", help="models or families (all)")
    parser.add_argument("--backend", default="native", choices=onegraph.list_backends())
    parser.add_argument("--breaks", action="store_true", help="allow graph breaks, and count them")
    parser.add_argument("--stock", action="store_true", help="capture with torch.compile too")
    parser.add_argument("--traceback", action="store_true", help="print the traceback of every exception")
    parser.add_argument("--train", action="store_true", help="compare gradients in train mode")
    options = parser.parse_args()
    chosen = [m for m in MODELS if not options.names or {m.name, m.family} & set(options.names)]
    console = Console() if sys.stdout.isatty() else Console(width=200)
    if options.train:
        sys.exit(train_all(chosen, options.backend))
    table = new_table(options.stock)
    outcomes = []
    columns = (TextColumn("{task.description:<22}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, disable=not console.is_terminal) as progress:
        task = progress.add_task("", total=len(chosen))
        for model in chosen:
            progress.update(task, description=model.name)
            outcome = trial(model, options.backend, not options.breaks, options.traceback)
            outcomes.append(outcome)
            table.add_row(*cells(outcome), *([stock(model)] if options.stock else []))
            if not console.is_terminal:
                console.print(
                    f"{model.name}: {'; '.join(outcome.failures)[:300] or 'ok'}", highlight=False, markup=False
                )
            onegraph.reset()
            progress.advance(task)
    console.print(table)
    conclude(console, outcomes)


def train_all(chosen: list[Model], backend: str) -> int:
    """A line for each model; the exit status is 1 if one has other gradients than in eager."""
    bad = 0
    for model in chosen:
        try:
            found = train(model, backend)
            words = "; ".join(found.failures) or f"ok, {found.planned} pairs of graphs, error {found.error:.0e}"
            words += "".join(f"; {reason}" for reason in dict.fromkeys(found.refused))
            bad += bool(found.failures)
        except Exception as error:  # the next models are still of interest
            words, bad = f"{type(error).__name__}: {error}", bad + 1
        print(f"{model.name}: {words[:300]}", flush=True)
        onegraph.reset()
    print(f"{len(chosen) - bad} of {len(chosen)} models have eager's gradients")
    return bad > 0


def trial(model: Model, backend: str, fullgraph: bool, show: bool) -> Outcome:
    """The outcome; an exception is one too, since the next models are still of interest."""
    try:
        return attempt(model, backend, fullgraph)
    except Exception as error:  # the report's whole point is to survive whatever a model raises
        if show:
            traceback.print_exc()
        return replace(Outcome(model), failures=(f"{type(error).__name__}: {error}",))


def stock(model: Model) -> str:
    """Graphs, operations and seconds of the first call of `torch.compile` without a backend."""
    sizes: list[int] = []

    def backend(graph: torch.fx.GraphModule, examples: list[Any]) -> Any:
        sizes.append(sum(node.op.startswith("call_") for node in graph.graph.nodes))
        return graph.forward

    torch.compiler.reset()
    compiled = torch.compile(model.build(), backend=backend, fullgraph=True, dynamic=False)
    began = time.perf_counter()
    try:
        with torch.no_grad():
            call(compiled, model, 1)
    except Exception as error:  # whatever it raises is its result
        return f"{type(error).__name__}"
    return f"{len(sizes)} / {sum(sizes)} / {time.perf_counter() - began:.2f}"


def new_table(with_stock: bool) -> Table:
    table = Table("model", "family", "graphs", "guards", "operations", "fallbacks", "seconds", "error", "failures")
    if with_stock:
        table.add_column("stock: graphs / operations / seconds")
    return table


def cells(outcome: Outcome) -> list[str]:
    shown = "; ".join((*outcome.failures, *outcome.breaks)).replace("[", "\\[")
    numbers = (outcome.graphs, outcome.guards, outcome.operations, outcome.fallbacks)
    color = "red" if outcome.failures else "green"
    return [
        f"[{color}]{outcome.model.name}",
        outcome.model.family,
        *map(str, numbers),
        f"{outcome.seconds:.2f}",
        f"{outcome.error:.0e}",
        shown[:160],
    ]


def conclude(console: Console, outcomes: list[Outcome]) -> None:
    """How many are well, and what stops the others, the most frequent cause first."""
    good = sum(not outcome.failures for outcome in outcomes)
    console.print(f"{good} of {len(outcomes)} models: one graph, equal to eager, compiled once, left unchanged")
    causes = collections.Counter(outcome.failures[0].split("\n")[0] for outcome in outcomes if outcome.failures)
    for cause, number in causes.most_common():
        console.print(f"{number:4}  {cause}", markup=False, highlight=False)


main()
