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
    """The function, its arguments by position and by name, and whether it is trained."""
    if name == "x + 1":
        return (lambda x: x + 1), (torch.randn(8),), {}, False
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
    if name.startswith("transform "):
        from benchmarks.functions import CASES

        (case,) = (each for each in CASES if each.__name__ == name.removeprefix("transform "))
        return *case(), {}, False
    from benchmarks.learners import LEARNERS, built
    from benchmarks.zoo import MODELS

    trained = name.startswith("train ")
    known = {model.key: model for model in (LEARNERS if trained else MODELS)}
    key = name.removeprefix("train ")
    if key not in known:
        raise ValueError(f"unknown work {name!r}")
    target, inputs = built(known[key]) if trained else known[key].build()
    return target, (), inputs, trained


def main(contender: str, name: str) -> None:
    torch.manual_seed(0)
    target, args, named, trained = work(name)

    def call() -> None:
        result = target(*args, **named)
        if trained:
            result.backward()

    with torch.set_grad_enabled(trained):
        call()  # so that eager's own first-call costs are paid by none of the contenders
        start, start_cpu = perf_counter(), cpu_seconds()
        if contender == "stock":
            target = torch.compile(target)
        elif contender == "onegraph":
            import onegraph

            target = onegraph.compile(target, options={"compile_gradients": True} if trained else None)
        call()
        cost = {"wall": perf_counter() - start, "cpu": cpu_seconds() - start_cpu}
    print(json.dumps(cost), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
