"""Whole models at their real sizes, in float32 and in bfloat16.

Each is also measured with the option `freeze_parameters`: it is not looked in every call whether its parameters have
changed.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import torch

from benchmarks.contenders import CONTENDERS, reset
from benchmarks.measure import Result, Settings, interleaved
from benchmarks.zoo import MODELS
from onegraph import compile


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
            runs = {key: partial(contender(module), **inputs) for key, contender in CONTENDERS.items()}
            frozen = {"frozen": partial(compile(module, options={"freeze_parameters": True}), **inputs)}
            samples = interleaved(runs | frozen, settings.rounds(11), settings.clock)
            time = samples.pop("frozen").median
            ratio = samples["stock"].median / time
            note = f"{model.name}: {time * 1e3:.3g} ms with parameters frozen, x{ratio:.2f} against stock"
            yield Result(suite, model.name, "ms", samples, note)
        reset()
