"""Generators that are dropped where they wait in a `try` run its handlers, once, before the call is over."""

from __future__ import annotations

import collections.abc
import copy
import gc
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

import onegraph

LOG: list[Any] = []


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    onegraph.reset()
    yield
    onegraph.reset()


def waits(t: Any, name: str = "dropped") -> Iterator[Any]:
    try:
        while True:
            yield t
            t = t + 1
    finally:
        LOG.append(name)


def breaks(t: Any) -> Iterator[Any]:
    try:
        yield t
    finally:
        LOG.append("in")
        torch._dynamo.graph_break()
        LOG.append("out")


def raises(t: Any) -> Iterator[Any]:
    try:
        yield t
    finally:
        LOG.append("raises")
        raise ValueError


def delegates(t: Any) -> Iterator[Any]:
    yield from waits(t, "inner")


def holds(t: Any) -> Iterator[Any]:
    waiting = waits(t, "held")
    next(waiting)
    yield t


def at_the_end(x):
    generator = waits(x)
    return next(generator)


def of_a_call(x):
    y = at_the_end(x)
    LOG.append(1)
    return y


def bound_anew(x):
    generator = waits(x)
    y = next(generator)
    generator = None
    LOG.append(1)
    return y


def behind_a_break(x):
    generator = waits(x)
    y = next(generator)
    torch._dynamo.graph_break()
    LOG.append(1)
    return y


def bound_anew_behind_a_break(x):
    generator = waits(x)
    y = next(generator)
    torch._dynamo.graph_break()
    LOG.append(1)
    generator = None
    LOG.append(2)
    return y + 1


def deleted_between_breaks(x):
    generator = waits(x)
    y = next(generator)
    torch._dynamo.graph_break()
    del generator
    LOG.append(1)
    torch._dynamo.graph_break()
    LOG.append(2)
    return y


def inner(x):
    first, second = waits(x), waits(x, "second")
    y = next(first) + next(second)
    torch._dynamo.graph_break()
    LOG.append(1)
    return y


def in_calls_that_break(x):
    y = inner(x)
    LOG.append(2)
    y = inner(y)
    LOG.append(3)
    return y


def consume(generator):
    y = next(generator)
    generator = None
    LOG.append(1)
    return y


def handed_over(x):
    y = consume(waits(x))
    LOG.append(2)
    return y


def fails(x):
    generator = waits(x)
    next(generator)
    raise ValueError


def in_a_traceback(x):
    try:
        fails(x)
    except ValueError:
        LOG.append("handling")
    LOG.append("after")
    return x + 1


def in_a_traceback_behind_a_break(x):
    def run():
        generator = waits(x)
        next(generator)
        torch._dynamo.graph_break()
        raise ValueError

    try:
        run()
    except ValueError:
        LOG.append("handling")
    LOG.append("after")
    return x + 1


def on_a_stack_that_is_unwound(x):
    def run():
        for v in waits(x):
            raise ValueError(v)

    try:
        run()
    except ValueError as error:
        LOG.append("handling")
        return error.args[0]


class Swallows:
    def __enter__(self):
        return self

    def __exit__(self, kind, value, trace):
        return True


def around_an_error_that_is_swallowed(x):
    generator = waits(x)
    y = next(generator)
    torch._dynamo.graph_break()
    with Swallows():
        if [] > 1:
            LOG.append("not come to")
    second = waits(y)
    return next(second)


def items_of(t):
    t.sum().item()


def around_a_break_in_a_native_call(x):
    generator = waits(x)
    y = x.sum().item()
    y = next(generator) + y
    next(map(items_of, y), None)
    return y


def breaks_when_dropped(x):
    generator = breaks(x)
    y = next(generator)
    generator = 5
    LOG.append("then")
    return y + generator


def raises_when_dropped(x):
    generator = raises(x)
    y = next(generator)
    generator = None
    LOG.append("then")
    return y


def in_a_list(x):
    generators = [waits(x)]
    y = next(generators[0])
    generators.clear()
    LOG.append(1)
    return y


def in_a_list_behind_a_break(x):
    generators = [waits(x)]
    y = next(generators[0])
    torch._dynamo.graph_break()
    LOG.append(1)
    generators.clear()
    LOG.append(2)
    return y


def left_loop(x):
    for v in waits(x):
        if v.sum() > 3:
            break
    LOG.append(1)
    return v


def in_a_closure(x):
    generator = waits(x)
    y = next(generator)

    def get():
        return generator

    LOG.append(1)
    return y


def delegated(x):
    generator = delegates(x)
    y = next(generator)
    torch._dynamo.graph_break()
    LOG.append(1)
    return y


def held_by_a_generator(x):
    generator = holds(x)
    y = next(generator)
    LOG.append(1)
    generator = None
    LOG.append(2)
    torch._dynamo.graph_break()
    return y


PROGRAMS = [
    at_the_end, of_a_call, bound_anew, behind_a_break, bound_anew_behind_a_break, deleted_between_breaks,
    in_calls_that_break, handed_over, in_a_traceback, in_a_traceback_behind_a_break, on_a_stack_that_is_unwound,
    breaks_when_dropped, raises_when_dropped, in_a_list, in_a_list_behind_a_break, left_loop, in_a_closure, delegated,
    held_by_a_generator, around_an_error_that_is_swallowed, around_a_break_in_a_native_call,
]  # fmt: skip


def run(function: Callable[..., Any]) -> list[Any]:
    seen = []
    for _ in range(3):
        LOG.clear()
        result = function(torch.ones(2))
        seen.append((result.tolist(), sorted(map(repr, LOG))))
    return seen


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_what_is_dropped_runs_before_the_call_is_over(program: Callable[..., Any]) -> None:
    assert run(onegraph.compile(program, backend="eager")) == run(program)


@pytest.mark.parametrize(
    "program", [at_the_end, of_a_call, bound_anew, in_a_list, on_a_stack_that_is_unwound], ids=lambda p: p.__name__
)
def test_what_is_dropped_in_a_trace_is_traced(program: Callable[..., Any]) -> None:
    assert run(onegraph.compile(program, backend="eager", fullgraph=True)) == run(program)


class Breaking:
    def __deepcopy__(self, memo):
        torch._dynamo.graph_break()
        return Breaking()


def copied_around_a_break(x):
    shared = [x]
    copied = copy.deepcopy([shared, Breaking(), shared])
    return x + (1 if copied[0] is copied[2] else 2)


def test_what_copies_know_of_identities_outlives_no_trace() -> None:
    compiled = onegraph.compile(copied_around_a_break, backend="eager")
    for _ in range(2):
        assert compiled(torch.zeros(2)).tolist() == [1.0, 1.0]


class Numbers(collections.abc.Sequence[int]):
    """Its `__iter__` is that of `Sequence`, which waits in a `try` for an IndexError."""

    def __len__(self) -> int:
        return 3

    def __getitem__(self, index: int) -> int:
        return (1, 2, 3)[index]


def of_several_kinds(t: Any) -> Iterator[Any]:
    try:
        try:
            yield t
        except (KeyError, ValueError) as error:
            LOG.append(error)
        except TypeError:
            LOG.append("no")
    except OSError:
        LOG.append("never")


def test_handlers_that_do_not_see_the_end_do_not_matter() -> None:
    def f(x: torch.Tensor) -> torch.Tensor:
        kept = zip([1, 2], Numbers(), strict=False), of_several_kinds(x)
        total = x + sum(a * b for a, b in kept[0]) + next(kept[1])
        x.kept = kept  # type: ignore[attr-defined]
        return total

    def g(x: torch.Tensor) -> torch.Tensor:
        for a, b in zip([1, 2], Numbers(), strict=False):
            x = x + a * b
        return x + next(of_several_kinds(x))

    assert run(onegraph.compile(g, backend="eager", fullgraph=True)) == run(g)
    assert run(onegraph.compile(f, backend="eager")) == run(f)


def test_an_exception_of_native_code_keeps_nothing_of_its_trace() -> None:
    def f(x: torch.Tensor) -> None:
        talk = waits(x)
        next(talk)
        torch._dynamo.graph_break()
        try:
            int("none")
        except ValueError:
            {}["none"]
        finally:
            for _ in range(2):
                talk = None
            LOG.append("end")

    def once(function: Any) -> list[Any]:
        LOG.clear()
        with pytest.raises(KeyError):
            function(torch.ones(2))
        return list(LOG)

    gc.collect()
    gc.disable()
    try:
        assert sorted(once(onegraph.compile(f, backend="eager"))) == sorted(once(f)) == ["dropped", "end"]
    finally:
        gc.enable()
