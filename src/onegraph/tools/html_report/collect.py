"""From events to the data of a report."""

from __future__ import annotations

from collections import Counter
from threading import get_ident

from onegraph.base.events import Event
from onegraph.base.text import plural
from onegraph.tools.html_report.data import Counts, Limits, MemoryCurve, ProgramError, Report, Stage
from onegraph.tools.html_report.frames import FrameCollector
from onegraph.tools.html_report.graphs import GraphCollector
from onegraph.tools.html_report.measured import kernel_rows, total
from onegraph.tools.html_report.tally import Texts
from onegraph.tools.profile import Profile


class Collector:
    """Gathers what a report shows of the events of a run: one at a time, of any thread."""

    def __init__(self) -> None:
        self._texts = Texts()
        self._frames = FrameCollector(self._texts)
        self._graphs = GraphCollector(self._texts)
        self._profiles: dict[int, Profile] = {}  # of each thread

    def note(self, event: Event) -> None:
        """Subscriber."""
        self._profiles.setdefault(get_ident(), Profile()).note(event)
        self._frames.note(event)
        self._graphs.note(event)

    def report(
        self,
        command: str = "",
        error: ProgramError | None = None,
        limits: Limits | None = None,
        curve: MemoryCurve | None = None,
    ) -> Report:
        """Everything so far, and what else was measured."""
        frames, graphs = self._frames, self._graphs
        eager = {frame.place: frame.eager_calls for frame in frames.frames.entries.values()}
        made = (frame.made() for frame in frames.frames.entries.values())
        breaks = (broken.made() for broken in frames.breaks.entries.values())
        return Report(
            command,
            Counts(len(frames.frames.entries), frames.graphs, frames.broken, frames.recompilations, graphs.called),
            tuple(sorted(made, key=lambda frame: -frame.seconds)),
            tuple(sorted(breaks, key=lambda broken: -(broken.seconds + broken.runs.around))),
            graphs.fallbacks(),
            graphs.eager_calls(eager),
            tuple(sorted(graphs.gradients.entries.values(), key=lambda planned: -planned.kept)),
            graphs.kernels,
            graphs.memory,
            self._stages(),
            graphs.lookups(),
            kernel_rows(frames.measured),
            total(frames.measured),
            limits,
            curve or MemoryCurve(),
            tuple(self._left_out()),
            error,
        )

    def ran_kernels(self) -> bool:
        """Whether there is something that the machine's limits are asked for."""
        return any(graph.times[0] for graph in self._frames.measured)

    def _stages(self) -> tuple[Stage, ...]:
        """Of all threads, the slowest first."""
        runs: Counter[str] = Counter()
        seconds: dict[str, float] = {}
        for profile in self._profiles.values():
            for name, count, spent in profile.rows():
                runs[name] += count
                seconds[name] = seconds.get(name, 0.0) + spent
        return tuple(Stage(name, runs[name], spent) for name, spent in sorted(seconds.items(), key=lambda s: -s[1]))

    def _left_out(self) -> list[str]:
        frames, graphs = self._frames, self._graphs
        counted = {
            "further compilation": frames.frames.left_out,
            "further graph break": frames.breaks.left_out,
            "further operator": graphs.calls.left_out,
            "further eager call": graphs.eager.left_out,
            "further gradient plan": graphs.gradients.left_out,
            "further graph without counts of its runs": frames.not_measured,
            "further place without lookups on disk": graphs.searched.left_out,
            "further text": self._texts.left_out,
        }
        return [plural(count, what) for what, count in counted.items() if count]
