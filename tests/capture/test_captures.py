"""What is captured of a frame is one value, and reads as text: the graph, the guards, the code around it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import torch
from import_graph import ROOT

from onegraph.base.context import Context
from onegraph.base.events import Location
from onegraph.capture.capture_frame import capture
from onegraph.capture.captured import Capture, FrameStart
from onegraph.capture.symbolic.shape_policy import History
from tests.test_architecture import ROOMS

FOLDER = Path(__file__).with_name("captures")


class Counter:
    def __init__(self) -> None:
        self.calls = 0


def plain(x):
    return x * 2 + 1


def with_effects(x, counter):
    counter.calls += 1
    x.add_(1)
    return {"sum": x.sum(), "calls": counter.calls}


def with_a_break(x, flag):
    y = x * 2
    print("half way")
    return y + 1 if flag else y


def with_a_decision(x):
    if x.sum() > 0:
        return x + 1
    return x - 1


def without_operations(x, n):
    return x, n + 1


def captured(function: Any, *args: Any) -> Capture:
    frame = Location("program.py", 1, function.__name__)
    cx = Context(frame=frame)
    found = capture(FrameStart(function, function.__code__, args), cx, False, History().policy(None))
    assert isinstance(found, Capture)
    return found


X = torch.ones(3)
CALLS = {
    "plain": (plain, X),
    "with_effects": (with_effects, X, Counter()),
    "with_a_break": (with_a_break, X, True),
    "with_a_decision": (with_a_decision, X),
    "without_operations": (without_operations, X, 2),
}


@pytest.mark.parametrize("name", CALLS)
def test_capture(name: str, golden: Any) -> None:
    golden(FOLDER / f"{name}.txt", f"{captured(*CALLS[name])}\n")


def test_a_capture_changes_nothing() -> None:
    """Not even the tensors that the program writes to: its effects are those of the replacement."""
    counter, x = Counter(), torch.ones(3)
    captured(with_effects, x, counter)
    assert counter.calls == 0 and bool((x == 1).all())


def test_the_walk_through_the_rooms() -> None:
    """docs/one_function.md names each room of capture once, in order, and shows what comes out."""
    walk = (ROOT / "docs" / "one_function.md").read_text().partition("## Appendix")[2]
    assert tuple(re.findall(r"^\d+\. \*(\w+)/\*", walk, re.MULTILINE)) == ROOMS
    assert f"```text\n{captured(*CALLS['plain'])}\n```" in walk
