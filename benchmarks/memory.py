"""The most memory that one call of a whole model has allocated at a time, results included: a count, no timing.

Plans are run by their executor in Python: the native launcher takes a plan's workspace from where the profiler does not
see it, and keeps it from call to call.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial

import torch
from torch.profiler import ProfilerActivity, profile

from benchmarks.contenders import CONTENDERS, reset
from benchmarks.measure import Result, Run, Settings, sample
from benchmarks.zoo import MODELS
from onegraph import backends, kept_bytes
from onegraph.compiler.runtime.executor import Executor

COMPARED = ("eager", "onegraph")  # the stock compiler's calls are not worth its time to compile here


def peak(run: Run) -> int:
    """Bytes. The run should have been called before: what is kept from then on is not counted."""
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiler:
        run()
    events = profiler.profiler.kineto_results.events()
    changes = sorted((event.start_ns(), event.nbytes()) for event in events if event.name() == "[memory]")
    alive = highest = 0
    for _, change in changes:
        alive += change
        highest = max(highest, alive)
    return highest


@contextmanager
def seen_by_profiler() -> Iterator[None]:
    before, backends.CPU = backends.CPU, replace(backends.CPU, launch=Executor)
    try:
        yield
    finally:
        backends.CPU = before


def run(settings: Settings) -> Iterator[Result]:
    for model in MODELS[:1] if settings.quick and not settings.only else MODELS:
        if not settings.wants(model.key):
            continue
        torch.manual_seed(0)
        module, inputs = model.build()
        found = {}
        with torch.no_grad(), seen_by_profiler():
            for name in COMPARED:
                call = partial(CONTENDERS[name](module), **inputs)
                call()
                call()
                found[name] = sample([float(peak(call))])
        note = f"{model.name}: {kept_bytes() / 1e6:.1f} MB of packed weights are kept between calls"
        yield Result("memory", model.name, "MB", found, note)
        del module, call
        reset()
        gc.collect()  # an executor in Python is part of a cycle, and holds packed weights
