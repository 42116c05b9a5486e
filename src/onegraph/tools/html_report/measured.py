"""How often graphs and their kernels ran, and how long: what the option `measure` counts."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator

from onegraph.base.dataclass import dataclass
from onegraph.base.events import Location
from onegraph.ir.plan import Alloc, ExecPlan, ExternCall, Free, Launch
from onegraph.ir.plan_text import allocated
from onegraph.tools.html_report.data import GraphRuns, KernelRow

MOST_KERNELS = 60  # in the table


@dataclass(frozen=True, slots=True)
class Measured:
    """A graph that runs: `times` are as its launcher fills them, pairs of how often and how many nanoseconds."""

    place: Location
    plan: ExecPlan
    times: array[int]

    def runs(self) -> GraphRuns:
        return GraphRuns(self.times[0], self.times[1] / 1e9, sum(self.times[3::2]) / 1e9)

    def steps(self) -> Iterator[KernelRow]:
        """Its kernels and calls of libraries, each with its runs and what one run moves and computes."""
        measured = (step for step in self.plan.steps if isinstance(step, Launch | ExternCall))
        for number, step in enumerate(measured, 1):
            runs, spent = self.times[2 * number : 2 * number + 2]
            info = self.plan.kernels[step.kernel] if isinstance(step, Launch) else step
            name = info.operator if isinstance(info, ExternCall) else info.name
            yield KernelRow(
                name, self.place, isinstance(step, ExternCall), runs, spent, info.moved * runs, info.flops * runs
            )

    def memory(self) -> tuple[int, ...]:
        """The bytes that the plan holds behind each step that changes them."""
        held: dict[int, int] = {}
        found = [0]
        for step in self.plan.steps:
            match step:
                case Alloc(target=target):
                    held[target] = allocated(step)
                case Free(slots):
                    for slot in slots:
                        held.pop(slot, None)
                case _:
                    continue
            found.append(sum(held.values()))
        return tuple(found)


def total(graphs: Iterable[Measured]) -> GraphRuns:
    runs = [graph.runs() for graph in graphs]
    return GraphRuns(
        sum(each.runs for each in runs), sum(each.seconds for each in runs), sum(each.inside for each in runs)
    )


def kernel_rows(graphs: Iterable[Measured]) -> tuple[KernelRow, ...]:
    """Equal kernels of one function together, those that took longest first."""
    found: dict[tuple[str, Location], KernelRow] = {}
    for graph in graphs:
        for row in graph.steps():
            key = row.name, row.place
            found[key] = row if key not in found else found[key].with_more(row)
    ran = (row for row in found.values() if row.runs)
    return tuple(sorted(ran, key=lambda row: -row.nanoseconds))
