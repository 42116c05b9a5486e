"""Transforms of functions, derivatives of derivatives, sizes that only the data say, and NumPy: steps of programs."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from functools import partial

import torch

from benchmarks.cold import COMPILERS, SMALL, FirstCallFailed, first_call
from benchmarks.contenders import CONTENDERS, reset
from benchmarks.functions import CASES
from benchmarks.measure import Result, Run, Settings, interleaved, sample


def failure(run: Run) -> str | None:
    """The name of the error that a contender's first call raises, if it does."""
    try:
        run()
    except Exception as error:
        return type(error).__name__
    return None


def run(settings: Settings) -> Iterator[Result]:
    for case in CASES[:1] if settings.quick else CASES:
        name = case.__name__.replace("_", " ")
        if not settings.wants(case.__name__):
            continue
        torch.manual_seed(0)
        target, args = case()
        with torch.no_grad():
            runs = {key: partial(compile(target), *args) for key, compile in CONTENDERS.items()}
            failed = {key: error for key, run in runs.items() if (error := failure(run)) is not None}
            note = "; ".join(f"{name}: {key} fails ({error})" for key, error in failed.items())
            able = {key: run for key, run in runs.items() if key not in failed}
            samples = interleaved(able, settings.rounds(15), settings.clock)
            yield Result("transforms", name, "ms", samples, note)
        reset()


def run_cold(settings: Settings) -> Iterator[Result]:
    """CPU-seconds of the first call in a fresh process; the stock compiler has its precompiled header."""
    with tempfile.TemporaryDirectory() as header:
        first_call("stock", SMALL, caches=header)
        for case in CASES[:1] if settings.quick else CASES:
            if not settings.wants(case.__name__):
                continue
            name, samples, failed = case.__name__.replace("_", " "), {}, []
            for contender in COMPILERS:
                with tempfile.TemporaryDirectory() as folder:
                    caches = shutil.copytree(header, f"{folder}/caches")
                    try:
                        cost = first_call(contender, f"transform {case.__name__}", caches=caches)
                        samples[contender] = sample([cost.cpu])
                    except FirstCallFailed:
                        failed.append(f"{name}: {contender} fails")
            yield Result("transforms_cold", name, "s", samples, "; ".join(failed))
