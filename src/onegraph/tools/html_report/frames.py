"""What events tell of functions: their compilations, graphs and graph breaks."""

from __future__ import annotations

from threading import get_ident

from onegraph.base import events as ev
from onegraph.base.events import Event, Location
from onegraph.tools.html_report.callers import caller_of
from onegraph.tools.html_report.data import Graph, SourceLine
from onegraph.tools.html_report.measured import Measured
from onegraph.tools.html_report.tally import BreakTally, FrameTally, Table, Texts, VersionTally, shortened

NOWHERE = Location("", 0, "outside of any function")
MOST_GRAPHS = 1_000  # whose runs are counted
FIRST = "the first call"
ANOTHER_PART = "the first call of the code behind a graph break, from line %d on"
ANOTHER_OBJECT = "the first call of another object with this code"
TRANSLATE = "translate"  # the stage of a whole compilation
LATER = ("functionalize", "compile")  # stages that also run by themselves: for gradients, in the first backward pass


class FrameCollector:
    """Events of a thread belong to what it translates; others, to the latest compilation of their function."""

    def __init__(self, texts: Texts) -> None:
        self.frames: Table[Location, FrameTally] = Table()
        self.breaks: Table[tuple[str, str, tuple[Location, ...]], BreakTally] = Table()
        self.measured: list[Measured] = []
        self.graphs = self.broken = self.recompilations = self.not_measured = 0
        self._texts = texts
        self._translated: dict[int, VersionTally] = {}  # by each thread
        self._again: dict[int, ev.Recompiled] = {}  # why each thread translates next

    def note(self, event: Event) -> None:
        place = event.frame or NOWHERE
        frame = self.frames.entries.get(place) or FrameTally(place)
        match event:
            case ev.Recompiled():
                self.recompilations += 1
                self._again[get_ident()] = event
            case ev.FrameStarted():
                self._begin(place, event.line)
            case ev.VersionShared():
                self.frames.find(place, lambda: begun(place)).shared += 1
            case ev.StageTimed(stage=stage, seconds=seconds):
                self._add_seconds(stage, seconds, frame)
            case ev.GraphCaptured(operations=operations, inputs=inputs, text=text):
                self.graphs += 1
                self._version(frame).graphs.append(Graph(operations, inputs, self._texts.of(text)))
            case ev.GraphBroken():
                self._break(event, frame)
            case ev.GuardsBuilt(count=count):
                self._version(frame).guards += count
            case ev.KernelsCompiled(kernels=kernels):
                frame.kernels += kernels
            case ev.MemoryPlanned(peak=peak, plan=plan, times=times):
                frame.peak = max(frame.peak, peak)
                if times is not None:
                    self._measure(Measured(place, plan, times), frame)
            case ev.RanEagerly():
                self.frames.find(place, lambda: begun(place)).eager_calls += 1

    def _version(self, frame: FrameTally) -> VersionTally:
        found = self._translated.get(get_ident())
        if found is not None:
            return found
        return frame.versions[-1] if frame.versions else VersionTally()

    def _measure(self, graph: Measured, frame: FrameTally) -> None:
        if len(self.measured) < MOST_GRAPHS:
            self.measured.append(graph)
            self._version(frame).measured.append(graph)
        else:
            self.not_measured += 1

    def _begin(self, place: Location, line: int) -> None:
        frame = self.frames.find(place, lambda: begun(place))
        version = version_for(self._again.pop(get_ident(), None), frame, line)
        self._translated[get_ident()] = version
        frame.begin(version)

    def _add_seconds(self, stage: str, seconds: float, frame: FrameTally) -> None:
        version = self._version(frame)
        if stage == TRANSLATE:
            self._translated.pop(get_ident(), None)
            for broken in version.breaks:
                broken.seconds += seconds
        elif stage not in LATER or get_ident() in self._translated:  # a part of another one
            return
        frame.seconds += seconds
        version.seconds += seconds

    def _break(self, event: ev.GraphBroken, frame: FrameTally) -> None:
        self.broken += 1
        key = event.code, event.reason, event.user_stack
        found = self.breaks.find(key, lambda: BreakTally(event, tuple(map(SourceLine.at, event.user_stack))))
        found.count += 1
        self._version(frame).add_break(found)


def begun(place: Location) -> FrameTally:
    """A function that is compiled now, for the first time."""
    caller = caller_of(place)
    return FrameTally(place, None if caller is None else SourceLine.at(caller))


def version_for(again: ev.Recompiled | None, frame: FrameTally, line: int) -> VersionTally:
    """A compilation that begins, and why it is needed."""
    if again is not None:
        return VersionTally(shortened(again.reason), None if again.cause is None else SourceLine.at(again.cause), True)
    if not frame.versions:
        frame.begins = line
        return VersionTally(FIRST)
    return VersionTally(ANOTHER_OBJECT if line == frame.begins else ANOTHER_PART % line)
