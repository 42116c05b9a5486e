"""A line per task that follows the stages of compilation as they happen; quiet where the output is not a terminal."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TaskID, TextColumn, TimeElapsedColumn

from onegraph.base.events import Event, Events
from onegraph.tools.logs import describe

# Passes are many and short: showing each would only flicker.
_NOT_SHOWN = frozenset({"passes", "time"})


class Stages:
    """Tasks on a terminal; one printed line for each finished task elsewhere."""

    def __init__(self, console: Console, progress: Progress) -> None:
        self._console = console
        self._progress = progress
        self._task: TaskID | None = None
        self._name = ""

    def start(self, name: str, step: str = "") -> None:
        self._name = name
        self._task = self._progress.add_task(name, total=None, step=step)

    def step(self, text: str) -> None:
        if self._task is not None:
            self._progress.update(self._task, step=text)

    def finish(self, text: str) -> None:
        if self._task is None:
            return
        self._progress.update(self._task, step=text, total=1, completed=1)
        if not self._console.is_terminal:
            self._console.print(f"{self._name}: {text}", highlight=False)
        self._task = None

    def show(self, event: Event) -> None:
        """Subscriber: the latest event is what the task is doing now."""
        if event.channel not in _NOT_SHOWN:
            self.step(describe(event))


@contextmanager
def following(events: Events, console: Console) -> Iterator[Stages]:
    """Show the events emitted within."""
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description:<14}"),
        TimeElapsedColumn(),
        TextColumn("{task.fields[step]}"),
    )
    with Progress(*columns, console=console, disable=not console.is_terminal) as progress:
        stages = Stages(console, progress)
        unsubscribe = events.subscribe(stages.show)
        try:
            yield stages
        finally:
            unsubscribe()
