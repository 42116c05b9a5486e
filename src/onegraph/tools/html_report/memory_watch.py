"""The memory of the process over time, and when it compiled."""

from __future__ import annotations

import os
from pathlib import Path
from threading import Event as Flag
from threading import Thread, get_ident
from time import monotonic

from onegraph.base import events as ev
from onegraph.base.events import Event
from onegraph.tools.html_report.data import MemoryCurve

INTERVAL = 0.02  # seconds between samples, at first
MOST_SAMPLES = 400  # then every second one goes, and they are taken half as often
MOST_SPANS = 500
_STATUS = Path("/proc/self/statm")
_PAGE = os.sysconf("SC_PAGE_SIZE")


def resident() -> int | None:
    """The bytes of this process that are in memory; None where the system does not tell."""
    try:
        return int(_STATUS.read_text().split()[1]) * _PAGE
    except (OSError, ValueError, IndexError):
        return None


class MemoryWatch:
    """A thread that looks at the memory of the process from `start` to `stop`, and a subscriber."""

    def __init__(self) -> None:
        self._begun = 0.0
        self._samples: list[tuple[float, int]] = []
        self._spans: list[tuple[float, float]] = []
        self._open: dict[int, float] = {}  # when each thread began to compile
        self._done = Flag()
        self._thread = Thread(target=self._watch, name="onegraph report", daemon=True)

    def start(self) -> None:
        self._begun = monotonic()
        self._thread.start()

    def stop(self) -> None:
        self._done.set()
        self._thread.join()

    def note(self, event: Event) -> None:
        """Subscriber."""
        match event:
            case ev.FrameStarted():
                self._open[get_ident()] = monotonic() - self._begun
            case ev.FrameEnded() if get_ident() in self._open and len(self._spans) < MOST_SPANS:
                self._spans.append((self._open.pop(get_ident()), monotonic() - self._begun))

    def _watch(self) -> None:
        interval = INTERVAL
        while True:
            found = resident()
            if found is None:
                return
            self._samples.append((monotonic() - self._begun, found))
            if len(self._samples) > MOST_SAMPLES:
                self._samples = self._samples[::2]
                interval *= 2
            if self._done.wait(interval):
                return

    def curve(self) -> MemoryCurve:
        """What was seen so far."""
        return MemoryCurve(tuple(self._samples), tuple(self._spans))
