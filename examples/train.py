"""Train small models on real data, eager and compiled side by side, and draw both losses over each other.

python examples/train.py [digits letters libraries] [--steps N] [--out FOLDER]
"""

from __future__ import annotations

import argparse
import copy
import statistics
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter

import torch
from lessons import LESSONS, Lesson
from rich import box
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from rich.table import Table
from torch import Tensor, nn
from torch.nn import functional as F

import onegraph


class Learner:
    """A model, its optimizer, and the random numbers that both draw."""

    def __init__(self, model: nn.Module, rate: float, wrap: Callable[[nn.Module], Callable[[Tensor], Tensor]]) -> None:
        self.model = model
        self.call = wrap(model)
        self.optimizer = torch.optim.AdamW(model.parameters(), lr=rate)
        self.random = torch.Generator().manual_seed(0).get_state()
        self.losses: list[float] = []
        self.seconds: list[float] = []

    def step(self, inputs: Tensor, labels: Tensor) -> None:
        torch.set_rng_state(self.random)
        start = perf_counter()
        scores = self.call(inputs)
        loss = F.cross_entropy(scores.flatten(0, -2), labels.flatten())
        loss.backward()
        self.optimizer.step()
        self.optimizer.zero_grad()
        self.seconds.append(perf_counter() - start)
        self.losses.append(loss.item())
        self.random = torch.get_rng_state()

    def result(self, lesson: Lesson) -> float:
        self.model.eval()
        with torch.no_grad():
            return lesson.measure(self.model)


@dataclass(frozen=True, slots=True)
class Report:
    """How it went: losses and seconds of each step, and the results on data that were not learnt from."""

    lesson: Lesson
    losses: tuple[list[float], list[float]]
    seconds: tuple[list[float], list[float]]
    results: tuple[float, float]

    @property
    def first(self) -> float:
        """Seconds of the first compiled step, compilation included."""
        return self.seconds[1][0]

    @property
    def medians(self) -> tuple[float, float]:
        eager, compiled = (statistics.median(times[5:] or times) for times in self.seconds)
        return eager, compiled


def train(lesson: Lesson, steps: int, advance: Callable[[], None] = lambda: None) -> Report:
    """Two copies of one model learn from the same batches in turn, one of them compiled."""
    torch.manual_seed(0)
    model = lesson.build()
    eager = Learner(model, lesson.rate, lambda model: model)
    compiled = Learner(copy.deepcopy(model), lesson.rate, onegraph.compile)
    for batch in lesson.batches(steps):
        eager.step(*batch)
        compiled.step(*batch)
        advance()
    results = eager.result(lesson), compiled.result(lesson)
    return Report(lesson, (eager.losses, compiled.losses), (eager.seconds, compiled.seconds), results)


def table(reports: list[Report]) -> Table:
    title = f"training in float32, {torch.get_num_threads()} threads; medians of steps, eager and compiled in turn"
    out = Table(title=title, box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    out.add_column("model", no_wrap=True)
    headers = ("steps", "first\ns", "eager\nms", "compiled\nms", "ratio", "loss,\neager", "loss,\ncompiled")
    for header in headers:
        out.add_column(header, justify="right", no_wrap=True)
    for report in reports:
        eager, compiled = report.medians
        out.add_row(
            report.lesson.name,
            str(len(report.losses[0])),
            f"{report.first:.1f}",
            f"{eager * 1e3:.1f}",
            f"{compiled * 1e3:.1f}",
            f"x{eager / compiled:.2f}",
            *(f"{statistics.fmean(losses[-10:]):.3f}" for losses in report.losses),
        )
    return out


def draw(report: Report, folder: Path) -> Path:
    """Both losses over each other, and the seconds of each step."""
    import matplotlib  # only where somebody wants a picture

    matplotlib.use("agg")
    import matplotlib.pyplot as plt

    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 3.6), layout="constrained", width_ratios=(3, 2))
    left.plot(report.losses[0], color="#f0a35c", linewidth=5, label="eager")
    left.plot(report.losses[1], color="#1f4e79", linewidth=1.2, label="compiled")
    left.set(xlabel="step", ylabel="loss", title=report.lesson.name)
    left.legend()
    for times, color, name in zip(report.seconds, ("#f0a35c", "#1f4e79"), ("eager", "compiled"), strict=True):
        median = statistics.median(times[5:] or times)
        right.plot(range(1, len(times)), [t * 1e3 for t in times[1:]], ".", color=color, markersize=3)
        right.axhline(median * 1e3, color=color, label=f"{name}: {median * 1e3:.1f} ms")
    top = max(statistics.quantiles(times, n=20)[-1] for times in report.seconds)
    right.set(xlabel="step", ylabel="ms", title="time of a step", ylim=(0, top * 1.6e3))
    right.legend()
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{report.lesson.key}.png"
    figure.savefig(path, dpi=100)
    plt.close(figure)
    return path


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("lessons", nargs="*", metavar="lesson", help=f"of {', '.join(LESSONS)} (default: all)")
    parser.add_argument("--steps", type=int, help="how many steps (default: as many as each lesson needs)")
    parser.add_argument("--out", type=Path, help="a folder for pictures of the losses")
    args = parser.parse_args()
    if unknown := set(args.lessons) - set(LESSONS):
        parser.error(f"unknown lesson {unknown.pop()!r}; accepted: {', '.join(LESSONS)}")
    if args.steps is not None and args.steps < 1:
        parser.error(f"--steps takes a whole number above 0, got {args.steps}")

    console = Console()
    reports = []
    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn()
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        for key in args.lessons or LESSONS:
            lesson = LESSONS[key]()
            steps = args.steps or lesson.steps
            task = progress.add_task(lesson.name, total=steps)
            reports.append(train(lesson, steps, lambda task=task: progress.advance(task)))
    console.print(table(reports))
    for report in reports:
        eager, compiled = report.results
        found = f"{eager:.3f} {report.lesson.scale} that were not learnt from, {compiled:.3f} compiled"
        console.print(f"{report.lesson.name}: {found}", highlight=False)
    if args.out:
        for report in reports:
            console.print(f"drawn: {draw(report, args.out)}", highlight=False)
    return 0


if __name__ == "__main__":
    sys.exit(main())
