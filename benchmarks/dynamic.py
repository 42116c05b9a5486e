"""Sizes that change: whole sequences of calls in a fresh process, first calls included."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from benchmarks.cold import CACHES, SMALL, first_call
from benchmarks.contenders import CONTENDERS
from benchmarks.measure import Result, Settings, sample
from benchmarks.sequence import CASES

SCRIPT = Path(__file__).with_name("sequence.py")


def run(settings: Settings) -> Iterator[Result]:
    """CPU-seconds of each sequence; the stock compiler has its precompiled header."""
    with tempfile.TemporaryDirectory() as header:
        first_call("stock", SMALL, caches=header)
        for key in list(CASES)[:1] if settings.quick and not settings.only else CASES:
            if not settings.wants(key):
                continue
            found = {name: measured(name, key, f"{header}/{name}") for name in CONTENDERS}
            what = CASES[key].__doc__ or key
            told = ", ".join(
                f"{name} {values['graphs']} (then {values['against_static']:.2f} of the time of one for each size)"
                for name, values in found.items()
                if name != "eager"
            )
            samples = {name: sample([values["cpu"]]) for name, values in found.items()}
            yield Result("dynamic", what, "s", samples, f"{what}: graphs: {told}")


def measured(contender: str, key: str, caches: str) -> dict[str, float]:
    environment = os.environ | {name: f"{caches}/{name}" for name in CACHES}
    command = [sys.executable, "-P", str(SCRIPT), contender, key]
    output = subprocess.run(command, env=environment, check=True, text=True, capture_output=True).stdout
    found: dict[str, float] = json.loads(output.splitlines()[-1])
    return found
