"""`python warm_call.py CONTENDER PROGRAM`, in a process of its own: the first calls, and what they cost.

Importing torch and building the model come before. The program runs once in eager mode first, so that what every first
call costs, such as starting threads, is paid by no contender. `import onegraph` is counted for `x + 1` alone.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from pathlib import Path
from resource import RUSAGE_CHILDREN, RUSAGE_SELF, getrusage
from time import perf_counter, process_time
from typing import Any

import torch

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from benchmarks.starts import SMALL, Program, program  # noqa: E402

LATER = 3  # more rounds of the calls, which are told beside the first one's cost


def cpu_seconds() -> float:
    return sum(usage.ru_utime + usage.ru_stime for usage in map(getrusage, (RUSAGE_SELF, RUSAGE_CHILDREN)))


def run(target: Any, calls: list[dict[str, Any]], trained: bool) -> None:
    for inputs in calls:
        result = target(**inputs)
        if trained:
            result.backward()


def compiled(contender: str, target: Any) -> Any:
    if contender == "stock":
        return torch.compile(target)
    import onegraph

    return onegraph.compile(target)


class Watch:
    """Subscriber: seconds of onegraph's stages, and those in which it packs weights. It imports nothing of onegraph."""

    def __init__(self) -> None:
        self.stages: Counter[str] = Counter()
        self.packing = 0.0
        self._patched = False

    def note(self, event: Any) -> None:
        recipes = sys.modules.get("onegraph.compiler.library.recipe")
        if recipes is not None and not self._patched:
            self._patched = True
            self._patch(recipes.Recipe)
        if type(event).__name__ == "StageTimed":
            self.stages[event.stage] += event.seconds

    def _patch(self, recipe: Any) -> None:
        make = recipe.__call__

        def measured(self_: Any, *tensors: Any) -> Any:
            begun = process_time()
            try:
                return make(self_, *tensors)
            finally:
                self.packing += process_time() - begun

        recipe.__call__ = measured


def measured(contender: str, chosen: Program) -> dict[str, Any]:
    torch.manual_seed(0)
    target, calls = chosen.build()
    with torch.set_grad_enabled(chosen.trained):
        run(target, calls, chosen.trained)
        if chosen.trained:
            target.zero_grad(set_to_none=True)
        if contender == "onegraph" and chosen.key != SMALL:
            import onegraph  # noqa: F401 - of the import, not of the first call
        begun, cpu = perf_counter(), cpu_seconds()
        target, watch = compiled(contender, target), Watch()
        if contender == "onegraph":
            sys.modules["onegraph.compile"].EVENTS.subscribe(watch.note)  # the attribute of that name is the function
        run(target, calls, chosen.trained)
        cost = {"wall": perf_counter() - begun, "cpu": cpu_seconds() - cpu}
        report = {**cost, "packing": watch.packing, "stages": dict(watch.stages)}
        return {**report, "later": [again(target, calls, chosen.trained) for _ in range(LATER)]}


def again(target: Any, calls: list[dict[str, Any]], trained: bool) -> float:
    """CPU-seconds of the same calls once more."""
    if trained:
        target.zero_grad(set_to_none=True)
    begun = cpu_seconds()
    run(target, calls, trained)
    return cpu_seconds() - begun


if __name__ == "__main__":
    print(json.dumps(measured(sys.argv[1], program(sys.argv[2]))), flush=True)
