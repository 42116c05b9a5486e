"""One line at the end of a terminal that changes, and goes."""

from __future__ import annotations

import sys
from contextlib import suppress

from rich.console import Console
from rich.live import Live
from rich.spinner import Spinner
from rich.text import Text

REDRAWN = 4  # times a second: it is drawn in a thread beside what the program does


class Line:
    """A line on standard error, until it is closed. Nothing of the program (`sys.stdout`) is exchanged for it."""

    def __init__(self, text: str) -> None:
        self._console = Console(file=sys.stderr)
        self._spinner = Spinner("dots", text=self._fitting(text))
        self._live = Live(
            self._spinner,
            console=self._console,
            refresh_per_second=REDRAWN,
            transient=True,
            redirect_stdout=False,
            redirect_stderr=False,
        )
        with suppress(OSError, ValueError):  # the terminal is gone
            self._live.start()

    def update(self, text: str) -> None:
        self._spinner.update(text=self._fitting(text))

    def _fitting(self, text: str) -> Text:
        """The text behind the spinner, cut where the line ends."""
        fitted = Text(text)
        fitted.truncate(self._console.width - 3, overflow="ellipsis")
        return fitted

    def close(self) -> None:
        with suppress(OSError, ValueError):
            self._live.stop()
