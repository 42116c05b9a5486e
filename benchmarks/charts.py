"""`python -m benchmarks.charts`: small charts of the stored results, as SVG, for docs/performance.md.

Each is one suite, says where its numbers come from, and is the same text for the same results. A full run draws them.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

RESULTS = Path(__file__).with_name("results")
CHARTS = Path(__file__).parents[1] / "docs" / "performance"
COLORS = {"eager": "#9aa5b1", "stock": "#e08e45", "onegraph": "#2f6fb0"}
SCALE = {"s": 1.0, "ms": 1e3, "us": 1e6, "MB": 1e-6}
WIDTH, LABELS, NUMBERS, BAR, GAP, TOP = 720, 190, 80, 9, 9, 66
Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Chart:
    """One picture: which rows of which suite, and the contenders, the first of which is the measure of each row."""

    name: str
    suite: str
    title: str
    contenders: tuple[str, ...]
    rows: tuple[str, ...] = ()
    cut: str = ""  # left out of the names of rows


CHARTS_OF_SUITES = (
    Chart("inference", "models", "Time of a call, float32, batch 1", ("eager", "stock", "onegraph")),
    Chart("inference_bf16", "bf16", "Time of a call, bfloat16, batch 1", ("eager", "stock", "onegraph")),
    Chart("kernels", "kernels", "Time of a kernel", ("eager", "stock", "onegraph")),
    Chart("calls", "calls", "Time of a call of a small function, one thread", ("eager", "stock", "onegraph")),
    Chart(
        "starts",
        "cold",
        "CPU-seconds of the first call in a new process, caches empty",
        ("stock", "onegraph"),
        tuple(
            f"{name}: cpu"
            for name in (
                "x + 1",
                "GPT-2 small",
                "BERT-base",
                "ViT-base",
                "ResNet-50",
                "Llama 110M, 128 tokens",
                "T5-small",
                "MobileNetV3-large",
                "Whisper-tiny encoder",
                "ELECTRA-small",
            )
        ),
        ": cpu",
    ),
    Chart("memory", "memory", "Memory at the peak of a call, float32, batch 1", ("eager", "onegraph")),
    Chart("training", "training", "Time of a step of training", ("eager", "stock", "onegraph")),
    Chart("training_memory", "training_memory", "Memory at the peak of a step of training", ("eager", "onegraph")),
    Chart("transforms", "transforms", "Time of transforms, derivatives, NumPy", ("eager", "stock", "onegraph")),
    Chart("sizes", "dynamic", "CPU-seconds of calls with sizes that change", ("eager", "stock", "onegraph")),
)


def rows_of(chart: Chart, results: Sequence[Row]) -> list[Row]:
    rows = [row for row in results if row["suite"] == chart.suite]
    return [row for row in rows if row["name"] in chart.rows] if chart.rows else rows


def means(chart: Chart, rows: Sequence[Row]) -> str:
    """How many times less onegraph takes, as geometric means."""
    found = []
    for other in chart.contenders[:-1]:
        both = [row["samples"] for row in rows if {other, "onegraph"} <= row["samples"].keys()]
        ratios = [samples[other]["median"] / samples["onegraph"]["median"] for samples in both]
        if ratios:
            found.append(f"{statistics.geometric_mean(ratios):.2f}x less than {other}")
    return f"onegraph: {', '.join(found)} in the geometric mean"


def text(x: float, y: float, content: str, size: int = 11, color: str = "#444", **more: str) -> str:
    attributes = "".join(f' {name.replace("_", "-")}="{value}"' for name, value in more.items())
    return f'<text x="{x:g}" y="{y:g}" font-size="{size}" fill="{color}"{attributes}>{escape(content)}</text>'


def bars(chart: Chart, row: Row, top: float) -> Iterator[str]:
    """The bars of one row, relative to its longest, with their numbers."""
    samples = {name: row["samples"][name]["median"] for name in chart.contenders if name in row["samples"]}
    longest, room = max(samples.values()), WIDTH - LABELS - NUMBERS - 20
    for name, value in samples.items():  # one that fails leaves a gap
        y, width = top + chart.contenders.index(name) * BAR, max(1.0, room * value / longest)
        yield f'<rect x="{LABELS}" y="{y:g}" width="{width:.1f}" height="{BAR - 1}" fill="{COLORS[name]}"/>'
        yield text(LABELS + width + 5, y + BAR - 1.5, f"{value * SCALE[row['unit']]:.3g} {row['unit']}", 9)


def picture(chart: Chart, rows: Sequence[Row]) -> str:
    """The chart as the text of an SVG file."""
    step = BAR * len(chart.contenders) + GAP
    height = TOP + step * len(rows) + 22
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" viewBox="0 0 {WIDTH} {height}"'
        ' font-family="system-ui, sans-serif">',
        f'<rect width="{WIDTH}" height="{height}" rx="6" fill="#fff"/>',
        text(16, 24, chart.title, 15, "#222", font_weight="bold"),
        text(16, 43, f"{means(chart, rows)}. Shorter is better; each row has its own scale."),
    ]
    for i, name in enumerate(chart.contenders):
        x = WIDTH - 16 - 78 * (len(chart.contenders) - i)
        parts += [f'<rect x="{x}" y="15" width="10" height="10" fill="{COLORS[name]}"/>', text(x + 15, 24, name)]
    for i, row in enumerate(rows):
        top = TOP + i * step
        middle = top + BAR * len(chart.contenders) / 2 + 4
        parts.append(text(LABELS - 8, middle, row["name"].removesuffix(chart.cut), text_anchor="end"))
        parts += bars(chart, row, top)
    parts.append(text(16, height - 10, f"{rows[0]['measured']}; python -m benchmarks {chart.suite}", 10, "#777"))
    return "\n".join([*parts, "</svg>"]) + "\n"


def pictures(results: Path = RESULTS) -> dict[str, str]:
    """Each chart of which there are results, by the name of its file."""
    rows = json.loads((results / "results.json").read_text())
    found = {chart: rows_of(chart, rows) for chart in CHARTS_OF_SUITES}
    return {f"{chart.name}.svg": picture(chart, rows) for chart, rows in found.items() if rows}


def draw(results: Path = RESULTS, charts: Path = CHARTS) -> None:
    """Write the charts of these results."""
    charts.mkdir(exist_ok=True)
    for name, content in pictures(results).items():
        (charts / name).write_text(content)


if __name__ == "__main__":
    draw()
