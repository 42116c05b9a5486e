"""What events tell of the graphs' way to native code: kernels, memory, gradients, and what is not compiled."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace

from onegraph.base import events as ev
from onegraph.base.events import Event, Location
from onegraph.base.text import plural
from onegraph.tools.html_report.data import Eager, Fallback, Gradients, Kernels, Lookup, Memory
from onegraph.tools.html_report.frames import NOWHERE
from onegraph.tools.html_report.tally import CallTally, Table, Texts, shortened

MOST_PLANS = 100  # of gradients


class GraphCollector:
    """Adds up what is told of graphs, and of calls that run without one."""

    def __init__(self, texts: Texts) -> None:
        self.kernels, self.memory = Kernels(), Memory()
        self.calls: Table[tuple[str, str, Location], CallTally] = Table()
        self.eager: Table[tuple[str, Location, str], Counter[str]] = Table()
        self.gradients: Table[int, Gradients] = Table(MOST_PLANS)
        self.searched: Table[tuple[str, Location, str], Counter[bool]] = Table()
        self.called = self._planned = 0
        self._texts = texts

    def note(self, event: Event) -> None:
        place = event.frame or NOWHERE
        match event:
            case ev.KernelsCompiled():
                self.kernels = with_kernels(self.kernels, event)
                self.searched.find(("kernels", place, ""), Counter)[event.cached] += event.kernels
            case ev.DiskSearched(stage=stage, found=found, reason=reason):
                self.searched.find((stage, place, reason), Counter)[found] += 1
            case ev.MemoryPlanned(total=total, peak=peak):
                known = self.memory
                self.memory = Memory(known.plans + 1, known.total + total, max(known.peak, peak))
            case ev.OperatorFellBack(operator=operator, reason=reason, moved=moved, nanoseconds=nanoseconds):
                self.called += 1
                calls = self.calls.find((operator, shortened(reason), place), CallTally)
                calls.count += 1
                calls.moved += moved
                calls.nanoseconds += nanoseconds
            case ev.GradientsPlanned():
                self._planned += 1
                self.gradients.find(self._planned, lambda: self._plan(event, place))
            case ev.FrameSkipped(reason=reason):
                self._note_eager("skipped", place, reason)
            case ev.RecompileLimitReached(reason=reason, limit=limit):
                self._note_eager("limit", place, f"the limit of {plural(limit, 'version')} is reached: {reason}")
            case ev.GraphFailed(error=error, resolved=True):
                self._note_eager("failed", place, error)

    def _plan(self, event: ev.GradientsPlanned, place: Location) -> Gradients:
        text = self._texts.of(event.text)
        return Gradients(place, event.kept, event.values, len(event.recomputed), text)

    def _note_eager(self, kind: str, place: Location, reason: str) -> None:
        self.eager.find((kind, place, shortened(reason)), Counter)[kind] += 1

    def fallbacks(self) -> tuple[Fallback, ...]:
        """Whole graphs first, then those that take longest."""
        made = (
            Fallback(*key, calls.count, calls.moved, calls.nanoseconds) for key, calls in self.calls.entries.items()
        )
        return tuple(sorted(made, key=lambda call: (not call.of_whole_graph, -call.nanoseconds)))

    def eager_calls(self, calls: Mapping[Location, int]) -> tuple[Eager, ...]:
        """Those that ran most often first. A call that fails in its graph is told each time."""
        made = [
            Eager(kind, place, reason, n, n if kind == "failed" else calls.get(place, 0))
            for (kind, place, reason), n in ((key, counted.total()) for key, counted in self.eager.entries.items())
        ]
        return tuple(sorted(made, key=lambda eager: -eager.calls))

    def lookups(self) -> tuple[Lookup, ...]:
        """Functions of which most is missing first."""
        made = [
            Lookup(stage, place, counted[True], counted[False], reason)
            for (stage, place, reason), counted in self.searched.entries.items()
        ]
        return tuple(sorted(made, key=lambda lookup: -lookup.missed))


def with_kernels(known: Kernels, event: ev.KernelsCompiled) -> Kernels:
    """The kernels with those of one more module."""
    if event.cached:
        return replace(
            known,
            found=known.found + event.kernels,
            modules_found=known.modules_found + 1,
            seconds_found=known.seconds_found + event.seconds,
        )
    return replace(
        known,
        compiled=known.compiled + event.kernels,
        modules_compiled=known.modules_compiled + 1,
        seconds_compiled=known.seconds_compiled + event.seconds,
    )
