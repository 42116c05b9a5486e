"""Generation: tokens of transformers' `generate` with the forward compiled, in a fresh process for each measurement."""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from benchmarks.contenders import CONTENDERS
from benchmarks.measure import Result, Settings, sample
from benchmarks.writing import CASES

SCRIPT = Path(__file__).with_name("writing.py")
TOLERANCE = 1e-4  # of logits, relative to the largest


def run(settings: Settings) -> Iterator[Result]:
    """`--only` takes models, batches, caches and contenders: `--only gpt2,1,dynamic,onegraph` is one of each."""
    kinds: list[list[str]] = [list(CASES), ["1", "4"], ["dynamic", "static"], list(CONTENDERS)]
    models, batches, caches, contenders = (
        [value for value in values if value in settings.only] or (values[:1] if settings.quick else values)
        for values in kinds
    )
    names = contenders if set(contenders) & set(settings.only) else list(CONTENDERS)
    for key, batch, cache in itertools.product(models, batches, caches):
        found = {name: measured(name, key, batch, cache, settings) for name in names}
        what = f"{CASES[key].__doc__}, batch {batch}, {cache} cache"
        for name, values in found.items():
            if values["error"] > TOLERANCE:
                raise AssertionError(f"{what}: logits of {name} differ from eager's by {values['error']:.1e}")
        told = ", ".join(
            f"{name} {values['speed']:.1f} tokens/s (first {values['first']:.1f} s, "
            f"graphs {values['graphs']}+{values['later_graphs']})"
            for name, values in found.items()
        )
        samples = {name: sample([1 / values["speed"]]) for name, values in found.items()}
        yield Result("generation", what, "ms", samples, f"{what}: {told}")


def measured(contender: str, key: str, batch: str, cache: str, settings: Settings) -> dict[str, float]:
    command = [sys.executable, "-P", str(SCRIPT), contender, key, batch, cache, *["shared"] * settings.shared]
    output = subprocess.run(command, check=True, text=True, stdout=subprocess.PIPE).stdout
    found: dict[str, float] = json.loads(output.splitlines()[-1])
    return found
