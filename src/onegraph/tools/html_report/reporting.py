"""`onegraph.reporting`: record what is compiled in a block of code, and write a page about it at the end."""

from __future__ import annotations

import logging
import os
import runpy
import shlex
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from threading import RLock
from types import TracebackType

from onegraph.base.errors import InvalidArgument
from onegraph.base.events import Event
from onegraph.base.settings import config
from onegraph.capture.directives.hatches import beside
from onegraph.compile import EVENTS
from onegraph.tools.html_report.collect import Collector
from onegraph.tools.html_report.data import ProgramError
from onegraph.tools.html_report.limits import machine_limits
from onegraph.tools.html_report.memory_watch import MemoryWatch
from onegraph.tools.html_report.page import page

LOGGER = logging.getLogger("onegraph")
DEFAULT = "onegraph-report.html"
NOT_RECORDED = "The report %s lacks what is compiled from here on: %s: %s"
NOT_WRITTEN = "The report %s is not written: %s: %s"
MOST_LETTERS = 50_000  # of a traceback
_STARTERS = (runpy.__file__, "<frozen runpy>", str(Path(__file__).parents[1] / "cli.py"), __file__)


class reporting:  # noqa: N801 - a context manager in the spelling of a function
    """Record what is compiled in a `with` block, and write one HTML page about it when the block ends.

    with onegraph.reporting("report.html"):
        train(model)

    The page is also written if the block raises, and shows the error. A process forked in the block writes none. How
    often kernels run, and how long, is counted for what is compiled in the block.
    What the report itself fails on is one line of the log: the program goes on. `written` is true once there is a page.

    Args:
        path: the file, in a folder that exists. It is written over.

    Raises:
        InvalidArgument: if there is no such folder.
    """

    @beside
    def __init__(self, path: str | os.PathLike[str] = DEFAULT) -> None:
        self.path = Path(path).absolute()  # the program may change its folder
        if not self.path.parent.is_dir() or self.path.is_dir():
            raise InvalidArgument(f"a report is a file in a folder that exists, got {os.fspath(path)!r}")
        self.written = False
        self._collector = Collector()
        self._watch = MemoryWatch()
        self._measure = config.patch(measure=True)
        self._process = os.getpid()
        self._lock = RLock()  # of events of several threads; a handler of a signal may compile, too
        self._leave: Callable[[], None] = lambda: None

    @beside
    def __enter__(self) -> reporting:
        self._leave = EVENTS.subscribe(self._note)
        self._measure.__enter__()
        self._watch = MemoryWatch()
        self._watch.start()
        return self

    @beside
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._leave()
        self._measure.__exit__(kind, error, trace)
        if os.getpid() != self._process:
            return
        try:
            self._watch.stop()
            limits = machine_limits() if self._collector.ran_kernels() else None
            failed = None if error is None else told_error(error)
            told = self._collector.report(command(), failed, limits, self._watch.curve())
            self.path.write_text(page(told), encoding="utf-8", errors="backslashreplace")
            self.written = True
        except Exception as failure:
            LOGGER.warning(NOT_WRITTEN, self.path, type(failure).__name__, failure)

    def _note(self, event: Event) -> None:
        if os.getpid() != self._process:  # where another thread may hold the lock for ever
            return
        try:
            with self._lock:
                self._collector.note(event)
                self._watch.note(event)
        except Exception as failure:
            self._leave()
            LOGGER.warning(NOT_RECORDED, self.path, type(failure).__name__, failure)


def command() -> str:
    """The program and its arguments, as a shell would be given them."""
    return shlex.join(map(str, sys.argv))


def told_error(error: BaseException) -> ProgramError | None:
    """The error as Python prints it, from the program's own code on; None for an exit without one."""
    if isinstance(error, SystemExit):
        return None if error.code in (None, 0) else ProgramError(f"The program exits: {error.code}", "")
    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_code.co_filename in _STARTERS:
        trace = trace.tb_next
    lines = traceback.format_exception(type(error), error, trace)
    text = "".join(lines)
    if len(text) > MOST_LETTERS:
        text = f"... {len(text) - MOST_LETTERS} characters before\n{text[-MOST_LETTERS:]}"
    said = "".join(traceback.format_exception_only(error)).splitlines()
    return ProgramError(next(line for line in said if not line.startswith(" ")), text)
