"""What is counted while a program runs, within limits: a program may run for days."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field
from typing import Generic, TypeVar

from onegraph.base.dataclass import dataclass
from onegraph.base.events import GraphBroken, Location, Text, text_of
from onegraph.tools.html_report.data import Break, Frame, Graph, SourceLine, Version
from onegraph.tools.html_report.measured import Measured, total

K = TypeVar("K")
V = TypeVar("V")

MOST_ENTRIES = 500  # of one kind
MOST_VERSIONS = 40  # of one frame
MOST_LETTERS = 20_000  # of one text
MOST_LETTERS_IN_ALL = 2_000_000
LONGEST_REASON = 2_000  # letters


class Table(Generic[K, V]):
    """A dict that keeps so many keys and no more; `left_out` counts what was asked of further ones."""

    def __init__(self, most: int = MOST_ENTRIES) -> None:
        self.entries: dict[K, V] = {}
        self.left_out = 0
        self._most = most

    def find(self, key: K, make: Callable[[], V]) -> V:
        """What is kept under the key, made now if it is new. If there is no place for it, it is made and not kept."""
        found = self.entries.get(key)
        if found is not None:
            return found
        made = make()
        if len(self.entries) < self._most:
            self.entries[key] = made
        else:
            self.left_out += 1
        return made


class Texts:
    """Texts of events, shortened to what a page can show."""

    def __init__(self, most: int = MOST_LETTERS, in_all: int = MOST_LETTERS_IN_ALL) -> None:
        self._most, self._left = most, in_all
        self.left_out = 0

    def of(self, text: Text) -> str:
        """The text, or its beginning and how much is missing. Once all room is used, it is not made."""
        if self._left <= 0:
            self.left_out += 1
            return ""
        made = text_of(text)
        kept = made[: min(self._most, self._left)]
        self._left -= len(kept)
        missing = len(made) - len(kept)
        return kept + f"\n... {missing} more characters" if missing else kept


def shortened(reason: str) -> str:
    """A reason as it is, or the beginning of one that a whole value is printed in."""
    return reason if len(reason) <= LONGEST_REASON else reason[:LONGEST_REASON] + " ..."


@dataclass(slots=True)
class VersionTally:
    """A compilation, while it goes on and afterwards. `breaks` has each break once."""

    reason: str = ""
    cause: SourceLine | None = None
    again: bool = False
    seconds: float = 0.0
    graphs: list[Graph] = field(default_factory=list)
    guards: int = 0
    breaks: list[BreakTally] = field(default_factory=list)
    measured: list[Measured] = field(default_factory=list)

    def add_break(self, broken: BreakTally) -> None:
        if not any(broken is known for known in self.breaks):
            self.breaks.append(broken)
            broken.versions.append(self)

    def made(self) -> Version:
        graphs, runs = tuple(self.graphs), total(self.measured)
        return Version(self.reason, self.cause, self.again, self.seconds, graphs, self.guards, len(self.breaks), runs)


@dataclass(slots=True)
class FrameTally:
    """All compilations of one function."""

    place: Location
    caller: SourceLine | None = None
    begins: int = 0
    versions: list[VersionTally] = field(default_factory=list)
    seconds: float = 0.0
    left_out: int = 0
    shared: int = 0
    kernels: int = 0
    peak: int = 0
    eager_calls: int = 0

    def begin(self, version: VersionTally) -> None:
        if len(self.versions) < MOST_VERSIONS:
            self.versions.append(version)
        else:
            self.left_out += 1

    def made(self) -> Frame:
        versions = tuple(version.made() for version in self.versions)
        counts = self.left_out, self.shared, self.kernels, self.peak, self.eager_calls
        curves = (graph.memory() for version in self.versions for graph in version.measured)
        return Frame(self.place, self.caller, self.seconds, versions, *counts, max(curves, key=max, default=()))


@dataclass(slots=True)
class BreakTally:
    """A break at one place."""

    event: GraphBroken
    stack: tuple[SourceLine, ...]
    count: int = 0
    seconds: float = 0.0
    versions: list[VersionTally] = field(default_factory=list)

    def made(self) -> Break:
        event, cut = self.event, [graph for version in self.versions for graph in version.measured]
        told = event.code, shortened(event.reason), event.explanation, event.hints, event.values, event.cost
        return Break(*told, self.stack, self.count, self.seconds, total(cut))


@dataclass(slots=True)
class CallTally:
    """Calls of one operator that graphs make as they are."""

    count: int = 0
    moved: int = 0
    nanoseconds: int = 0
