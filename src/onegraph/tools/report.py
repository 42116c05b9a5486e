"""What capture made of a program: graphs, breaks, guards and skipped frames, as data and as text."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

from onegraph.base import events as ev
from onegraph.base.dataclass import dataclass
from onegraph.base.events import Location
from onegraph.base.text import Printer, plural
from onegraph.tools.html_report.data import Finding
from onegraph.tools.logs import describe, details
from onegraph.tools.record import Recorded
from onegraph.tools.times import Times


@dataclass(frozen=True, slots=True)
class GraphReport:
    """One captured graph. `text` is its readable Python code, `module` the graph itself."""

    frame: Location | None
    operations: int
    text: str
    module: Any = None

    @property
    def targets(self) -> list[Any]:
        """What the graph calls, in order: functions, and names of methods."""
        nodes = self.module.graph.nodes if self.module is not None else ()
        return [node.target for node in nodes if node.op.startswith("call_")]


@dataclass(frozen=True, slots=True)
class LibraryCall:
    """An operator that is called as it is, for one reason: how often, what it moves, and about how long that takes."""

    operator: str
    reason: str
    count: int
    moved: int
    nanoseconds: int

    def __str__(self) -> str:
        times = f" x{self.count}" if self.count > 1 else ""
        cost = f" ({byte_count(self.moved)}, {duration(self.nanoseconds)})" if self.nanoseconds else ""
        return f"{self.operator}{times}: {self.reason}{cost}"


def byte_count(count: int) -> str:
    for unit, size in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= size:
            return f"{count / size:.1f} {unit}"
    return plural(count, "byte")


def duration(nanoseconds: int) -> str:
    """About how long: what moving the bytes takes, and the call itself."""
    for unit, size in (("s", 1e9), ("ms", 1e6)):
        if nanoseconds >= size:
            return f"about {nanoseconds / size:.1f} {unit}"
    return f"about {max(nanoseconds // 1000, 1)} us"


MOST = 30  # lines about what is kept for gradients


@dataclass(frozen=True, slots=True)
class Explanation:
    """The answer to "is my program one graph, and if not, why?".

    It prints as text, and unpacks to four as that of torch's `explain` once did: the text, the guards, the graphs, and
    the operations of each graph.
    """

    captured: tuple[GraphReport, ...]
    breaks: tuple[ev.GraphBroken, ...]
    #: For each break, the number of the graph that it ends; None if it ends none.
    ended: tuple[int | None, ...]
    skips: tuple[ev.FrameSkipped, ...]
    guards: tuple[ev.GuardsBuilt, ...]
    recompiles: tuple[ev.Recompiled, ...]
    #: A table of the seconds that each stage took.
    compile_times: str
    #: What is not compiled to kernels, dearest first.
    library_calls: tuple[LibraryCall, ...] = ()
    #: What graphs keep for their backward passes, and what those compute again.
    gradients: tuple[ev.GradientsPlanned, ...] = ()
    #: Products in integers, by the option `quantize`, and how far off they are.
    quantized: tuple[ev.ProductsQuantized, ...] = ()
    #: Graphs that the option `cuda_graphs` does not serve, and why.
    one_by_one: tuple[ev.LaunchedOneByOne, ...] = ()
    #: Breaks, recompilations and what ran eagerly, the dearest first, as `onegraph report` ranks them.
    findings: tuple[Finding, ...] = ()

    def __iter__(self) -> Iterator[Any]:
        return iter((str(self), self.out_guards, self.graphs, self.ops_per_graph))

    @property
    def graphs(self) -> list[Any]:
        """The graphs: an `fx.GraphModule` each."""
        return [graph.module for graph in self.captured]

    @property
    def graph_count(self) -> int:
        return len(self.captured)

    @property
    def graph_break_count(self) -> int:
        return len(self.breaks)

    @property
    def break_reasons(self) -> list[ev.GraphBroken]:
        """All breaks of the run, in order; each has `code`, `reason`, `hints` and `user_stack`."""
        return list(self.breaks)

    @property
    def op_count(self) -> int:
        return sum(graph.operations for graph in self.captured)

    @property
    def ops_per_graph(self) -> list[list[Any]]:
        """What each graph calls, in order."""
        return [graph.targets for graph in self.captured]

    @property
    def out_guards(self) -> list[str]:
        """What the graphs are guarded by, each fact once."""
        facts = [line.partition("#")[2].strip() for guards in self.guards for line in str(guards.text).splitlines()]
        return list(dict.fromkeys(filter(None, facts)))

    @property
    def guard_count(self) -> int:
        return sum(guards.count for guards in self.guards)

    def __str__(self) -> str:
        out = Printer()
        counts = f"{plural(self.graph_count, 'graph')}, with {plural(self.graph_break_count, 'graph break')}"
        guards = plural(self.guard_count, "guard")
        out.line(f"onegraph produced {counts} and {plural(self.op_count, 'op')}, behind {guards}.")
        if self.graph_count == 1 and not self.breaks and not self.skips:
            out.line("The whole program is one graph.")
        for number, graph in enumerate(self.captured, 1):
            out.line(f"Graph {number}: {plural(graph.operations, 'op')}" + _at(graph.frame))
        if self.breaks:
            out.line("Break reasons:")
        for number, (broken, ended) in enumerate(zip(self.breaks, self.ended, strict=True), 1):
            out.line(f"{number}. {broken.reason} [{broken.code}]{self._between(ended)}")
            with out.indented():
                out.lines(details(broken))
        for planned in self.gradients:
            repeated = f"compute {plural(len(planned.recomputed), 'operation')} again"
            out.line(f"Gradients keep {plural(planned.kept, 'byte')}, and {repeated}{_at(planned.frame)}:")
            lines = str(planned.text).splitlines()
            with out.indented():
                out.lines(lines[:MOST])
                if len(lines) > MOST:
                    out.line(f"and {len(lines) - MOST} more, which `onegraph dump` shows")
        for quantized in self.quantized:
            out.line(f"Quantized{_at(quantized.frame)}: {describe(quantized)}")
            with out.indented():
                out.lines(details(quantized))
        for launched in self.one_by_one:
            out.line(f"Not captured as a CUDA graph{_at(launched.frame)} ({launched.part}): {launched.reason}")
        if self.library_calls:
            out.line("Called as it is, between fused kernels (with memory and time, arithmetic not counted):")
        for call in self.library_calls:
            with out.indented():
                out.line(str(call))
        for skip in self.skips:
            out.line(f"Runs eagerly{_at(skip.frame)}: {skip.reason}")
        for again in self.recompiles:
            out.line(f"Compiled again{_at(again.frame)}: {again.reason}")
        if len(self.findings) > 1:
            out.line("What costs most, with the seconds of the processor that compilation took for it:")
        for number, finding in enumerate(self.findings if len(self.findings) > 1 else (), 1):
            with out.indented():
                where = f",{_at(finding.place)}" if finding.place else ""
                out.line(f"{number}. {finding.seconds:.3f} s: {finding.title}{where}")
        return out.text()

    def _between(self, number: int | None) -> str:
        """Which graphs the break stands between, and their operations."""
        if number is None:
            return ""
        before = f"{plural(self.captured[number - 1].operations, 'op')} in graph {number}"
        if number == len(self.captured):
            return f" behind {before}"
        return f" between {before} and {plural(self.captured[number].operations, 'op')} in graph {number + 1}"


def _at(frame: Location | None) -> str:
    return f" in {frame}" if frame else ""


def summarize(recorded: Iterable[Recorded], findings: Iterable[Finding] = ()) -> Explanation:
    """The report of everything that was recorded, and what was found to cost something."""
    graphs: list[GraphReport] = []
    breaks: list[ev.GraphBroken] = []
    ended: list[int | None] = []
    skips: list[ev.FrameSkipped] = []
    guards: list[ev.GuardsBuilt] = []
    recompiles: list[ev.Recompiled] = []
    calls: dict[tuple[str, str], list[int]] = {}
    gradients: list[ev.GradientsPlanned] = []
    quantized: list[ev.ProductsQuantized] = []
    one_by_one: list[ev.LaunchedOneByOne] = []
    times = Times()
    begun = 0  # how many graphs there were when the frame that is translated began
    for item in recorded:
        times.note(item.event)
        match item.event:
            case ev.FrameStarted():
                begun = len(graphs)
            case ev.GraphCaptured(frame=frame, operations=operations, module=module):
                graphs.append(GraphReport(frame, operations, item.text, module))
            case ev.GraphBroken() as broken:
                breaks.append(broken)
                ended.append(len(graphs) if len(graphs) > begun else None)
            case ev.FrameSkipped() as skip:
                skips.append(skip)
            case ev.GuardsBuilt() as built:
                guards.append(replace(built, text=item.text))
            case ev.GradientsPlanned() as planned:
                gradients.append(replace(planned, text=item.text))
            case ev.ProductsQuantized() as found:
                quantized.append(found)
            case ev.LaunchedOneByOne() as launched:
                one_by_one.append(launched)
            case ev.Recompiled() as again:
                recompiles.append(again)
            case ev.OperatorFellBack(operator=operator, reason=reason, moved=moved, nanoseconds=nanoseconds):
                known = calls.setdefault((operator, reason), [0, 0, 0])
                calls[operator, reason] = [known[0] + 1, known[1] + moved, known[2] + nanoseconds]
    called = sorted((LibraryCall(*key, *cost) for key, cost in calls.items()), key=lambda call: -call.nanoseconds)
    return Explanation(
        tuple(graphs),
        tuple(breaks),
        tuple(ended),
        tuple(skips),
        tuple(guards),
        tuple(recompiles),
        str(times),
        tuple(called),
        tuple(gradients),
        tuple(quantized),
        tuple(one_by_one),
        tuple(findings),
    )
