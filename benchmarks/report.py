"""Results as tables on the terminal, and as results.json, results.md and results.png on disk."""

from __future__ import annotations

import json
import platform
from collections.abc import Sequence
from pathlib import Path

import matplotlib
import torch
from rich import box
from rich.console import Console
from rich.table import Table

from benchmarks.contenders import CONTENDERS
from benchmarks.measure import Result

matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402 - the backend is chosen before

RESULTS = Path(__file__).with_name("results")
SCALE = {"s": 1.0, "ms": 1e3, "us": 1e6}
TITLES = {
    "calls": "Call overhead: microseconds per call",
    "cold": "Cold compile: seconds of the first call in a new process, caches empty",
    "kernels": "Kernels: milliseconds",
    "models": "Whole models, float32, batch 1: milliseconds",
}
COLORS = {"eager": "#9aa5b1", "stock": "#e08e45", "onegraph": "#2f6fb0"}


def shown(result: Result, contender: str) -> str:
    found = result.samples.get(contender)
    return f"{found.median * SCALE[result.unit]:.3g}" if found else "-"


def ratio(result: Result, reference: str) -> str:
    if not {"onegraph", reference} <= result.samples.keys():
        return "-"
    return f"x{result.ratio('onegraph', reference):.2f}"


def suites(results: Sequence[Result]) -> dict[str, list[Result]]:
    found: dict[str, list[Result]] = {}
    for result in results:
        found.setdefault(result.suite, []).append(result)
    return found


def headers(suite: str) -> list[str]:
    names = list(CONTENDERS) if suite != "cold" else [name for name in CONTENDERS if name != "eager"]
    against = ["stock"] if suite == "cold" else ["eager", "stock"]
    return ["", *names, *(f"against {name}" for name in against)]


def cells(result: Result) -> list[str]:
    names = headers(result.suite)[1:]
    return [
        result.name,
        *(ratio(result, name[8:]) if name.startswith("against ") else shown(result, name) for name in names),
    ]


def environment() -> str:
    return (
        f"{_cpu()}, {torch.get_num_threads()} threads, torch {torch.__version__}, Python {platform.python_version()}; "
        f"medians; 'against' is how many times less onegraph takes"
    )


def _cpu() -> str:
    info = Path("/proc/cpuinfo")
    names = [line.partition(":")[2].strip() for line in info.read_text().splitlines() if line.startswith("model name")]
    return names[0] if names else platform.processor()


def print_tables(results: Sequence[Result], console: Console) -> None:
    for suite, rows in suites(results).items():
        table = Table(title=TITLES[suite], box=box.SIMPLE_HEAD, title_justify="left")
        for i, header in enumerate(headers(suite)):
            table.add_column(header, justify="right" if i else "left", no_wrap=True)
        for row in rows:
            table.add_row(*cells(row))
        console.print(table)
        for note in dict.fromkeys(row.note for row in rows if row.note):
            console.print(f"  {note}", highlight=False)
    console.print(environment(), highlight=False)


def markdown(results: Sequence[Result]) -> str:
    lines = [environment(), ""]
    for suite, rows in suites(results).items():
        names = headers(suite)
        lines += [f"## {TITLES[suite]}", "", f"| {' | '.join(names)} |", "|---" + "|---:" * (len(names) - 1) + "|"]
        lines += [f"| {' | '.join(cells(row))} |" for row in rows]
        lines += ["", *(f"- {note}" for note in dict.fromkeys(row.note for row in rows if row.note)), ""]
    return "\n".join(lines)


def plot(results: Sequence[Result], path: Path) -> None:
    """One panel for each suite, one group of bars for each row; the axis is logarithmic."""
    found = suites(results)
    heights = [0.8 + 0.62 * len(rows) for rows in found.values()]
    figure, axes = plt.subplots(
        len(found), 1, figsize=(9, sum(heights) + 0.6), squeeze=False, height_ratios=heights, layout="constrained"
    )
    for (suite, rows), axis in zip(found.items(), axes[:, 0], strict=True):
        names = [name for name in headers(suite)[1:] if name in CONTENDERS]
        _panel(axis, TITLES[suite], rows, names)
    axes[0, 0].legend(*_legend(axes[0, 0]), loc="lower right", bbox_to_anchor=(1, 1), ncols=3, frameon=False)
    figure.savefig(path, dpi=130)
    plt.close(figure)


def _legend(axis: plt.Axes) -> tuple[list[object], list[str]]:
    handles = [plt.Rectangle((0, 0), 1, 1, color=COLORS[name]) for name in CONTENDERS]
    return handles, list(CONTENDERS)


def _panel(axis: plt.Axes, title: str, rows: Sequence[Result], names: Sequence[str]) -> None:
    width = 0.8 / len(names)
    for i, name in enumerate(names):
        for y, row in enumerate(rows):
            if name in row.samples:
                value = row.samples[name].median * SCALE[row.unit]
                place = y + (i - (len(names) - 1) / 2) * width
                axis.barh(place, value, width * 0.92, color=COLORS[name])
                axis.annotate(f" {value:.3g}", (value, place), va="center", fontsize=7, color="#444444")
    axis.set_yticks(range(len(rows)), [row.name for row in rows], fontsize=8)
    axis.invert_yaxis()
    axis.set_xscale("log")
    axis.set_title(title, loc="left", fontsize=10)
    axis.tick_params(axis="x", labelsize=8)
    axis.margins(x=0.12)
    axis.spines[["top", "right"]].set_visible(False)


def save(results: Sequence[Result]) -> None:
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "results.json").write_text(json.dumps([result.to_json() for result in results], indent=1) + "\n")
    (RESULTS / "results.md").write_text(markdown(results))
    plot(results, RESULTS / "results.png")
