"""Whole models at their real sizes: those of the demo."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import torch

from benchmarks.contenders import CONTENDERS, reset
from benchmarks.measure import Result, Settings, interleaved

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "examples"))
from models import WORKLOADS  # noqa: E402 - the examples are not a package


def run(settings: Settings) -> Iterator[Result]:
    for workload in WORKLOADS[:1] if settings.quick else WORKLOADS:
        torch.manual_seed(0)
        model, inputs = workload.build()
        with torch.no_grad():
            runs = {key: partial(compile(model), **inputs) for key, compile in CONTENDERS.items()}
            yield Result("models", workload.name, "ms", interleaved(runs, settings.rounds(11), settings.clock))
        reset()
