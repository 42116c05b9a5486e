"""Whole models at their real sizes, in float32 and in bfloat16."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import torch

from benchmarks.contenders import CONTENDERS, reset
from benchmarks.measure import Result, Settings, interleaved
from benchmarks.zoo import MODELS


def run(settings: Settings) -> Iterator[Result]:
    yield from measured(settings, "models", torch.float32)


def run_bf16(settings: Settings) -> Iterator[Result]:
    yield from measured(settings, "bf16", torch.bfloat16)


def measured(settings: Settings, suite: str, dtype: torch.dtype) -> Iterator[Result]:
    for model in MODELS[:1] if settings.quick and not settings.only else MODELS:
        if not settings.wants(model.key):
            continue
        torch.manual_seed(0)
        module, inputs = model.build()
        module = module.to(dtype)
        inputs = {name: value.to(dtype) if value.is_floating_point() else value for name, value in inputs.items()}
        with torch.no_grad():
            runs = {key: partial(compile(module), **inputs) for key, compile in CONTENDERS.items()}
            yield Result(suite, model.name, "ms", interleaved(runs, settings.rounds(11), settings.clock))
        reset()
