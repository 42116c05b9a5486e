"""Lets those who write files of what is compiled hear of events, once there is something for them to write."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from threading import get_ident

from onegraph.base.config import Config
from onegraph.base.events import Event, Events, FrameStarted, GraphExamined, Location, Recompiled, Subscriber
from onegraph.base.locks import Lock

REPRO = "onegraph.tools.debugging.repro"


class Writers:
    """Subscriber for both: each version's own configuration says whether they write anything of it.

    They are imported for the first version that is to be written. Until then only the events are kept that may belong
    to it: why a thread compiles a frame again, which comes before the version begins.
    """

    def __init__(self) -> None:
        self._writers: tuple[Subscriber, ...] = ()
        self._before: dict[tuple[int, Location], list[Event]] = {}
        self._lock = Lock()

    def note(self, event: Event) -> None:
        """Subscriber."""
        match event:
            case Recompiled(frame=Location() as frame) if not self._writers:
                self._before.setdefault((get_ident(), frame), []).append(event)
                return
            case FrameStarted(frame=Location() as frame, config=Config() as config):
                before = self._before.pop((get_ident(), frame), [])
                if config.debug or config.trace_dir is not None:
                    self._start()
                    for earlier in before:
                        self._write(earlier)
        self._write(event)

    def _write(self, event: Event) -> None:
        for write in self._writers:
            write(event)

    def _start(self) -> None:
        with self._lock:
            if not self._writers:
                careful = import_module("onegraph.tools.debugging.writing").Careful
                directory = import_module("onegraph.tools.debugging.debug_dir").DebugDir()
                trace = import_module("onegraph.tools.debugging.trace").Trace()
                self._writers = self._writers or (  # a handler of a signal may have been here meanwhile
                    careful("the debug directory", directory.note).note,
                    careful("the structured trace", trace.note).note,
                )


def attach_files(events: Events) -> None:
    """Subscribe what writes files of what is compiled."""
    events.subscribe(Writers().note)
    events.subscribe(examined)


def examined(event: Event) -> None:
    """Have a small program written of a graph that fails. What does that is imported when there is such a graph."""
    if isinstance(event, GraphExamined):
        _small_programs()(event)


@cache
def _small_programs() -> Subscriber:
    careful = import_module("onegraph.tools.debugging.writing").Careful
    note: Subscriber = careful("a small program of a graph that fails", import_module(REPRO).REPRO.note).note
    return note
