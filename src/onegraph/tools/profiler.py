"""`onegraph.CompileProfiler`: run a program for as long as you like, and read what broke its graphs and its guards."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

from onegraph.base import events as ev
from onegraph.base.events import Event, Location
from onegraph.base.text import Printer, plural
from onegraph.compile import EVENTS


class CompileProfiler:
    """A backend that runs graphs as they are, and a context that counts graph breaks and guard failures.

    with CompileProfiler() as profiler:
        profiled = onegraph.compile(f, backend=profiler)
        for batch in data:
            profiled(batch)
    print(profiler.report())
    """

    def __init__(self) -> None:
        self.graph_count = 0
        self.op_count = 0
        self.breaks: Counter[tuple[str, str, Location | None]] = Counter()
        self.guard_failures: Counter[tuple[str, Location | None]] = Counter()
        self.eager: Counter[tuple[str, Location | None]] = Counter()
        self._leave: Callable[[], None] = lambda: None

    def __call__(self, module: Any, examples: list[Any]) -> Callable[..., Any]:
        self.graph_count += 1
        self.op_count += sum(node.op.startswith("call_") for node in module.graph.nodes)
        forward: Callable[..., Any] = module.forward
        return forward

    def __enter__(self) -> CompileProfiler:
        self._leave = EVENTS.subscribe(self._note)
        return self

    def __exit__(self, *_: object) -> None:
        self._leave()

    def _note(self, event: Event) -> None:
        match event:
            case ev.GraphBroken(code=code, reason=reason, user_stack=stack):
                self.breaks[reason, code, stack[-1] if stack else None] += 1
            case ev.Recompiled(frame=frame, reason=reason) | ev.RecompileLimitReached(frame=frame, reason=reason):
                self.guard_failures[reason, frame] += 1
            case ev.FrameSkipped(frame=frame, reason=reason):
                self.eager[reason, frame] += 1

    def report(self) -> str:
        """What was counted, as text: each break and each guard failure with its place, the most frequent first."""
        out = Printer()
        out.line(f"onegraph produced {plural(self.graph_count, 'graph')} with {plural(self.op_count, 'op')}.")
        out.line(plural(sum(self.breaks.values()), "graph break") + (":" if self.breaks else "."))
        with out.indented():
            for (reason, code, place), count in self.breaks.most_common():
                out.line(f"{count} x {reason} [{code}], in {place}")
        out.line(plural(sum(self.guard_failures.values()), "guard failure") + (":" if self.guard_failures else "."))
        with out.indented():
            for (reason, place), count in self.guard_failures.most_common():
                out.line(f"{count} x {reason}, in {place}")
        for (reason, place), count in self.eager.most_common():
            out.line(f"{count} x {place} runs eagerly: {reason}")
        return out.text()
