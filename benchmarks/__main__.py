"""`python -m benchmarks [--quick] [--shared] [--save] [--only bert,resnet] [SUITE ...]`"""

from __future__ import annotations

import argparse
import sys
from functools import partial

import torch
from rich.console import Console

from benchmarks import (
    calls,
    cold,
    data_parallel,
    data_parallel_forecast,
    dynamic,
    generation,
    inference,
    kernels,
    memory,
    models,
    products,
    small,
    steps,
    training,
    transforms,
    warm,
)
from benchmarks.measure import Settings
from benchmarks.report import RESULTS, print_tables, save

SUITES = {
    "calls": calls.run,
    "calls_recorded": calls.run_recorded,
    "cold": cold.run,
    "warm": warm.run,
    "kernels": kernels.run,
    "models": models.run,
    "bf16": models.run_bf16,
    **{name: partial(inference.run, name) for name in inference.SUITES},
    **{name: partial(products.run, name) for name in products.SUITES},
    "small": small.run,
    "transforms": transforms.run,
    "transforms_cold": transforms.run_cold,
    "memory": memory.run,
    "dynamic": dynamic.run,
    "generation": generation.run,
    "steps": steps.run,
    "training": training.run,
    "data_parallel": data_parallel.run,
    "data_parallel_forecast": data_parallel_forecast.run,
    "training_saved": training.run_saved,
    "training_small": training.run_small,
    "gradients": training.run_gradients,
    "training_memory": training.run_memory,
    "training_cold": training.run_cold,
}


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="benchmarks", description="eager, stock torch.compile and onegraph, interleaved"
    )
    parser.add_argument("suites", nargs="*", metavar="suite", help=f"of {', '.join(SUITES)} (default: all)")
    parser.add_argument("--shared", action="store_true", help="one thread and its CPU time, for a machine that is busy")
    parser.add_argument("--quick", action="store_true", help="fewer rounds, and only the first of the long cases")
    parser.add_argument(
        "--only", default="", help="cases of all but calls and kernels, by their keys, with commas between"
    )
    parser.add_argument("--save", action="store_true", help="store the rows of these suites beside those of the others")
    args = parser.parse_args()
    if unknown := set(args.suites) - set(SUITES):
        parser.error(f"unknown suite {unknown.pop()!r}; accepted: {', '.join(SUITES)}")

    console = Console(width=None if sys.stdout.isatty() else 160)
    settings = Settings(args.quick, args.shared, tuple(filter(None, args.only.split(","))))
    if args.shared:
        torch.set_num_threads(1)
    saves = not (args.quick or args.only or args.suites and not args.save)
    results = []
    for name in args.suites or SUITES:
        own = []
        for result in SUITES[name](settings):
            console.print(f"{name}: {result.name}", style="dim", highlight=False)
            own.append(result)
        results += own
        if saves:  # each suite at its end: some take half an hour
            save(own, settings)
    print_tables(results, settings, console)
    told = f"saved to {RESULTS}" if saves else "not saved: whole suites are, with --save, and a run of all"
    console.print(told, style="dim", highlight=False)


if __name__ == "__main__":
    main()
