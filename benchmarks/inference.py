"""Inference of whole models by eager, two compilers, ONNX Runtime and OpenVINO in turn, against the machine's limit.

A fresh process for each model. The limit of a call is the time of its products and convolutions at the fastest rate of
this machine, or of reading its parameters once, whichever is longer. Who computes something else than eager in float64
is not timed.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from benchmarks.cold import CACHES, SMALL, first_call
from benchmarks.measure import Result, Sample, Settings
from benchmarks.runtimes import BEGINS, RUNTIMES
from benchmarks.zoo import MODELS
from onegraph.tools.html_report.data import Limits
from onegraph.tools.html_report.limits import best
from onegraph.tools.roofline import limits

SCRIPT = Path(__file__).with_name("one_model.py")
ROUNDS = 11


@dataclass(frozen=True, slots=True)
class Suite:
    """How models are run.

    Fields:
        precision: of which `RUNTIMES` has the contenders.
        one_thread: or as many as torch uses. One is measured by the processor's time, which other work disturbs less.
        models: their keys; none: all.
    """

    precision: str
    one_thread: bool
    models: tuple[str, ...] = ()

    @property
    def columns(self) -> tuple[str, ...]:
        """The contenders, and the limit where it is known."""
        return (*RUNTIMES[self.precision], *["limit"] * (self.precision != "int8"))


SUITES: Mapping[str, Suite] = {
    "inference": Suite("float32", True),
    "inference_threads": Suite("float32", False),
    "inference_bf16": Suite("bfloat16", True),
    "inference_bf16_threads": Suite("bfloat16", False),
    "inference_int8": Suite("int8", True, ("bert", "llama1")),
}


def run(name: str, settings: Settings) -> Iterator[Result]:
    suite = SUITES[name]
    threads = 1 if suite.one_thread else torch.get_num_threads()
    reached = machine(suite.precision, threads)
    models = [model for model in MODELS if not suite.models or model.key in suite.models]
    with tempfile.TemporaryDirectory() as header:
        first_call("stock", SMALL, caches=header)  # which leaves the precompiled header
        for model in models[:1] if settings.quick and not settings.only else models:
            if settings.wants(model.key):
                found = measured(model.key, suite.precision, threads, settings.rounds(ROUNDS), header)
                yield result(name, model.name, found, reached)


def measured(key: str, precision: str, threads: int, rounds: int, header: str) -> dict[str, Any]:
    """What a process says of a model: all caches are empty but for the stock compiler's header.

    A contender that ends the process is left out, and the others begin anew.
    """
    dead: dict[str, str] = {}
    while True:
        command = [sys.executable, "-P", str(SCRIPT), key, precision, str(threads), str(rounds), ",".join(dead)]
        with tempfile.TemporaryDirectory() as folder:
            caches = shutil.copytree(header, f"{folder}/caches")
            environment = os.environ | {name: f"{caches}/{name}" for name in CACHES}
            environment.pop("PYTHONDONTWRITEBYTECODE", None)
            process = subprocess.run(command, env=environment, text=True, capture_output=True)
        if not process.returncode:
            found: dict[str, Any] = json.loads(process.stdout.splitlines()[-1])
            return found | {"failures": found["failures"] | dead}
        begun = [line.removeprefix(BEGINS) for line in process.stderr.splitlines() if line.startswith(BEGINS)]
        if process.returncode > 0 or not begun or begun[-1] in dead:
            raise RuntimeError(f"{key} ends with {process.returncode}: {process.stderr[-2000:]}")
        dead[begun[-1]] = f"dies: {signal.Signals(-process.returncode).name}"


def result(suite: str, name: str, found: Mapping[str, Any], reached: Limits | None) -> Result:
    """A row, with the limit as a contender."""
    samples = {each: Sample(**times) for each, times in found["samples"].items()}
    if reached is not None:
        least = max(found["operations"] / reached.arithmetic, found["bytes"] / reached.bandwidth)
        samples["limit"] = Sample(least, least, least)
    seconds = ", ".join(f"{each} {spent:.1f}" for each, spent in found["seconds"].items() if each != "eager")
    errors = ", ".join(f"{each} {error:.1e}" for each, error in found["errors"].items())
    told = [
        f"{found['operations'] / 1e9:.2f} GFLOP, {found['bytes'] / 1e6:.0f} MB",
        f"CPU-seconds to the first result: {seconds}",
        f"errors: {errors}",
        *(f"{each} {why}" for each, why in found["failures"].items()),
    ]
    failures = {each: why.partition(":")[0] for each, why in found["failures"].items()}
    return Result(suite, name, "ms", samples, f"{name}: {'; '.join(told)}", failures=failures)


def machine(precision: str, threads: int) -> Limits | None:
    """What this machine reaches with so many threads, if it is known of such numbers."""
    if precision == "int8":
        return None
    with torch_threads(threads):
        found = limits()
        return Limits(found.bandwidth, fastest_product(torch.bfloat16)) if precision == "bfloat16" else found


def fastest_product(dtype: torch.dtype) -> float:
    """Operations in a second of torch's fastest product."""
    squares = [torch.ones(size, size, dtype=dtype) for size in (512, 1024, 2048)]
    return max(2 * len(square) ** 3 / best(lambda square=square: square @ square) for square in squares)


@contextmanager
def torch_threads(count: int) -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)
