"""What is being compiled, on a terminal, as soon as that takes long: which function, and in which stage it is."""

from __future__ import annotations

import os
import sys
from importlib import import_module
from pathlib import Path
from threading import Timer, get_ident
from time import monotonic
from typing import Any

from onegraph.base import events as ev
from onegraph.base.config import Config
from onegraph.base.events import Event, Events, Location
from onegraph.base.locks import Lock
from onegraph.base.text import plural

DELAY = 2.0  # seconds
PAUSE = 0.5  # seconds between compilations that are waited for as one


def doing(event: Event) -> str | None:
    """What begins with an event, which says that something has ended; None if that is not known."""
    match event:
        case ev.FrameStarted():
            return "capturing"
        case ev.GraphCaptured(operations=operations):
            return f"taking apart {plural(operations, 'operation')}"
        case ev.FunctionalGraphBuilt(operations=operations):
            return f"choosing library calls among {plural(operations, 'operator')}"
        case ev.StageTimed(stage="compile: choose library calls"):
            return "lowering"
        case ev.LoweringDone(kernels=kernels):
            return f"fusing {plural(kernels, 'kernel')}"
        case ev.FusionDone(kernels=kernels):
            return f"making code of {plural(kernels, 'kernel')}"
        case ev.KernelsCompiled():
            return "planning memory"
        case ev.GuardsBuilt():
            return "writing the code around the graph"
    return None


def on_terminal() -> bool:
    """Whether somebody may be looking at standard error."""
    try:
        return sys.stderr is not None and sys.stderr.isatty()
    except (AttributeError, OSError, ValueError):  # it is closed, or the program's own
        return False


def where(frame: Location | None) -> str:
    """The function, and where it begins, if it is in a file."""
    if frame is None or frame.filename.startswith("<"):
        return "" if frame is None else frame.function
    return f"{frame.function} ({Path(frame.filename).name}:{frame.line})"


class CompileProgress:
    """Subscriber. It shows one compilation at a time, the first; nothing where standard error is no terminal.

    A thread waits while a frame is compiled there, and draws when that takes long.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._thread = self._process = 0  # whose compilation is followed
        self._begun = self._ended = 0.0
        self._what = self._doing = ""
        self._timer: Timer | None = None
        self._line: Any = None

    def note(self, event: Event) -> None:
        """Subscriber."""
        if isinstance(event, ev.FrameStarted):
            if not (isinstance(event.config, Config) and event.config.progress and on_terminal()):
                return
            self._start(event)
        elif self._thread != get_ident() or self._process != os.getpid():
            return
        elif isinstance(event, ev.FrameEnded):
            return self._end()
        begins = doing(event)
        if begins is not None:
            with self._lock:
                self._doing = begins
                if self._line is not None:
                    self._line.update(self._text())

    def _start(self, event: ev.FrameStarted) -> None:
        with self._lock:
            if self._process != os.getpid():  # of a parent, whose threads are not here
                self._thread, self._timer, self._line = 0, None, None
            if self._thread not in (0, get_ident()):
                return
            self._stop()
            self._thread, self._process = get_ident(), os.getpid()
            version = f", version {event.compile_index + 1}" if event.compile_index else ""
            self._what = f"{where(event.frame)}{version}"
            now = monotonic()
            if now - self._ended > PAUSE:
                self._begun = now
            self._timer = Timer(max(self._begun + DELAY - now, 0.0), self._show)
            self._timer.daemon = True
            self._timer.start()

    def _show(self) -> None:
        """In the thread of the timer."""
        line = import_module("onegraph.tools.terminal_line").Line  # an import that most processes do without
        with self._lock:
            if self._timer is not None and self._line is None:
                self._line = line(self._text())

    def _end(self) -> None:
        with self._lock:
            self._stop()
            self._thread, self._ended = 0, monotonic()

    def _stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if self._line is not None:
            self._line.close()
        self._timer = self._line = None

    def _text(self) -> str:
        return f"onegraph compiles {self._what}: {self._doing}"


def attach_progress(events: Events) -> None:
    """Show what takes long."""
    events.subscribe(CompileProgress().note)
