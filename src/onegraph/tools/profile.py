"""Where the time of a first call goes: what `onegraph profile` prints."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import thread_time

from onegraph.base.events import Event, Events
from onegraph.base.text import columns, plural
from onegraph.tools.times import span

REST = {"translate": "capture", "functionalize": "functionalize: trace", "compile": "compile: link"}
RUN = "run"


class Profile:
    """Seconds of the processor that each stage took by itself, without the stages inside of it."""

    def __init__(self, clock: Callable[[], float] = thread_time) -> None:
        self._clock = clock
        self._seconds: dict[str, list[float]] = {}
        self._ended: list[tuple[float, float]] = []  # start and seconds of the spans that no other one contains yet
        self._start = clock()

    def note(self, event: Event) -> None:
        """Subscriber: events come when stages end, those inside of others first."""
        found = span(event)
        if found is not None:
            stage, seconds = found
            self._add(REST.get(stage, stage), self._clock() - seconds, seconds)

    def end(self) -> None:
        """What has no stage is the call itself."""
        self._add(RUN, self._start, self._clock() - self._start)

    def _add(self, stage: str, start: float, seconds: float) -> None:
        inside = 0.0
        while self._ended and self._ended[-1][0] >= start:
            inside += self._ended.pop()[1]
        self._ended.append((start, seconds))
        entry = self._seconds.setdefault(stage, [0, 0.0])
        entry[0] += 1
        entry[1] += max(seconds - inside, 0.0)

    def rows(self) -> list[tuple[str, int, float]]:
        """Stage, how often it ran, and its seconds; the slowest first."""
        found = [(stage, int(count), seconds) for stage, (count, seconds) in self._seconds.items()]
        return sorted(found, key=lambda row: -row[2])

    def __str__(self) -> str:
        rows = self.rows()
        total = sum(seconds for *_, seconds in rows) or 1.0
        shown = [(stage, count, f"{seconds:.4f}", f"{seconds / total:.0%}") for stage, count, seconds in rows]
        slowest = next((stage for stage, *_ in rows if stage != RUN), RUN)
        headline = f"{total:.3f} s of the processor in {plural(len(rows), 'stage')}; the slowest is '{slowest}'."
        return "\n".join([headline, columns([("stage", "runs", "seconds", "share"), *shown])])


@contextmanager
def profiling(events: Events) -> Iterator[Profile]:
    """Profile what is compiled within, and the calls themselves."""
    profile = Profile()
    unsubscribe = events.subscribe(profile.note)
    try:
        yield profile
    finally:
        unsubscribe()
        profile.end()
