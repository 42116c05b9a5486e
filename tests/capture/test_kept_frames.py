"""Who holds on to a frame of the program, by a traceback, holds on to what runs in its place behind graph breaks."""

from __future__ import annotations

import contextlib
import gc
import weakref
from types import FrameType
from typing import Any

import pytest
import torch

import onegraph

KEPT: list[BaseException] = []


class Token:
    pass


def graph_break() -> None:
    torch._dynamo.graph_break()


@pytest.fixture(autouse=True)
def fresh():
    onegraph.reset()
    KEPT.clear()
    with torch.no_grad():
        yield
    KEPT.clear()


def caught(x):
    try:
        raise ValueError("kept")
    except ValueError as error:
        KEPT.append(error)
    return x + 1


def keeping(x, tokens):
    y = caught(x)
    graph_break()
    token = tokens.pop()
    graph_break()
    return y * 2, token is None


def in_flight(x, tokens):
    try:
        raise ValueError("in flight")
    finally:
        graph_break()
        token = tokens.pop()
        graph_break()
        x.add_(token is None)


def going_through(x, tokens):
    try:
        in_flight(x, tokens)
    except ValueError as error:
        KEPT.append(error)
    return x


def natively(x, tokens):
    try:
        KEPT[5]
    except IndexError as error:
        KEPT.append(error)
    graph_break()
    token = tokens.pop()
    graph_break()
    return x * 2, token is None


def keeps_its_own():
    try:
        raise IndexError(5)
    except IndexError as error:
        KEPT.append(error)


def around_one_that_keeps(x, tokens):
    keeps_its_own()
    graph_break()
    token = tokens.pop()
    graph_break()
    return x * 2, token is None


def called_around_one_that_keeps(x, tokens):
    return around_one_that_keeps(x, tokens)[0] + 1


def with_a_token(tokens):
    token = tokens.pop()
    try:
        raise KeyError
    except KeyError:
        graph_break()
    return list(token is None)


def leaving_it_behind(x, tokens):
    try:
        with_a_token(tokens)
    except TypeError as error:
        KEPT.append(error)
    graph_break()
    return x


def at_its_end(x, tokens):
    graph_break()
    token = tokens.pop()
    keeps_its_own()
    return x * 2, token is None


def lives_with_the_traceback(run: Any, settle: Any) -> None:
    for _ in range(3):
        token = Token()
        reference = weakref.ref(token)
        tokens = [token]
        del token
        run(torch.ones(2), tokens)
        settle()
        assert reference() is not None
        KEPT.clear()
        settle()
        assert reference() is None


@pytest.mark.parametrize(
    "function",
    [
        keeping,
        going_through,
        natively,
        around_one_that_keeps,
        called_around_one_that_keeps,
        leaving_it_behind,
        at_its_end,
    ],
)
@pytest.mark.parametrize("backend", [None, "eager", "native"])
def test_variables_live_as_long_as_the_traceback(function, backend):
    run: Any = function if backend is None else onegraph.compile(function, backend=backend)
    lives_with_the_traceback(run, lambda: None)


def in_a_cycle_with_its_exception():
    kept = None
    try:
        raise IndexError(5)
    except IndexError as error:
        kept = error
        graph_break()
    return kept is None


def in_flight_around_a_cycle(x, tokens):
    token = tokens.pop()
    try:
        raise ValueError("in flight")
    finally:
        in_a_cycle_with_its_exception()
        x.add_(token is None)


def catching(x, tokens):
    try:
        in_flight_around_a_cycle(x, tokens)
    except ValueError as error:
        KEPT.append(error)


@pytest.mark.parametrize("compiled", [False, True])
def test_a_frame_in_a_cycle_is_not_what_holds_the_frames_around_it(compiled):
    run: Any = onegraph.compile(catching, backend="eager") if compiled else catching
    lives_with_the_traceback(run, gc.collect)


@torch.compiler.disable
def taken_from(tokens):
    return tokens.pop()


def discarding(x, tokens):
    nothing = None
    taken_from(tokens)
    keeps_its_own()
    return x * 2, nothing


def test_what_is_in_no_variable_does_not_live_as_long_as_the_traceback():
    run = onegraph.compile(discarding, backend="eager")
    for token in (None, None, Token()):
        tokens = [token]
        run(torch.ones(2), tokens)
    reference = weakref.ref(token)
    del token
    assert reference() is None and KEPT
    KEPT.clear()


def caller(run, x):
    return run(x)


def test_frames_go_back_to_the_caller():
    caller(onegraph.compile(caught, backend="eager"), torch.ones(2))
    names, frame = [], KEPT[0].__traceback__.tb_frame
    while frame is not None:
        names.append(frame.f_code.co_name)
        frame = frame.f_back
    assert names[:3] == ["caught", "caller", "test_frames_go_back_to_the_caller"]


@torch.compiler.disable
def count_frames() -> int:
    return sum(type(each) is FrameType for each in gc.get_objects())


def loop(x, count):
    for i in range(count):
        if i == 1:
            caught(x)
        graph_break()
        x = x + 1
    return x, count_frames()


def test_a_loop_whose_frame_is_held_does_not_grow():
    compiled = onegraph.compile(loop, backend="eager")
    compiled(torch.ones(2), 4)
    KEPT.clear()
    _, few = compiled(torch.ones(2), 10)
    KEPT.clear()
    _, many = compiled(torch.ones(2), 300)
    assert many <= few + 3


class Watched:
    def __init__(self, log: list[str]) -> None:
        self.log = log

    def waiting(self) -> Any:
        try:
            while True:
                yield 1
        finally:
            self.log.append("dropped")


def one_break(log):
    try:
        raise KeyError
    finally:
        waits = Watched(log).waiting()
        next(waits)
        graph_break()


def two_breaks(log):
    waits = Watched(log).waiting()
    next(waits)
    try:
        raise KeyError
    finally:
        graph_break()
        graph_break()


def drawn_behind(log):
    try:
        raise KeyError
    finally:
        waits = Watched(log).waiting()
        graph_break()
        waits.send(None)


def beside_another(log):
    try:
        raise KeyError
    finally:
        first = Watched(log).waiting()
        graph_break()
        next(first)
        try:
            raise RuntimeError
        except RuntimeError:
            graph_break()
        second = Watched(log).waiting()
        next(second)
        graph_break()


def in_a_call(log):
    @contextlib.contextmanager
    def managed():
        yield

    def inner():
        with managed():
            graph_break()
        waits = Watched(log).waiting()
        next(waits)

    try:
        raise KeyError
    finally:
        inner()
        log.append("inner is over")


def called(inner):
    def outer(log):
        inner(log)

    return outer


def once(inner, x, log):
    try:
        inner(log)
    except KeyError:
        log.append("caught")
    log.append("end")
    return x + 1


def one_of_three_kept(inner, x, log):
    kept = None
    for i in range(3):
        try:
            inner(log)
        except KeyError as error:
            kept = kept or error
            log.append("caught")
        log.append(f"end {i}")
    graph_break()
    kept = None
    log.append("nothing is kept")
    return x + 1


@pytest.mark.parametrize("program", [once, one_of_three_kept])
@pytest.mark.parametrize("deep", [False, True])
@pytest.mark.parametrize("inner", [one_break, two_breaks, drawn_behind, beside_another, in_a_call])
def test_an_exception_in_flight_over_a_break_holds_what_its_frame_holds_until_it_is_dropped(inner, deep, program):
    inner = called(inner) if deep else inner
    wanted: list[str] = []
    program(inner, torch.ones(2), wanted)
    compiled = onegraph.compile(program, backend="eager")
    for _ in range(2):
        log: list[str] = []
        compiled(inner, torch.ones(2), log)
        assert log == wanted
