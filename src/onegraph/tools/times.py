"""How long the stages of compilation took."""

from __future__ import annotations

from typing import Literal, overload

from onegraph.base import events as ev
from onegraph.base.errors import InvalidArgument
from onegraph.base.events import Event
from onegraph.base.text import columns
from onegraph.capture.directives.hatches import beside


def span(event: Event) -> tuple[str, float] | None:
    """The stage that has ended with this event and its seconds of the processor, if it is of that kind."""
    match event:
        case ev.StageTimed(stage=stage, seconds=seconds):
            return stage, seconds
        case ev.KernelsCompiled(seconds=seconds, cached=cached):
            return "compile: load kernels" if cached else "compile: make kernels", seconds
        case ev.PassRun(stage=stage, name=name, seconds=seconds):
            return f"{stage}: {name}", seconds
    return None


class Times:
    """Adds up the events that carry a time."""

    def __init__(self) -> None:
        self._seconds: dict[str, list[float]] = {}

    def note(self, event: Event) -> None:
        """Subscriber."""
        found = span(event)
        if found is not None:
            stage, seconds = found
            entry = self._seconds.setdefault(stage, [0, 0.0])
            entry[0] += 1
            entry[1] += seconds

    def rows(self, aggregate: bool = False) -> list[tuple[str, int, float]]:
        """Stage, how often it ran, and its seconds; `aggregate` leaves out the steps of stages."""
        found = [(stage, int(count), seconds) for stage, (count, seconds) in self._seconds.items()]
        return [row for row in found if not aggregate or ":" not in row[0]]

    def __str__(self) -> str:
        return self.table()

    def table(self, aggregate: bool = False) -> str:
        """The rows as text; a stage contains those that run inside of it."""
        rows = [(stage, count, f"{seconds:.4f}") for stage, count, seconds in self.rows(aggregate)]
        return columns([("stage", "runs", "seconds"), *rows])


#: Everything that this process has compiled.
TIMES = Times()


@overload
def compile_times(repr: Literal["str"] = "str", aggregate: bool = False) -> str: ...
@overload
def compile_times(repr: Literal["csv"], aggregate: bool = False) -> tuple[list[str], list[str]]: ...
@beside
def compile_times(repr: str = "str", aggregate: bool = False) -> str | tuple[list[str], list[str]]:
    """How long everything that was compiled in this process took, by stage.

    Args:
        repr: "str" for a table, "csv" for a pair of lists: the names of the stages, and their seconds as text.
        aggregate: only whole stages, without their steps.

    Raises:
        InvalidArgument: if `repr` is neither.
    """
    if repr == "str":
        return TIMES.table(aggregate)
    if repr != "csv":
        raise InvalidArgument(f'\'repr\' expects "str" or "csv", got {repr!r}')
    rows = TIMES.rows(aggregate)
    return [row[0] for row in rows], [f"{row[2]:.6f}" for row in rows]
