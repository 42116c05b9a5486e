"""Results as tables on the terminal, and as results.json, results.md and charts on disk."""

from __future__ import annotations

import json
import platform
import statistics
import subprocess
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import torch
from rich import box
from rich.console import Console
from rich.table import Table

from benchmarks import inference, products, steps
from benchmarks.charts import CHARTS, draw
from benchmarks.contenders import CONTENDERS
from benchmarks.measure import Result, Settings

RESULTS = Path(__file__).with_name("results")
SCALE = {"s": 1.0, "ms": 1e3, "us": 1e6, "MB": 1e-6}
OF_LIMITS = "milliseconds, times faster than eager, share of the limit"
TITLES = {
    "calls": "Call overhead: microseconds per call, CPU time of one thread",
    "calls_recorded": "Call overhead where gradients are recorded: microseconds, CPU time of one thread",
    "cold": "Cold compile: seconds of the first call in a new process",
    "warm": "Warm starts: CPU-seconds of the first calls beyond importing and building, without caches and with them",
    "kernels": "Kernels: milliseconds",
    "models": "Whole models, float32, batch 1: milliseconds",
    "bf16": "Whole models, bfloat16, batch 1: milliseconds",
    "inference": f"Inference, float32, one thread: {OF_LIMITS}",
    "inference_threads": f"Inference, float32, all threads: {OF_LIMITS}",
    "inference_bf16": f"Inference, bfloat16, one thread: {OF_LIMITS}",
    "inference_bf16_threads": f"Inference, bfloat16, all threads: {OF_LIMITS}",
    "inference_int8": "Inference in 8-bit integers, eager in float32, one thread: milliseconds of CPU time",
    **{name: f"Products, {suite}: GFLOP/s, share of the limit" for name, suite in products.SUITES.items()},
    "small": "Small models: microseconds",
    "transforms": "Transforms, derivatives, NumPy: milliseconds",
    "transforms_cold": "Transforms, derivatives, NumPy: CPU-seconds of the first call in a new process",
    "memory": "Memory at the peak of a call, float32, batch 1: megabytes",
    "dynamic": "Sizes that change: CPU-seconds of a sequence of calls, first calls included",
    "generation": "Generation: milliseconds per token, after the first sentence",
    "steps": "Generation, one token, by the size of weights: milliseconds, share of the speed of memory",
    "training": "Steps of training: milliseconds",
    "data_parallel": "Steps of data-parallel training by two processes: milliseconds",
    "data_parallel_forecast": "Forecasts of onegraph simulate for ranks of this machine: milliseconds of a step",
    "training_saved": "Kept for the backward pass: megabytes",
    "training_small": "Steps of training of small models: microseconds",
    "gradients": "Forward and backward of small models: microseconds",
    "training_memory": "Memory at the peak of a step: megabytes",
    "training_cold": "Cold compile of a step: CPU-seconds of the first step in a new process",
}
COMPARED = {  # of other suites: all
    **{name: suite.columns for name, suite in inference.SUITES.items()},
    **dict.fromkeys(products.SUITES, products.COLUMNS),
    "data_parallel_forecast": ("forecast", "measured"),
    "steps": steps.COLUMNS,
    "cold": ("stock", "onegraph"),
    "warm": ("stock", "onegraph"),
    "transforms_cold": ("stock", "onegraph"),
    "memory": ("eager", "onegraph"),
    "training_memory": ("eager", "onegraph"),
    "training_cold": ("stock", "onegraph"),
}
#: What onegraph is compared with: of other suites all others. Of several with one name, the fastest.
REFERENCES = {
    "steps": ("eager",),
    **{name: ("stock", "runtimes") for name in inference.SUITES},
    "inference_int8": ("eager", "runtimes"),
    **dict.fromkeys(products.SUITES, ("libraries",)),
}
SEVERAL = {"runtimes": ("onnxruntime", "openvino"), "libraries": ("eager", "onednn")}
NEAR = 0.92  # of the best library: who is below it is counted


def shown(result: Result, contender: str) -> str:
    found = result.samples.get(contender)
    if not found:
        return result.failures.get(contender, "-")
    if result.operations:
        speed = f"{result.operations / found.median / 1e9:.3g}"
        return speed if contender == "limit" else f"{speed} {result.ratio(contender, 'limit'):.0%}"
    time = f"{found.median * SCALE[result.unit]:.3g}"
    if "limit" not in result.samples or contender == "limit":
        return time
    return f"{time} x{result.ratio(contender):.2f} {result.ratio(contender, 'limit'):.0%}"


def times_less(result: Result, reference: str) -> float | None:
    """How many times less onegraph takes, if both are known."""
    names = [name for name in SEVERAL.get(reference, (reference,)) if name in result.samples]
    if not names or "onegraph" not in result.samples:
        return None
    return min(result.ratio("onegraph", name) for name in names)


def ratio(result: Result, reference: str) -> str:
    found = times_less(result, reference)
    return "-" if found is None else f"x{found:.2f}"


def suites(results: Sequence[Result]) -> dict[str, list[Result]]:
    found: dict[str, list[Result]] = {}
    for result in results:
        found.setdefault(result.suite, []).append(result)
    return {suite: worst_first(rows) if suite in products.SUITES else rows for suite, rows in found.items()}


def worst_first(rows: Sequence[Result]) -> list[Result]:
    """By the share of the fastest reference that onegraph reaches."""
    return sorted(rows, key=lambda row: min(times_less(row, name) or 0.0 for name in references(row.suite)))


def compared(suite: str) -> tuple[str, ...]:
    return COMPARED.get(suite, tuple(CONTENDERS))


def headers(suite: str) -> list[str]:
    return ["", *compared(suite), *(f"against {name}" for name in references(suite))]


def references(suite: str) -> tuple[str, ...]:
    """What onegraph is compared with."""
    if suite in REFERENCES:
        return REFERENCES[suite]
    names = compared(suite)
    return tuple(name for name in names if name != "onegraph") if "onegraph" in names else ()


def cells(result: Result) -> list[str]:
    names = headers(result.suite)[1:]
    return [
        result.name,
        *(ratio(result, name[8:]) if name.startswith("against ") else shown(result, name) for name in names),
    ]


def mean_ratios(rows: Sequence[Result]) -> str:
    """The geometric means of a suite's ratios."""
    found = []
    for reference in references(rows[0].suite):
        ratios = [times for row in rows if (times := times_less(row, reference)) is not None]
        if len(ratios) > 1:
            found.append(f"x{statistics.geometric_mean(ratios):.2f} against {reference}")
    return f"geometric mean: {', '.join(found)}" if found else ""


def far_behind(rows: Sequence[Result]) -> str:
    """How many products do not reach what the fastest library does."""
    if rows[0].suite not in products.SUITES:
        return ""
    count = sum((times_less(row, "libraries") or 0.0) < NEAR for row in rows)
    return f"{count} of {len(rows)} below {NEAR:.0%} of the best library"


def mean_shares(rows: Sequence[Result]) -> str:
    """Of each contender, in the geometric mean of what it runs: times faster than eager, and its share of the limit."""
    found = []
    for name in compared(rows[0].suite):
        both = [row for row in rows if {name, "limit"} <= row.samples.keys()]
        if len(both) > 1 and name != "limit":
            faster = statistics.geometric_mean(row.ratio(name) for row in both)
            share = statistics.geometric_mean(row.ratio(name, "limit") for row in both)
            missing = f" (of {len(both)})" if len(both) < len(rows) else ""
            found.append(f"{name} x{faster:.2f} {share:.0%}{missing}")
    return f"geometric mean: {', '.join(found)}" if found else ""


def notes(rows: Sequence[Result]) -> list[str]:
    found = (*(row.note for row in rows), mean_shares(rows), mean_ratios(rows), far_behind(rows))
    return [note for note in dict.fromkeys(found) if note]


def environment(settings: Settings) -> str:
    clock = (
        "CPU time of one thread (the machine was busy: wall times are too long)"
        if settings.shared
        else f"{torch.get_num_threads()} threads"
    )
    return f"{_cpu()}, {clock}, torch {torch.__version__}, Python {platform.python_version()}, commit {_commit()}"


def _commit() -> str:
    """The commit, and whether anything is changed but for the results of suites that were measured before."""
    others = ("--", *(f":(top,exclude){name}" for name in ("benchmarks/results", "docs/performance")))
    try:
        commit = _git("describe", "--always", "--exclude=*")
        return f"{commit}-dirty" if _git("status", "--porcelain", *others) else commit
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


def _git(*command: str) -> str:
    found = subprocess.run(("git", *command), cwd=RESULTS.parent, check=True, capture_output=True, text=True)
    return found.stdout.strip()


def _cpu() -> str:
    info = Path("/proc/cpuinfo")
    names = [line.partition(":")[2].strip() for line in info.read_text().splitlines() if line.startswith("model name")]
    return names[0] if names else platform.processor()


def print_tables(results: Sequence[Result], settings: Settings, console: Console) -> None:
    for suite, rows in suites(results).items():
        table = Table(title=TITLES[suite], box=box.SIMPLE_HEAD, title_justify="left")
        for i, header in enumerate(headers(suite)):
            table.add_column(header, justify="right" if i else "left", no_wrap=True)
        for row in rows:
            table.add_row(*cells(row))
        console.print(table)
        for note in notes(rows):
            console.print(f"  {note}", highlight=False)
    console.print(f"{environment(settings)}; medians; 'against' is how many times less onegraph takes", highlight=False)


def markdown(results: Sequence[Result]) -> str:
    lines = ["Medians; 'against' is how many times less onegraph takes.", ""]
    for suite, rows in suites(results).items():
        names = headers(suite)
        lines += [
            f"## {TITLES[suite]}",
            "",
            *(f"{where}." for where in dict.fromkeys(row.measured for row in rows)),
            "",
        ]
        lines += [f"| {' | '.join(names)} |", "|---" + "|---:" * (len(names) - 1) + "|"]
        lines += [f"| {' | '.join(cells(row))} |" for row in rows]
        lines += ["", *(f"- {note}" for note in notes(rows)), ""]
    return "\n".join(lines)


def stored() -> list[Result]:
    """The rows that were saved before."""
    path = RESULTS / "results.json"
    return [Result.from_json(row) for row in json.loads(path.read_text())] if path.exists() else []


def save(results: Sequence[Result], settings: Settings) -> None:
    """Store the rows in the place of all stored ones of the same suites, and draw the charts."""
    RESULTS.mkdir(exist_ok=True)
    where = environment(settings)
    found = suites([row for row in stored() if row.suite in TITLES])
    found.update(suites([replace(row, measured=where) for row in results]))
    rows = [row for suite in TITLES for row in found.get(suite, ())]
    (RESULTS / "results.json").write_text(json.dumps([row.to_json() for row in rows], indent=1) + "\n")
    (RESULTS / "results.md").write_text(markdown(rows))
    draw(RESULTS, CHARTS)
