"""Every stage of one call as text: what `onegraph dump` prints and docs/one_function.md shows."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Iterable

from onegraph.base import events as ev
from onegraph.base.dataclass import dataclass
from onegraph.base.errors import InvalidArgument
from onegraph.base.events import Event
from onegraph.base.text import Printer
from onegraph.tools.logs import describe
from onegraph.tools.record import Recorded

# In the order in which a program passes through them.
STAGES: dict[str, type[Event]] = {
    "bytecode": ev.BytecodeDecoded,
    "graph": ev.GraphCaptured,
    "break": ev.GraphBroken,
    "guards": ev.GuardsBuilt,
    "residual": ev.ResidualCode,
    "gradients": ev.GradientsPlanned,
    "aten": ev.FunctionalGraphBuilt,
    "loops": ev.LoweringDone,
    "fused": ev.FusionDone,
    "memory": ev.MemoryPlanned,
    "code": ev.KernelsCompiled,
}


@dataclass(frozen=True, slots=True)
class Section:
    """One stage of one frame."""

    stage: str
    headline: str
    text: str


def check_stages(names: Iterable[str]) -> frozenset[str]:
    known = ("source", *STAGES)
    chosen = frozenset(names)
    unknown = sorted(chosen - set(known))
    if unknown:
        raise InvalidArgument(f"unknown stage '{unknown[0]}'; accepted: {', '.join(known)}")
    return chosen


def source_section(function: Callable[..., object]) -> Section:
    target = inspect.unwrap(function)
    return Section("source", getattr(target, "__qualname__", repr(target)), inspect.getsource(target).rstrip())


def sections(recorded: Iterable[Recorded]) -> list[Section]:
    """The events that show a stage, as sections in the order in which they happened."""
    stage_of = {kind: stage for stage, kind in STAGES.items()}
    found = []
    for item in recorded:
        stage = stage_of.get(type(item.event))
        if stage is not None:
            frame = f"{item.event.frame}: " if item.event.frame else ""
            found.append(Section(stage, frame + describe(item.event), item.text.rstrip("\n")))
    return found


def show(found: Iterable[Section], stages: Collection[str] = ()) -> str:
    """The sections as one text; only these stages if any are named."""
    out = Printer()
    for section in found:
        if not stages or section.stage in stages:
            out.line(f"==== {section.stage} ==== {section.headline}")
            out.line(section.text)
            out.line()
    return out.text().rstrip("\n")
