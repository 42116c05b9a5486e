"""Signals wait while the callback of a region works, and a thread works on one frame at a time."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from types import FrameType

import pytest

from onegraph import _C
from tests.native.swap import marked, simple, twin


class Late(Exception):
    """Raised by a handler."""


SEEN: list[str] = []


@pytest.fixture(autouse=True)
def _handler() -> Iterator[None]:
    def handler(number: int, frame: FrameType | None) -> None:
        SEEN.append("handler")
        raise Late

    SEEN.clear()
    outer = signal.signal(signal.SIGUSR1, handler)
    yield
    signal.signal(signal.SIGUSR1, outer)


def interrupted() -> None:
    signal.raise_signal(signal.SIGUSR1)
    for _ in range(1000):
        SEEN[:] = SEEN
    SEEN.append("after")


def test_a_handler_runs_behind_the_callback_and_what_it_raises_is_the_frames() -> None:
    def callback(function, code, values):
        interrupted()
        return entry

    context = _C.Context(callback)
    entry = _C.Entry(marked.__code__, None, context)
    region = _C.Region(twin(simple), context)
    with pytest.raises(Late):
        region(1)
    assert SEEN == ["after", "handler"]
    with pytest.raises(Late):  # nothing was kept of the answer: who gives it keeps it
        region(1)
    entry = _C.Entry(marked.__code__, None, context)
    signal.signal(signal.SIGUSR1, lambda number, frame: None)
    assert region(1) == region(1) == ("swapped", 1, 2, 3)


def test_what_the_callback_raises_is_the_context_of_what_a_handler_raises() -> None:
    def callback(function, code, values):
        interrupted()
        raise KeyError("of the callback")

    region = _C.Region(twin(simple), _C.Context(callback))
    with pytest.raises(Late) as caught:
        region(1)
    assert isinstance(caught.value.__context__, KeyError)


def test_handlers_are_not_asked_about() -> None:
    asked = []

    def callback(function, code, values):
        asked.append(code.co_name)
        if code.co_name == "twin":
            signal.raise_signal(signal.SIGUSR1)

    signal.signal(signal.SIGUSR1, lambda number, frame: SEEN.append("handler"))
    assert _C.Region(twin(simple), _C.Context(callback))(1) == 6
    assert (asked, SEEN) == (["twin"], ["handler"])


def test_signals_wait_while_a_whole_graph_runs() -> None:
    def run(*args):
        interrupted()
        return args

    def failed(*args):
        raise AssertionError("the graph has not failed")

    with pytest.raises(Late):
        _C.Graph(run, failed, whole=True)(1)
    assert SEEN == ["after", "handler"]
    with pytest.raises(Late):
        _C.Graph(run, lambda *_: False)(1)
    assert SEEN == ["after", "handler", "handler"]


def test_working_is_said_once_and_signals_wait_meanwhile() -> None:
    assert _C.working(True) is False
    assert _C.working(True) is True
    interrupted()
    assert SEEN == ["after"]
    with pytest.raises(Late):
        _C.working(False)
    assert _C.working(False) is False


def test_other_threads_have_no_signals_to_wait_for() -> None:
    held, go = threading.Event(), threading.Event()

    def work() -> None:
        _C.working(True)
        held.set()
        go.wait()
        _C.working(False)

    thread = threading.Thread(target=work)
    thread.start()
    held.wait()
    with pytest.raises(Late):
        interrupted()
    go.set()
    thread.join()
