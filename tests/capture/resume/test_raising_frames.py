"""A frame that ends with an exception is compiled up to the instruction that raises it."""

from __future__ import annotations

import contextlib
import traceback
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

import onegraph
from onegraph.base import events as ev
from tests.capture.resume.test_breaks import Watch

LOG: list[Any] = []


class Failed(Exception):
    def __init__(self, message: str, value: torch.Tensor) -> None:
        super().__init__(message)
        self.value = value


@pytest.fixture(autouse=True)
def no_grad():
    onegraph.reset()
    with torch.no_grad():
        yield


def innermost(x, wrong):
    y = x * 3
    LOG.append("innermost")
    if wrong:
        raise Failed("bad", y)
    return y


def middle(x, wrong):
    return innermost(x + 1, wrong) * 2


def three_deep(x, wrong):
    y = x * 2 + 1
    x.add_(1)
    return middle(y, wrong)


def failed_assertion(x, wrong):
    y = x * 2
    try:
        if wrong:
            raise AssertionError(f"it is {wrong}")
    finally:
        LOG.append("finally")
        x.mul_(2)
    return y


def chained(x, wrong):
    y = x.sin()
    try:
        return {0: y}[wrong]
    except KeyError as error:
        raise ValueError(y.shape) from error


def in_a_context(x, wrong):
    y = x.cos()
    with torch.no_grad(), noted():
        return [y][wrong]


def raised_again(x, wrong):
    try:
        x.exp_()
        if wrong:
            raise KeyError(1)
    except KeyError:
        x.neg_()
        raise
    return x


def in_a_handler(x, wrong):
    y = x + 1
    try:
        LOG[wrong * 100]
    except IndexError:
        LOG.append(y)
        y.nothing()
    return y


def unbound(x, wrong):
    y = x + 1
    if not wrong:
        z = y
    return z


def deleted(x, wrong):
    y = x + 1
    if wrong:
        del x
    z = y * 2
    del x
    return z


def other(y, wrong):
    if not wrong:
        x = t0 = y
    return x + t0


def of_the_same_name(x, wrong):
    return other([x + 1, x][0], wrong), x


def in_native_code(x, wrong):
    y = x * 2
    return sorted([1, 2], key=lambda n: innermost(y, wrong).shape[0])


def of_a_generator(x, wrong):
    y = x * 2

    def items():
        yield y + 1
        if wrong:
            raise Failed("of a generator", y)

    return sum(items())


def swallowed_before(x, wrong):
    error = KeyError("first")
    with contextlib.suppress(KeyError):
        raise error
    y = x * 2
    if wrong:
        raise error
    return y


def an_own_type(x, wrong):
    class Local(Exception):
        pass

    y = x - 1
    if wrong:
        raise Local(y) from None
    return y


def with_a_generator_that_waits(x, wrong):
    def waits(t):
        try:
            while True:
                yield t
        finally:
            LOG.append("closed")

    y = x - 1
    waiting = waits(y)
    next(waiting)
    if wrong:
        waiting.throw(KeyError(1))
    waiting.close()
    return y


def exits(x, wrong):
    y = x - 1
    LOG.append(y)
    if wrong:
        raise SystemExit(3)
    return y


def after_a_break(x, wrong):
    y = x + 1
    onegraph.graph_break()
    z = y * 2
    x.copy_(z)
    if wrong:
        raise Failed("late", z)
    return z


@contextlib.contextmanager
def noted() -> Iterator[None]:
    LOG.append("in")
    try:
        yield
    finally:
        LOG.append("out")


def shown(error: BaseException | None) -> list[Any]:
    """The chain of an exception: types, texts, attributes, and lines of the program."""
    chain: list[Any] = []
    while error is not None:
        steps = [(step.name, step.lineno) for step in traceback.extract_tb(error.__traceback__)]
        chain.append((type(error).__name__, str(error), getattr(error, "value", None), steps))
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    return chain


def outcome(function: Callable[..., Any], wrong: int) -> str:
    LOG.clear()
    x = torch.arange(3.0)
    result: Any
    try:
        result = function(x, wrong)
    except BaseException as error:
        result = shown(error), list(LOG)
    return repr((result, x, LOG))


PROGRAMS = [
    three_deep, failed_assertion, chained, in_a_context, raised_again, in_a_handler, unbound, deleted, of_the_same_name,
    in_native_code,    of_a_generator, swallowed_before, an_own_type, exits, after_a_break, with_a_generator_that_waits,
]  # fmt: skip


@pytest.mark.parametrize("backend", ["eager", "native"])
@pytest.mark.parametrize("function", PROGRAMS, ids=lambda function: function.__name__)
def test_what_the_program_sees(function: Callable[..., Any], backend: str) -> None:
    expected = {wrong: outcome(function, wrong) for wrong in (0, 1)}
    compiled = onegraph.compile(function, backend=backend)
    for wrong in (1, 0, 1, 1, 0):
        assert outcome(compiled, wrong) == expected[wrong]


@pytest.mark.parametrize(
    "function",
    [three_deep, failed_assertion, chained, in_a_context, raised_again, in_a_handler, unbound, after_a_break],
)
def test_what_comes_before_is_one_graph(function: Callable[..., Any]) -> None:
    compiled = onegraph.compile(function, backend="eager")
    with Watch() as watch:
        outcome(compiled, 1)
        outcome(compiled, 1)
    assert not watch.of(ev.FrameSkipped)
    assert len(watch.graphs) == 1 + (function is after_a_break)


def test_without_operations_it_runs_as_it_was_written() -> None:
    def f(x):
        raise ValueError("at once")

    with Watch() as watch, pytest.raises(ValueError, match="at once"):
        onegraph.compile(f)(torch.ones(2))
    assert [event.reason for event in watch.of(ev.FrameSkipped)][0].startswith("it raises ValueError: at once")


def test_calls_that_do_not_raise_are_whole() -> None:
    compiled = onegraph.compile(three_deep, backend="eager")
    with Watch() as watch:
        for _ in range(3):
            outcome(compiled, 1)
            outcome(compiled, 0)
    assert len(watch.graphs) == 2
