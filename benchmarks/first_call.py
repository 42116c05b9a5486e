"""`python first_call.py CONTENDER WORK`, in a process of its own: compile and call once, and print what that cost."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from resource import RUSAGE_CHILDREN, RUSAGE_SELF, getrusage
from time import perf_counter

import torch


def cpu_seconds() -> float:
    return sum(usage.ru_utime + usage.ru_stime for usage in map(getrusage, (RUSAGE_SELF, RUSAGE_CHILDREN)))


def work(name: str):
    """The function, its arguments, and those by name."""
    if name == "x + 1":
        return (lambda x: x + 1), (torch.randn(8),), {}
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
    from benchmarks.zoo import MODELS

    model = next((model for model in MODELS if model.key == name), None)
    if model is None:
        raise ValueError(f"unknown work {name!r}")
    target, inputs = model.build()
    return target, (), inputs


def main(contender: str, name: str) -> None:
    torch.manual_seed(0)
    target, args, named = work(name)
    with torch.no_grad():
        target(*args, **named)  # so that eager's own first-call costs are paid by none of the contenders
        start, start_cpu = perf_counter(), cpu_seconds()
        if contender == "stock":
            target = torch.compile(target)
        elif contender == "onegraph":
            import onegraph

            target = onegraph.compile(target)
        target(*args, **named)
        cost = {"wall": perf_counter() - start, "cpu": cpu_seconds() - start_cpu}
    print(json.dumps(cost), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
