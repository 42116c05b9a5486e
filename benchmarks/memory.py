"""The most memory that one call of a whole model has allocated at a time, results included: a count, no timing."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import torch
from torch.profiler import ProfilerActivity, profile

from benchmarks.contenders import CONTENDERS, reset
from benchmarks.measure import Result, Run, Settings, sample
from benchmarks.zoo import MODELS
from onegraph import kept_bytes

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


def run(settings: Settings) -> Iterator[Result]:
    for model in MODELS[:1] if settings.quick and not settings.only else MODELS:
        if not settings.wants(model.key):
            continue
        torch.manual_seed(0)
        module, inputs = model.build()
        found = {}
        with torch.no_grad():
            for name in COMPARED:
                call = partial(CONTENDERS[name](module), **inputs)
                call()
                call()
                found[name] = sample([float(peak(call))])
        note = f"{model.name}: {kept_bytes() / 1e6:.1f} MB of packed weights are kept between calls"
        yield Result("memory", model.name, "MB", found, note)
        reset()
