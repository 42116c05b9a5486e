"""What capture made of a program: graphs, breaks, guards and skipped frames, as data and as text."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from onegraph.base import events as ev
from onegraph.base.events import Location
from onegraph.base.text import Printer, plural
from onegraph.tools.logs import details
from onegraph.tools.record import Recorded


@dataclass(frozen=True, slots=True)
class GraphReport:
    """One captured graph. `text` is its readable Python code."""

    frame: Location | None
    operations: int
    text: str


@dataclass(frozen=True, slots=True)
class Explanation:
    """The answer to "is my program one graph, and if not, why?"."""

    graphs: tuple[GraphReport, ...]
    breaks: tuple[ev.GraphBroken, ...]
    skips: tuple[ev.FrameSkipped, ...]
    guards: tuple[ev.GuardsBuilt, ...]
    recompiles: tuple[ev.Recompiled, ...]

    @property
    def graph_count(self) -> int:
        return len(self.graphs)

    @property
    def graph_break_count(self) -> int:
        return len(self.breaks)

    @property
    def op_count(self) -> int:
        return sum(graph.operations for graph in self.graphs)

    @property
    def guard_count(self) -> int:
        return sum(guards.count for guards in self.guards)

    def __str__(self) -> str:
        out = Printer()
        counts = (plural(self.graph_count, "graph"), plural(self.graph_break_count, "graph break"))
        out.line(f"{counts[0]}, {counts[1]}, {plural(self.op_count, 'operation')}, {plural(self.guard_count, 'guard')}")
        if self.graph_count == 1 and not self.breaks and not self.skips:
            out.line("The whole program is one graph.")
        for number, graph in enumerate(self.graphs, 1):
            out.line(f"Graph {number}: {plural(graph.operations, 'operation')}" + _at(graph.frame))
        for number, broken in enumerate(self.breaks, 1):
            out.line(f"Break {number}: {broken.reason} [{broken.code}]")
            with out.indented():
                out.lines(details(broken))
        for skip in self.skips:
            out.line(f"Runs eagerly{_at(skip.frame)}: {skip.reason}")
        for again in self.recompiles:
            out.line(f"Compiled again{_at(again.frame)}: {again.reason}")
        return out.text()


def _at(frame: Location | None) -> str:
    return f" in {frame}" if frame else ""


def summarize(recorded: Iterable[Recorded]) -> Explanation:
    """The report of everything that was recorded."""
    graphs: list[GraphReport] = []
    breaks: list[ev.GraphBroken] = []
    skips: list[ev.FrameSkipped] = []
    guards: list[ev.GuardsBuilt] = []
    recompiles: list[ev.Recompiled] = []
    for item in recorded:
        match item.event:
            case ev.GraphCaptured(frame=frame, operations=operations):
                graphs.append(GraphReport(frame, operations, item.text))
            case ev.GraphBroken() as broken:
                breaks.append(broken)
            case ev.FrameSkipped() as skip:
                skips.append(skip)
            case ev.GuardsBuilt() as built:
                guards.append(replace(built, text=item.text))
            case ev.Recompiled() as again:
                recompiles.append(again)
    return Explanation(tuple(graphs), tuple(breaks), tuple(skips), tuple(guards), tuple(recompiles))
