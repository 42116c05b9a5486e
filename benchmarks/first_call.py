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
    """The function and its arguments."""
    match name:
        case "x + 1":
            return (lambda x: x + 1), (torch.randn(8),)
        case "GPT-2 small":
            return gpt2_small()
    raise ValueError(f"unknown work {name!r}")


def gpt2_small():
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "examples"))
    from models import gpt2

    model, inputs = gpt2()
    return model, (inputs["input_ids"],)


def main(contender: str, name: str) -> None:
    torch.manual_seed(0)
    target, args = work(name)
    with torch.no_grad():
        target(*args)  # so that eager's own first-call costs are paid by none of the contenders
        start, start_cpu = perf_counter(), cpu_seconds()
        if contender == "stock":
            target = torch.compile(target)
        elif contender == "onegraph":
            import onegraph

            target = onegraph.compile(target)
        target(*args)
        cost = {"wall": perf_counter() - start, "cpu": cpu_seconds() - start_cpu}
    print(json.dumps(cost), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
