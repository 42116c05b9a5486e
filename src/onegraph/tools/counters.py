"""How often things happened that are worth counting: `onegraph.counters`, in the groups that torch's counters have.

onegraph.counters["stats"]["unique_graphs"]
onegraph.counters["graph_break"].most_common(3)
onegraph.counters.clear()
"""

from __future__ import annotations

from collections import Counter

from onegraph.base import events as ev
from onegraph.base.events import Event


class Counters(dict[str, Counter[str]]):
    """Groups of counts: `frames`, `stats`, `graph_break`, `skips`, `recompiles`, `fallbacks`, `kernels`, `disk`.

    What has not happened is 0, in groups that do not exist, too. `clear()` begins anew.
    """

    def __missing__(self, group: str) -> Counter[str]:
        found: Counter[str] = self.setdefault(group, Counter())
        return found

    def note(self, event: Event) -> None:
        """Subscriber."""
        match event:
            case ev.FrameStarted():
                self["frames"]["total"] += 1
            case ev.VersionShared():
                self["frames"]["shared"] += 1
            case ev.ResidualCode():
                self["frames"]["ok"] += 1
            case ev.GraphCaptured(operations=operations):
                self["stats"]["unique_graphs"] += 1
                self["stats"]["calls_captured"] += operations
            case ev.GraphBroken(code=code):
                self["graph_break"][code] += 1
            case ev.FrameSkipped(reason=reason):
                self["skips"][reason] += 1
            case ev.Recompiled(reason=reason):
                self["recompiles"][reason] += 1
            case ev.OperatorFellBack(operator=operator):
                self["fallbacks"][operator] += 1
            case ev.KernelsCompiled(kernels=kernels, cached=cached):
                self["kernels"]["cached" if cached else "compiled"] += kernels
            case ev.DiskSearched(stage=stage, found=True):
                self["disk"][stage] += 1


#: Of everything that this process has compiled.
counters = Counters()
