"""A step of generation by the size of its weights: Llama 110M, one token, in turn, against the speed of memory."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from functools import partial

import torch
from torch import nn

import onegraph
from benchmarks.inference import torch_threads
from benchmarks.measure import Result, Run, Sample, Settings, interleaved
from benchmarks.zoo import llama
from onegraph.tools.roofline import limits

ROUNDS = 15
AT_LEAST = 0.1  # seconds of steps in a row, as in a sentence: near caches hold what is small
COLUMNS = ("eager", "onegraph", "limit")
#: The element type, the option `quantize`, and the bits of a weight.
KINDS: dict[str, tuple[torch.dtype, str | None, float]] = {
    "float32": (torch.float32, None, 32),
    "bfloat16": (torch.bfloat16, None, 16),
    "int8": (torch.float32, "int8-weights", 8),
    "int4": (torch.float32, "int4-weights", 4.5),
}


def run(settings: Settings) -> Iterator[Result]:
    torch.manual_seed(0)
    model, inputs = llama(1)
    kinds = [name for name in KINDS if settings.wants(name)]
    with torch_threads(1 if settings.shared else torch.get_num_threads()), torch.no_grad():
        models = {dtype: copy.deepcopy(model).to(dtype) for dtype in {KINDS[name][0] for name in kinds}}
        runs: dict[str, Run] = {f"eager {dtype}": partial(made, **inputs) for dtype, made in models.items()}
        for name in kinds:
            dtype, quantize, _ = KINDS[name]
            options = {"quantize": quantize, "large_pages": quantize is None}
            runs[name] = partial(onegraph.compile(models[dtype], options=options), **inputs)
        samples = interleaved(runs, settings.rounds(ROUNDS), settings.clock, AT_LEAST)
        speed = limits().bandwidth
    count = sum(layer.weight.numel() for layer in model.modules() if isinstance(layer, nn.Linear))
    for name in kinds:
        dtype, _, bits = KINDS[name]
        read = count * bits / 8
        spent, least = samples[name], read / speed
        told = f"{name}: {read / 1e6:.0f} MB, {read / spent.median / 1e9:.1f} of {speed / 1e9:.1f} GB/s"
        row = {"eager": samples[f"eager {dtype}"], "onegraph": spent, "limit": Sample(least, least, least)}
        yield Result("steps", name, "ms", row, told)
