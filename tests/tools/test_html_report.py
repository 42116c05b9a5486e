"""The page about a run: what is gathered, how it is ranked, and that the page is whole and safe."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import time
from array import array
from collections import Counter
from html.parser import HTMLParser
from pathlib import Path

import pytest
import torch
from import_graph import ROOT

import onegraph
from onegraph.base import events as ev
from onegraph.base.events import Events, Location
from onegraph.ir.plan import Alloc, ExecPlan, ExternCall, Free, KernelInfo, Launch, Pointer, Return
from onegraph.ir.types import F32
from onegraph.tools.html_report import memory_watch
from onegraph.tools.html_report.collect import Collector
from onegraph.tools.html_report.data import Limits, MemoryCurve, Report
from onegraph.tools.html_report.findings import findings
from onegraph.tools.html_report.limits import machine_limits
from onegraph.tools.html_report.memory_watch import MemoryWatch
from onegraph.tools.html_report.page import page
from onegraph.tools.html_report.tally import MOST_ENTRIES, MOST_VERSIONS, Texts

F = Location("f.py", 3, "f")
G = Location("g.py", 7, "g")
VOID = {"meta", "br"}


class Tree(HTMLParser):
    """Checks that tags are closed in order, and keeps what tests ask for."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: Counter[str] = Counter()
        self.attributes: list[tuple[str, str | None]] = []
        self.text = ""
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags[tag] += 1
        self.attributes += attrs
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data

    def values(self, name: str) -> list[str | None]:
        return [value for key, value in self.attributes if key == name]


def compile_frame(events: Events, frame: Location, seconds: float, *inside: ev.Event, index: int = 0) -> None:
    events.emit(ev.FrameStarted(frame, index))
    for event in inside:
        events.emit(event)
    events.emit(ev.StageTimed(frame, "translate", seconds))


def gathered(*given: ev.Event) -> tuple[Events, Collector]:
    events, collector = Events(), Collector()
    events.subscribe(collector.note)
    for event in given:
        events.emit(event)
    return events, collector


def of_program() -> Report:
    """Two functions: a break, a recompilation, what runs eagerly."""
    events, collector = gathered()
    broken = ev.GraphBroken(F, "print", "call of print", "it writes", ("print `later`",), (F,), ("str",), "it ends")
    compile_frame(events, F, 0.5, ev.GraphCaptured(F, 2, 1, "graph(x)"), broken, ev.GuardsBuilt(F, 4))
    compile_frame(events, G, 2.0, ev.KernelsCompiled(G, 3, 0.25), ev.MemoryPlanned(G, 100, 60))
    events.emit(ev.Recompiled(G, "`x` had size [2], has [3]", F, 1))
    compile_frame(events, G, 1.0, ev.KernelsCompiled(G, 4, 0.01, cached=True), ev.MemoryPlanned(G, 50, 50), index=1)
    events.emit(ev.StageTimed(G, "compile", 0.125))  # of a backward graph
    events.emit(ev.FrameSkipped(F, "it is a generator"))
    events.emit(ev.OperatorFellBack(G, "aten.mm.default", "a library is best", 2000, 3000))
    events.emit(ev.OperatorFellBack(G, "aten.mm.default", "a library is best", 2000, 3000))
    events.emit(ev.OperatorFellBack(F, "autograd", "a subclass"))
    events.emit(ev.GradientsPlanned(G, 64, 2, ("relu",), "y: f32[4]"))
    return collector.report("train.py --fast")


def plan_of_two() -> ExecPlan:
    """A call of a library and a kernel, twice."""
    call = ExternCall("aten.mm.default", (), (), (None,), (None,), False, 1000, 50_000)
    steps = (
        Alloc(0, F32, (10,), (1,), "cpu"),
        call,
        Alloc(1, F32, (30,), (1,), "cpu"),
        Launch(0, (Pointer(0),)),
        Free((0,)),
        Launch(0, (Pointer(1),)),
        Return(()),
    )
    return ExecPlan((), (), 2, 0, (KernelInfo("add_1", (), (), 400, 100),), steps)


def test_runs_of_kernels_are_added_up() -> None:
    events, collector = gathered()
    times = array("q", [0] * 8)
    broken = ev.GraphBroken(F, "print", "call of print", user_stack=(F,))
    compile_frame(events, F, 0.5, ev.MemoryPlanned(F, 160, 160, "", plan_of_two(), times), broken)
    assert not collector.ran_kernels()
    times[:] = array("q", [10, 9_000_000, 10, 5_000_000, 10, 1_000_000, 10, 2_000_000])  # it has run
    assert collector.ran_kernels()
    report = collector.report(limits=Limits(1e9, 1e12))
    product, added = report.rows
    assert (product.name, product.of_library, product.runs, product.moved, product.flops) == (
        "aten.mm.default", True, 10, 10_000, 500_000,
    )  # fmt: skip
    assert (added.name, added.runs, added.nanoseconds, added.moved) == ("add_1", 20, 3_000_000, 8_000)
    assert added.share(Limits(1e9, 1e12)) == pytest.approx(8_000 / 0.003 / 1e9)
    assert product.is_bound_by_memory(Limits(1e9, 1e9)) is False and product.is_bound_by_memory(Limits(1e6, 1e12))
    (frame,) = report.frames
    assert (frame.runs.runs, frame.runs.seconds, frame.runs.inside) == (10, 0.009, 0.008)
    assert frame.memory == (0, 40, 160, 120)
    (finding,) = findings(report)
    assert (finding.seconds, finding.lost, finding.cost) == (0.5, pytest.approx(0.001), (pytest.approx(0.501), 0))
    text = Tree(page(report)).text
    for said in ("add_1", "library in f", "under 1% of memory", "9 ms in 10 runs", "1 ms between kernels"):
        assert said in text


def test_calls_that_ran_eagerly_are_counted() -> None:
    events, collector = gathered()
    compile_frame(events, F, 0.25)
    for event in (ev.RecompileLimitReached(F, 1, "`x` changed"), *(ev.RanEagerly(F) for _ in range(5))):
        events.emit(event)
    for _ in range(3):
        events.emit(ev.GraphFailed(G, "IndexError: 3", True))
    report = collector.report()
    assert [(eager.kind, eager.count, eager.calls) for eager in report.eager] == [("limit", 1, 5), ("failed", 3, 3)]
    assert [(finding.seconds, finding.calls) for finding in findings(report)] == [(0.25, 5), (0.0, 3)]
    assert "5 calls ran eagerly" in Tree(page(report)).text


def test_what_was_found_on_disk_is_told_by_stage() -> None:
    _, collector = gathered(
        ev.DiskSearched(F, "plan", True),
        ev.DiskSearched(F, "plan", False),
        ev.DiskSearched(F, "plan", False),
        ev.DiskSearched(G, "plan", False, "sizes that change"),
        ev.KernelsCompiled(G, 3, 0.25),
        ev.KernelsCompiled(G, 4, 0.5, cached=True),
    )
    assert [(each.stage, each.place, each.found, each.missed, each.reason) for each in collector.report().lookups] == [
        ("kernels", G, 4, 3, ""),
        ("plan", F, 1, 2, ""),
        ("plan", G, 0, 1, "sizes that change"),
    ]
    assert "sizes that change" in Tree(page(collector.report())).text


def test_what_follows_a_break_is_told_from_another_object() -> None:
    events, collector = gathered()
    for line in (3, 5, 3):
        events.emit(ev.FrameStarted(F, 0, line=line))
        events.emit(ev.StageTimed(F, "translate", 0.1))
    (frame,) = collector.report().frames
    assert [version.reason for version in frame.versions] == [
        "the first call",
        "the first call of the code behind a graph break, from line 5 on",
        "the first call of another object with this code",
    ]


def test_memory_is_watched(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory_watch, "INTERVAL", 1e-5)
    monkeypatch.setattr(memory_watch, "MOST_SAMPLES", 8)
    watch = MemoryWatch()
    watch.start()
    watch.note(ev.FrameStarted(F))
    time.sleep(0.05)
    watch.note(ev.FrameEnded(F))
    watch.stop()
    curve = watch.curve()
    assert 1 < len(curve.samples) <= 9 and all(held > 1 << 20 for _, held in curve.samples)
    ((begin, end),) = curve.compiled
    assert end - begin >= 0.05
    assert "<polyline" in page(Collector().report(curve=curve)) and "<rect" in page(Collector().report(curve=curve))
    assert "<svg" not in page(Collector().report(curve=MemoryCurve(((0.0, 1),))))


def test_the_limits_of_this_machine_are_plausible() -> None:
    limits = machine_limits()
    assert limits is not None and 1e8 < limits.bandwidth < 1e13 and 1e8 < limits.arithmetic < 1e15


def test_two_hundred_regions_are_a_page_of_moderate_size() -> None:
    events, collector = gathered()
    for number in range(200):
        place = Location(f"m{number}.py", number + 1, f"f{number}")
        again = ev.Recompiled(place, "`x` had size [2], has [3]", place, 1)
        broken = ev.GraphBroken(place, "print", f"call {number} of print", "it writes", ("print later",), (place,))
        text = "graph(x)\n" * 50
        compile_frame(events, place, 0.1, ev.GraphCaptured(place, 50, 1, text), broken, ev.MemoryPlanned(place, 9, 9))
        events.emit(again)
        compile_frame(events, place, 0.1, ev.GraphCaptured(place, 50, 1, text), index=1)
    begun = time.process_time()
    made = page(collector.report())
    assert time.process_time() - begun < 5  # of about a quarter of a second
    tree = Tree(made)
    assert tree.tags["details"] >= 600 and len(made) < 2_000_000


def test_events_become_data() -> None:
    report = of_program()
    assert (report.counts.frames, report.counts.graphs, report.counts.breaks, report.counts.recompilations) == (
        2,
        1,
        1,
        1,
    )
    g, f = report.frames  # the dearest first
    assert (g.place, g.seconds, g.kernels, g.peak) == (G, 3.125, 7, 60)
    assert [(version.again, version.reason, version.seconds) for version in g.versions] == [
        (False, "the first call", 2.0),
        (True, "`x` had size [2], has [3]", 1.125),
    ]
    assert (f.graphs, f.operations, f.breaks, f.versions[0].guards) == (1, 2, 1, 4)
    (broken,) = report.breaks
    assert (broken.code, broken.count, broken.seconds, broken.stack[0].place) == ("print", 1, 0.5, F)
    kernels, memory = report.kernels, report.memory
    assert (kernels.compiled, kernels.found, kernels.modules_compiled, kernels.modules_found) == (3, 4, 1, 1)
    assert (memory.plans, memory.total, memory.peak) == (2, 150, 60)
    whole, product = report.fallbacks
    assert (whole.operator, whole.of_whole_graph) == ("autograd", True)
    assert (product.count, product.moved, product.nanoseconds) == (2, 4000, 6000)
    assert [(eager.kind, eager.reason) for eager in report.eager] == [("skipped", "it is a generator")]
    assert [(planned.kept, planned.recomputed) for planned in report.gradients] == [(64, 1)]


def test_findings_are_ranked_by_cost() -> None:
    found = [(finding.title.partition(":")[0], finding.seconds) for finding in findings(of_program())]
    assert found == [
        ("1 recompilation of `g`", 1.125),
        ("Graph break", 0.5),
        ("Runs eagerly", 0.5),
        ("A graph runs operator by operator (autograd)", 0.5),
    ]
    assert findings(of_program())[0].advice[0].endswith("`onegraph.mark_dynamic(tensor, dim)`")


def test_a_program_is_gathered() -> None:
    @onegraph.compile(backend="eager")
    def scaled(x):
        y = x * 2
        return y / y.sum().item()

    onegraph.reset()
    collector = Collector()
    unsubscribe = onegraph.compile.__globals__["EVENTS"].subscribe(collector.note)
    scaled(torch.ones(3))
    scaled(torch.ones(4))
    unsubscribe()
    report = collector.report()
    (broken,) = report.breaks
    assert (broken.stack[-1].before, broken.stack[-1].marked) == ("return ", "y / y.sum().item()")
    (frame,) = report.frames
    assert frame.place.function == "scaled"
    assert frame.caller is not None and frame.caller.before == "scaled(torch.ones(3))"
    assert any(version.again and "had size [3], has [4]" in version.reason for version in frame.versions)
    assert "mul" in frame.versions[0].graphs[0].code
    assert 0 < frame.seconds <= report.seconds * 1.001


def test_a_page_is_whole() -> None:
    tree = Tree(page(of_program()))
    ids, links = tree.values("id"), tree.values("href")
    assert len(ids) == len(set(ids))
    assert {link.removeprefix("#") for link in links if link} <= set(ids)
    assert tree.values("src") == [] and tree.tags["script"] == tree.tags["link"] == 0  # it needs nothing else
    assert tree.tags["h1"] == tree.tags["main"] == 1
    for said in ("train.py --fast", "call of print", "print later", "had size [2], has [3]", "graph(x)", "y: f32[4]"):
        assert said in tree.text
    assert "Nothing was compiled" in Tree(page(Collector().report())).text


def test_what_a_program_says_is_escaped() -> None:
    hostile = "<script>alert(1)</script>\"'><img src=x onerror=alert(1)>\x00\ud800{{ 7 * 7 }}"
    place = Location(hostile, 1, hostile)
    events, collector = gathered()
    broken = ev.GraphBroken(place, hostile, f"`{hostile}`", hostile, (hostile,), (place,), (hostile,), hostile)
    compile_frame(events, place, 1.0, broken, ev.GraphCaptured(place, 1, 1, hostile))
    events.emit(ev.Recompiled(place, hostile, place, 1))
    compile_frame(events, place, 1.0, index=1)
    for event in (
        ev.FrameSkipped(place, hostile),
        ev.OperatorFellBack(place, hostile, hostile, 1, 1),
        ev.GradientsPlanned(place, 1, 1, (hostile,), hostile),
        ev.PassRun(place, hostile, hostile, 0.1),
    ):
        events.emit(event)
    tree = Tree(page(collector.report(hostile)))
    assert tree.tags["script"] == tree.tags["img"] == 0
    assert tree.text.count(hostile) >= 12


def test_a_long_program_is_cut() -> None:
    events, collector = gathered()
    for number in range(MOST_ENTRIES + 3):
        events.emit(ev.GraphBroken(F, "print", f"reason {number}", user_stack=(F,)))
    for index in range(MOST_VERSIONS + 5):
        compile_frame(events, F, 0.1, index=index)
    report = collector.report()
    assert (len(report.breaks), report.counts.breaks) == (MOST_ENTRIES, MOST_ENTRIES + 3)
    assert (len(report.frames[0].versions), report.frames[0].left_out) == (MOST_VERSIONS, 5)
    assert "3 further graph breaks" in page(report) and "5 later compilations are left out" in page(report)


def test_texts_are_cut() -> None:
    texts = Texts(most=4, in_all=6)
    assert texts.of("abcdef") == "abcd\n... 2 more characters"
    assert texts.of(lambda: "xyz") == "xy\n... 1 more characters"
    assert (texts.of(lambda: pytest.fail("is not made")), texts.left_out) == ("", 1)


def test_an_error_is_shown_and_goes_on(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="<wrong>"), onegraph.reporting(tmp_path / "a.html") as report:
        raise ValueError("<wrong>")
    assert report.written
    tree = Tree((tmp_path / "a.html").read_text())
    assert "ValueError: <wrong>" in tree.text and 'raise ValueError("<wrong>")' in tree.text


def test_a_folder_must_exist(tmp_path: Path) -> None:
    with pytest.raises(onegraph.InvalidArgument, match="a report is a file in a folder that exists"):
        onegraph.reporting(tmp_path / "none" / "a.html")


def test_what_fails_is_a_line_of_the_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(self: Collector, event: ev.Event) -> None:
        raise RuntimeError("of the report")

    monkeypatch.setattr(Collector, "note", fail)
    with caplog.at_level(logging.WARNING, "onegraph"), onegraph.reporting(tmp_path / "a.html") as report:
        assert onegraph.compile(lambda x: x + 1, backend="eager")(torch.ones(2)).tolist() == [2, 2]
        report.path = tmp_path / "gone" / "a.html"
    assert [record.getMessage().partition(" is not written")[0] for record in caplog.records] == [
        f"The report {tmp_path / 'a.html'} lacks what is compiled from here on: RuntimeError: of the report",
        f"The report {report.path}",
    ]


PROGRAM = """
import os, sys, torch, onegraph

@onegraph.compile(backend="eager")
def ours(x):
    print("in the middle")
    return x + 1

ours(torch.ones(2))
torch.compile(lambda x: x * 2, backend="eager")(torch.ones(2))
os.chdir("/")
if os.fork() == 0:
    sys.exit(0)
os.wait()
print(sys.argv[1:])
sys.exit(3)
"""


def test_the_command_runs_a_program(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(PROGRAM)
    done = subprocess.run(
        [sys.executable, "-m", "onegraph", "report", "-o", "told.html", "program.py", "-o", "x"],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(ROOT / "src")},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 3, done.stderr
    assert done.stdout == "in the middle\n['-o', 'x']\n"
    assert done.stderr == f"onegraph: the report is in {tmp_path / 'told.html'}\n"  # said by one process
    tree = Tree((tmp_path / "told.html").read_text())
    for said in ("program.py -o x", "call of print", "ours", "<lambda>", "The program exits: 3"):
        assert said in tree.text
