"""Graphs that fail on what their inputs hold: what comes before is done and handlers see the error, nothing twice."""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch

import onegraph
from onegraph.base import events as ev
from tests.capture.resume.test_breaks import Watch
from tests.capture.resume.test_resume import Guarded
from tests.capture.test_small_programs import tree_equal

LOG: list[Any] = []


class Counter:
    def __init__(self) -> None:
        self.count = 0

    def take(self, x: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
        self.count += 1
        return x[index] * self.count


COUNTER = Counter()


def plain(x, index):
    LOG.append("before")
    y = x[index]
    LOG.append("behind")
    return y


def handled(x, index):
    try:
        LOG.append("before")
        y = torch.gather(x, 0, index)
        LOG.append("behind")
    except (IndexError, RuntimeError) as error:
        LOG.append((type(error).__name__, error.__context__))
        y = x.sum()
    else:
        LOG.append("else")
    finally:
        LOG.append("finally")
    return y + 1


def in_context(x, index):
    with Guarded(LOG), contextlib.suppress(IndexError, RuntimeError):
        LOG.append("in")
        return x[index]
    return x


def in_no_grad(x, index):
    try:
        with torch.no_grad():
            y = x[index]
    except IndexError:
        y = x
    return y * 2, torch.is_grad_enabled()


def in_autocast(x, index):
    try:
        with torch.autocast("cpu", torch.bfloat16):
            y = (x.outer(x) @ x)[index]
    except IndexError:
        y = x.outer(x) @ x
    return y * 2, torch.is_autocast_enabled("cpu")


def with_closure(x, index, *rest, k=3, **named):
    calls = 0

    def count():
        nonlocal calls
        calls += 1
        return calls

    try:
        y = x[index] + count()
    except IndexError:
        y = x + count()
    return y, count(), rest, k, named


def with_object(x, index):
    COUNTER.count += 10
    return COUNTER.take(x, index)


def with_generator(x, index):
    def parts():
        try:
            yield x + 1
            yield x[index]
        finally:
            LOG.append("closed")

    out = []
    for part in parts():
        LOG.append("part")
        out.append(part)
    return out


def nested(x, index, depth=3):
    LOG.append(depth)
    if depth:
        try:
            return nested(x + 1, index, depth - 1)
        except IndexError:
            LOG.append(-depth)
            raise
    return x[index]


def behind_a_break(x, index):
    LOG.append("first")
    print("break")
    for turn in range(2):
        LOG.append(turn)
        try:
            x = x + x[index].sum()
        except IndexError:
            LOG.append("failed")
            print("break")
            x = x * 2
    return x


def random(x, index):
    noise = torch.rand(4)
    LOG.append("noise")
    try:
        return x[index] + noise
    except IndexError:
        return noise + torch.rand(4)


def writes_behind(x, index):
    LOG.append("before")
    y = x[index]
    x.add_(1)
    return y


PROGRAMS = [plain, handled, in_context, in_no_grad, in_autocast, with_closure, with_object, with_generator, nested]
PROGRAMS += [behind_a_break, random, writes_behind]


def seen(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """All that can be seen of a call."""
    LOG.clear()
    COUNTER.count = 0
    torch.manual_seed(1)
    args = copy.deepcopy(args)
    try:
        result = function(*args, **kwargs)
    except Exception as error:
        result = (type(error), str(error), error.__context__)
    state = torch.is_grad_enabled(), torch.is_autocast_enabled("cpu"), torch.rand(1)
    return result, args, list(LOG), COUNTER.count, state


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "native"])
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_as_eager(program: Callable[..., Any], backend: str) -> None:
    compiled = onegraph.compile(program, backend=backend)
    more = {"k": 5, "z": 6} if program is with_closure else {}
    x, fits, out_of_range = torch.arange(4.0), torch.tensor([1, 3, 0, 2]), torch.tensor([1, 7, 0, 2])
    with Watch() as watch:
        for index in (fits, out_of_range, out_of_range, fits):
            expected = seen(program, x, index, **more)
            assert tree_equal(seen(compiled, x, index, **more), expected)
    failed = watch.of(ev.GraphFailed)
    assert len(failed) >= 2 and all(event.resolved for event in failed)
    assert not watch.of(ev.FrameSkipped)


def writes_first(x, index):
    LOG.append("before")
    x.add_(1)
    return x[index]


def writes_through_data(x, index):
    LOG.append("before")
    x.data.add_(1)
    return x[index]


def normalizes(x, index):
    LOG.append("before")
    return NORM(x.reshape(4, 1))[index]


def accumulates(x, index):
    LOG.append("before")
    return x.index_add_(0, index, torch.ones(4))


NORM = torch.nn.BatchNorm1d(1)
WRITING = [writes_first, writes_through_data, normalizes, accumulates]


@pytest.mark.parametrize("program", WRITING, ids=lambda program: program.__name__)
def test_nothing_is_written_twice(program: Callable[..., Any]) -> None:
    """What the graph has written cannot be taken back: its error is raised without what the program did before."""
    compiled = onegraph.compile(program, backend="eager")
    x, fits, out_of_range = torch.arange(4.0), torch.tensor([1, 3, 0, 2]), torch.tensor([1, 7, 0, 2])
    statistics = copy.deepcopy(NORM.state_dict())
    for index in (fits, out_of_range):
        NORM.load_state_dict(statistics)
        expected, written = seen(program, x, index), copy.deepcopy(NORM.state_dict())
        NORM.load_state_dict(statistics)
        with Watch() as watch:
            found = seen(compiled, x, index)
        assert tree_equal(found[:2], expected[:2]) and tree_equal(NORM.state_dict(), written)
    assert [event.resolved for event in watch.of(ev.GraphFailed)] == [False]


def leaves_no_grad(x, index):
    with torch.no_grad():
        x.add_(1)
        print(end="")
        x.add_(1)
    x.mul_(2)
    return x[index]


def enters_no_grad(x, index):
    x.mul_(2)
    with torch.no_grad():
        return x[index]


@pytest.mark.parametrize("enabled", [True, False])
@pytest.mark.parametrize("program", [leaves_no_grad, enters_no_grad], ids=lambda program: program.__name__)
def test_an_error_that_goes_on_leaves_blocks(program: Callable[..., Any], enabled: bool) -> None:
    """Gradients are recorded as before, though the graph begins or fails in a block and has written to an input."""
    compiled = onegraph.compile(program, backend="eager")
    with torch.set_grad_enabled(enabled):
        for index in (torch.tensor([1, 3]), torch.tensor([1, 7])):
            expected = seen(program, torch.arange(4.0), index)
            with Watch() as watch:
                found = seen(compiled, torch.arange(4.0), index)
                torch._C._set_grad_enabled(enabled)
            assert tree_equal((found[0], found[1], found[4]), (expected[0], expected[1], expected[4]))
    assert [event.resolved for event in watch.of(ev.GraphFailed)] == [False]


def test_functions_of_the_program_run_once() -> None:
    @torch._dynamo.allow_in_graph
    def noted(x):
        LOG.append("noted")
        return x + 1

    def program(x, index):
        return noted(x)[index]

    compiled = onegraph.compile(program, backend="eager")
    x, out_of_range = torch.arange(4.0), torch.tensor([7])
    compiled(x, torch.tensor([1]))
    LOG.clear()
    with pytest.raises(IndexError):
        compiled(x, out_of_range)
    assert LOG == ["noted"]


def test_an_error_is_the_same_where_breaks_are_errors() -> None:
    compiled = onegraph.compile(handled, backend="eager", fullgraph=True)
    for index in (torch.tensor([1]), torch.tensor([7])):
        assert tree_equal(seen(compiled, torch.arange(4.0), index), seen(handled, torch.arange(4.0), index))
