"""Interleaved timing: what else the machine does falls on all contenders alike."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from time import perf_counter, thread_time
from typing import Any

Run = Callable[[], object]
Clock = Callable[[], float]


@dataclass(frozen=True, slots=True)
class Settings:
    """What to measure, and how. `shared`: one thread and its CPU time, which other work hardly disturbs."""

    quick: bool = False
    shared: bool = False
    only: tuple[str, ...] = ()  # the cases to measure; none: all

    @property
    def clock(self) -> Clock:
        return thread_time if self.shared else perf_counter

    def wants(self, case: str) -> bool:
        return not self.only or case in self.only

    def rounds(self, full: int) -> int:
        return max(3, full // 3) if self.quick else full


@dataclass(frozen=True, slots=True)
class Sample:
    """Seconds per call: the median of the rounds, and its quartiles."""

    median: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Result:
    """One row: the same work done by every contender.

    Fields:
        unit: what the samples are shown in: of time or memory, or GFLOP/s of work with so many `operations`.
        note: what is to be known of the row, if anything.
        measured: where, and by which commit, of rows that are stored.
        failures: in a word, why those contenders have no sample that should.
    """

    suite: str
    name: str
    unit: str
    samples: Mapping[str, Sample]
    note: str = ""
    measured: str = ""
    failures: Mapping[str, str] = field(default_factory=dict)
    operations: int = 0

    def ratio(self, contender: str, reference: str = "eager") -> float:
        """How many times less `contender` takes than `reference`."""
        return self.samples[reference].median / self.samples[contender].median

    def to_json(self) -> dict[str, object]:
        return asdict(self)

    @staticmethod
    def from_json(row: Mapping[str, Any]) -> Result:
        samples = {name: Sample(**sample) for name, sample in row["samples"].items()}
        return Result(**{**row, "samples": samples})


def sample(times: list[float]) -> Sample:
    if len(times) < 2:
        return Sample(times[0], times[0], times[0])
    low, median, high = statistics.quantiles(times, n=4, method="inclusive")
    return Sample(median, low, high)


def seconds(run: Run, repeat: int, clock: Clock = perf_counter) -> float:
    """Seconds per call of `repeat` calls in a row."""
    calls = range(repeat)
    start = clock()
    for _ in calls:
        run()
    return (clock() - start) / repeat


def repeats(run: Run, at_least: float) -> int:
    """How many calls take at least this many seconds."""
    count = 1
    while (spent := seconds(run, count) * count) < at_least:
        count = max(count * 2, int(count * at_least / max(spent, 1e-9)))
    return count


def interleaved(
    runs: Mapping[str, Run], rounds: int, clock: Clock = perf_counter, at_least: float = 0.005
) -> dict[str, Sample]:
    """Time all runs in turn, each turn starting with another one. Each is called twice before, to be warm."""
    counts = {}
    for name, run in runs.items():
        run()
        run()
        counts[name] = repeats(run, at_least)
    names = list(runs)
    times: dict[str, list[float]] = {name: [] for name in names}
    for turn in range(rounds):
        shift = turn % len(names)
        for name in names[shift:] + names[:shift]:
            times[name].append(seconds(runs[name], counts[name], clock))
    return {name: sample(values) for name, values in times.items()}
