"""What `onegraph.verify` has found."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from pathlib import Path
from typing import Any

from onegraph.base.dataclass import dataclass
from onegraph.base.events import Location
from onegraph.base.text import Printer, plural
from onegraph.tools.verification.compare import Difference

MOST = 10  # differences that are printed


@dataclass(frozen=True, slots=True)
class Fault:
    """Where a difference comes from, as far as it was found.

    `stage` is one of "capture", "functionalization", "differentiation", "decomposition", "graph passes", "partition",
    "lowering", "code", "library calls", "passes", "memory plan", "backend", or empty; `step` is the name of a pass, or
    of the aten operator that is lowered or decomposed. `avoiding` are options without which there is no fault.

    `graph` is the number of the graph, of `graphs` in the call, and `frame` the function that it is of. `operator` is
    the one that brings the difference in, `node` its line in the graph.
    """

    stage: str = ""
    step: str = ""
    graph: int = 0
    graphs: int = 0
    frame: Location | None = None
    operator: str = ""
    node: str = ""
    location: Location | None = None
    file: Path | None = None
    avoiding: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Verification:
    """The answer to "does the compiled call do what the eager one does?". It is true if it does, and prints.

    `graphs` were compiled; where there are none, eager mode was compared with itself. `differences` names each place in
    which they differ; `fault` says where that comes from. `raised` is the exception that the eager call ends with.
    """

    name: str
    places: int
    graphs: int
    differences: tuple[Difference, ...]
    fault: Fault | None = None
    raised: str = ""

    @property
    def ok(self) -> bool:
        return not self.differences

    def __bool__(self) -> bool:
        return self.ok

    @property
    def stage(self) -> str:
        """The first stage with which there is a difference."""
        return self.fault.stage if self.fault else ""

    @property
    def operator(self) -> str:
        return self.fault.operator if self.fault else ""

    @property
    def location(self) -> Location | None:
        """The line of the program that the operator stands in."""
        return self.fault.location if self.fault else None

    @property
    def file(self) -> Path | None:
        """A program that shows the difference, and exits with 1 while it does."""
        return self.fault.file if self.fault else None

    def __str__(self) -> str:
        out = Printer()
        graphs = plural(self.graphs, "graph")
        if self.ok:
            out.line(f"{self.name}: eager and compiled agree in {plural(self.places, 'place')}, with {graphs}.")
            if self.raised:
                out.line(f"Both raise {self.raised}")
            return out.text()
        out.line(
            f"{self.name}: eager and compiled differ in {plural(len(self.differences), 'place')} of {self.places}:"
        )
        with out.indented():
            out.lines(map(str, self.differences[:MOST]))
            if len(self.differences) > MOST:
                out.line(f"and {len(self.differences) - MOST} more")
        if self.fault is not None:
            out.lines(described(self.fault))
        return out.text()


def described(fault: Fault) -> list[str]:
    """The lines that say where a difference comes from."""
    step = f" ({fault.step})" if fault.step else ""
    lines = [f"Stage: {fault.stage}{step}" if fault.stage else "Stage: not found; no graph differs alone"]
    if fault.graph:
        lines.append(f"Graph: {fault.graph} of {fault.graphs}" + (f", of {fault.frame}" if fault.frame else ""))
    if fault.operator:
        lines.append(f"Operator: {fault.operator}, in {fault.node}")
    if fault.location is not None:
        lines += ["User code:", *fault.location.traceback_lines()]
    if fault.avoiding:
        lines.append(f"Avoided by: options={dict(fault.avoiding)}")
    if fault.file is not None:
        lines.append(f"Replay: python {fault.file}")
    return lines
