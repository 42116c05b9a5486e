from __future__ import annotations

from onegraph.base import events as ev
from onegraph.base.events import Events, Location
from onegraph.tools.record import recording
from onegraph.tools.report import summarize

HERE = Location("f.py", 3, "f")
LINE = Location("f.py", 5, "f")


def test_one_graph() -> None:
    events = Events()
    with recording(events) as recorded:
        events.emit(ev.GraphCaptured(HERE, operations=2, inputs=1, text=lambda: "def forward(): ..."))
        events.emit(ev.GuardsBuilt(HERE, count=2, text="x: Tensor\nscale == 2"))
    report = summarize(recorded)
    assert (report.graph_count, report.graph_break_count, report.op_count) == (1, 0, 2)
    assert (report.guard_count, report.guards[0].text) == (2, "x: Tensor\nscale == 2")
    assert report.captured[0].text == "def forward(): ..."
    assert str(report).splitlines() == [
        "onegraph produced 1 graph, with 0 graph breaks and 2 ops, behind 2 guards.",
        "The whole program is one graph.",
        "Graph 1: 2 ops in f (f.py:3)",
    ]


def test_breaks_are_numbered_and_explained() -> None:
    events = Events()
    with recording(events) as recorded:
        events.emit(ev.GraphCaptured(HERE, operations=1))
        events.emit(ev.GraphBroken(HERE, "B01", "call of print", "it writes now", ("move it",), (LINE,)))
        events.emit(ev.GraphCaptured(LINE, operations=1))
        events.emit(ev.FrameSkipped(LINE, "it is a generator"))
        events.emit(ev.Recompiled(HERE, "x.size(0) == 3", LINE, 1))
    text = str(summarize(recorded))
    assert text.startswith("onegraph produced 2 graphs, with 1 graph break and 2 ops, behind 0 guards.\n")
    assert (
        "1. call of print [B01] between 1 op in graph 1 and 1 op in graph 2\n  from user code" in text
        and "  Hint: move it\n" in text
    )
    assert "Runs eagerly in f (f.py:5): it is a generator" in text
    assert "Compiled again in f (f.py:3): x.size(0) == 3" in text


def test_texts_are_kept_as_they_were_when_told() -> None:
    events, program = Events(), ["add"]
    with recording(events) as recorded:
        events.emit(ev.FunctionalGraphBuilt(HERE, text=lambda: " ".join(program)))
        program.append("mul")
    assert recorded[0].text == "add"


def test_only_the_wanted_kinds_are_recorded() -> None:
    events = Events()
    with recording(events, [ev.GuardsBuilt]) as recorded:
        events.emit(ev.GraphCaptured(HERE))
        events.emit(ev.GuardsBuilt(HERE))
    events.emit(ev.GuardsBuilt(HERE))
    assert [type(item.event) for item in recorded] == [ev.GuardsBuilt]
