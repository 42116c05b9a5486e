"""What a graph break says, and that errors of the program are eager's own."""

from __future__ import annotations

import threading
import traceback
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from import_graph import ROOT

import onegraph
from onegraph.base import events as ev
from tests.capture.breaks import messages
from tests.capture.resume.test_breaks import Watch

HERE = Path(__file__).parent


@pytest.mark.parametrize("name", messages.PROGRAMS)
def test_message(name: str, golden: Any) -> None:
    with pytest.raises(onegraph.GraphBreakError) as caught:
        messages.PROGRAMS[name](partial(onegraph.compile, fullgraph=True, backend="eager"))
    golden(HERE / "golden" / f"{name}.txt", str(caught.value).replace(f"{ROOT}/", "") + "\n")


LOCK = threading.Lock()


def locked(x):
    with LOCK:
        return x + 1


def test_the_values_are_those_that_the_instruction_looks_at() -> None:
    """Of every instruction, so also of `with`: its row says so."""
    with pytest.raises(onegraph.GraphBreakError, match=r"\n *Values: lock\n"):
        onegraph.compile(locked, fullgraph=True, backend="eager")(torch.ones(2))


class Mine(Exception):
    """An exception of the program."""


def shapes_differ(x, log):
    log.append("before")
    y = x + 1
    return torch.matmul(y, torch.ones(7, 7))


def too_far(x, log):
    log.append("before")
    return x[x.shape[0] + 1]


def called(x):
    raise Mine("message", x.shape)


def raises_deeper(x, log):
    log.append("before")
    return called(x + 1)


def wrong_argument(x, log):
    log.append("before")
    return torch.sin(x, 3)


def finds_nothing(x, log):
    try:
        log.append("before")
        return {}["key"]
    except KeyError as error:
        raise Mine(log) from error


def lines_of(error: BaseException) -> list[tuple[str, int | None]]:
    steps = traceback.extract_tb(error.__traceback__)
    return [(step.name, step.lineno) for step in steps if step.filename == __file__]


def outcome(function: Any) -> tuple[BaseException, list[tuple[str, int | None]], list[str]]:
    log: list[str] = []
    with pytest.raises(Exception) as caught:
        function(torch.ones(3, 3), log)
    return caught.value, lines_of(caught.value)[2:], log


def strictly(function: Any) -> Any:
    return onegraph.error_on_graph_break(True)(onegraph.compile(function))


MODES = {"default": onegraph.compile, "fullgraph": partial(onegraph.compile, fullgraph=True), "strict": strictly}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("function", [shapes_differ, too_far, raises_deeper, wrong_argument, finds_nothing])
def test_errors_of_the_program_are_its_own(function: Any, mode: str) -> None:
    expected, lines, log = outcome(function)
    compiled = MODES[mode](function)
    for _ in range(2):
        found, where, effects = outcome(compiled)
        assert type(found) is type(expected) and str(found) == str(expected)
        assert type(found.__cause__) is type(expected.__cause__)
        assert where == lines and effects == log


def test_tracebacks_behind_a_break_show_the_program(capsys: Any) -> None:
    def f(x):
        y = x + 1
        print("here")
        z = y * 2
        return z.view(7, 7)

    with pytest.raises(RuntimeError) as caught:
        onegraph.compile(f)(torch.ones(3, 3))
    last = traceback.extract_tb(caught.value.__traceback__)[-1]
    assert (last.name, last.line) == ("f", "return z.view(7, 7)")


def test_the_last_line_of_a_nested_failure_is_the_program_s() -> None:
    def inner(x):
        y = x.sin()
        return y.view(7, 7)

    def outer(x):
        return inner(x + 1) * 2

    with pytest.raises(RuntimeError) as caught:
        onegraph.compile(outer)(torch.ones(3, 3))
    last = traceback.extract_tb(caught.value.__traceback__)[-1]
    assert (last.name, last.line) == ("inner", "return y.view(7, 7)")


def test_the_cost_of_a_break_that_does_not_resume() -> None:
    def f(x):
        scale = 2
        y = x + 1
        return y * locals()["scale"]

    with Watch() as watch:
        onegraph.compile(f, backend="eager")(torch.ones(3))
    (broken,) = watch.of(ev.GraphBroken)
    assert broken.cost == "the whole call runs eagerly" and len(watch.of(ev.FrameSkipped)) == 1
