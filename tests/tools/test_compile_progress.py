"""What a terminal shows of compilations that take long, and that nothing else does."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
import threading
import time

import pytest
import torch  # noqa: F401  which the processes import that are started here
from import_graph import ROOT

from onegraph.base import events as ev
from onegraph.base.config import Config
from onegraph.base.events import Location
from onegraph.tools import compile_progress
from onegraph.tools.compile_progress import CompileProgress, doing

F, G = Location("/home/me/f.py", 3, "f"), Location("g.py", 7, "g")
PROGRAM = """
import sys, time, torch, onegraph
from onegraph.tools import compile_progress

compile_progress.DELAY = 0.2
out = sys.stdout

def slow(module, examples):
    time.sleep(0.8)
    assert sys.stdout is out
    print("compiled")
    return module.forward

@onegraph.compile(backend=slow)
def twice(x):
    return x * 2

print(twice(torch.ones(2)).tolist(), "rich" in sys.modules)
"""


def run(stderr: int, **environment: str) -> subprocess.Popen[str]:
    variables = os.environ | {"PYTHONPATH": str(ROOT / "src"), "TERM": "xterm"} | environment
    return subprocess.Popen(
        [sys.executable, "-c", PROGRAM], env=variables, stdout=subprocess.PIPE, stderr=stderr, text=True
    )


def read_all(terminal: int) -> str:
    found = b""
    while True:
        try:
            read = os.read(terminal, 4096)
        except OSError:  # its other end is closed
            read = b""
        if not read:
            os.close(terminal)
            return found.decode()
        found += read


def test_a_terminal_shows_what_is_compiled() -> None:
    ours, theirs = pty.openpty()
    process = run(theirs)
    os.close(theirs)
    shown = read_all(ours)
    assert process.communicate(timeout=120)[0] == "compiled\n[2.0, 2.0] True\n"
    assert "onegraph compiles twice: taking apart 1 operation" in shown
    assert shown.endswith("\x1b[2K")  # the line is gone


def test_where_nobody_looks_nothing_is_shown() -> None:
    process = run(subprocess.PIPE)
    assert process.communicate(timeout=120) == ("compiled\n[2.0, 2.0] False\n", "")


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compile_progress, "on_terminal", lambda: True)
    monkeypatch.setattr(compile_progress, "DELAY", 30.0)


def start(place: Location, index: int = 0, **options: object) -> ev.FrameStarted:
    return ev.FrameStarted(place, index, config=Config().replace(**options))


def test_the_first_of_several_threads_is_followed(terminal: None) -> None:
    progress = CompileProgress()
    progress.note(start(F, 1))
    other = threading.Thread(target=lambda: [progress.note(start(G)), progress.note(ev.FrameEnded(G))])
    other.start()
    other.join()
    progress.note(ev.FusionDone(F, 7))
    assert progress._text() == "onegraph compiles f (f.py:3), version 2: making code of 7 kernels"
    waits = progress._timer
    progress.note(ev.FrameEnded(F))
    assert waits is not None and waits.finished.is_set() and progress._timer is None


def test_short_compilations_in_a_row_are_waited_for_as_one(terminal: None, monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr(compile_progress, "monotonic", lambda: now)
    progress, waits = CompileProgress(), []
    for now in (100.0, 110.0, 130.0):
        progress.note(start(F))
        assert progress._timer is not None
        waits.append(progress._timer.interval)
        now += 9.9
        progress.note(ev.FrameEnded(F))
    assert waits == [30.0, 20.0, 30.0]


def test_it_can_be_switched_off(terminal: None) -> None:
    progress = CompileProgress()
    progress.note(start(F, progress=False))
    assert progress._timer is None


def test_a_forked_child_begins_anew(terminal: None) -> None:
    progress = CompileProgress()
    progress.note(start(F))
    child = os.fork()
    if not child:
        progress.note(ev.FrameEnded(F))
        progress.note(start(G))
        os._exit(0 if progress._text().startswith("onegraph compiles g") else 1)
    assert os.waitpid(child, 0)[1] == 0
    progress.note(ev.FrameEnded(F))


def test_it_costs_nothing_where_nothing_is_shown() -> None:
    progress, begun = CompileProgress(), time.thread_time()
    for _ in range(1000):
        for event in (start(F), ev.GraphCaptured(F), ev.FrameEnded(F)):
            progress.note(event)
    assert time.thread_time() - begun < 0.5  # of the 3000 events, most of it for making them
    assert progress._timer is None


def test_stages_follow_each_other() -> None:
    assert doing(start(F)) == "capturing"
    assert doing(ev.StageTimed(F, "compile: choose library calls")) == "lowering"
    assert doing(ev.StageTimed(F, "translate")) is None
