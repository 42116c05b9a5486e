"""Weak references that the program makes and asks in compiled code, of objects that something holds."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

import pytest
import torch

import onegraph
from onegraph.base import events as ev
from tests.capture.resume.test_breaks import Watch
from tests.capture.twins import logs_of

LOG: list[Any] = []


class Plain:
    def scaled(self, x: torch.Tensor) -> torch.Tensor:
        return x * 2


HELD = Plain()
REFERENCE = weakref.ref(HELD)


def gone(_: object) -> None:
    LOG.append("gone")


def from_outside(x):
    LOG.append(REFERENCE() is HELD)
    return REFERENCE().scaled(x)


def of_a_class(x):
    reference = weakref.ref(Plain)
    try:
        LOG.append(reference() is Plain)
    except AttributeError:
        LOG.append("an error that the program has not made")
    return x + 1


def made_here(x):
    thing = Plain()
    reference = weakref.ref(thing)
    y = reference().scaled(x)
    LOG.append(reference() is thing)
    return y


def over_a_break(x):
    thing = Plain()
    reference = weakref.ref(thing)
    x.sum().item()
    LOG.append(reference() is thing)
    x.sum().item()
    return reference().scaled(x), thing.scaled(x)


def with_a_callback(x):
    thing = Plain()
    reference = weakref.ref(thing, lambda _: None)
    LOG.append(reference() is thing)
    return x + 1


def proxy(x):
    thing = Plain()
    reference = weakref.proxy(thing)
    y = reference.scaled(x)
    y.sum().item()
    return y + thing.scaled(x)


def in_weak_containers(x):
    things, names = weakref.WeakSet(), weakref.WeakKeyDictionary()
    thing = Plain()
    things.add(thing)
    names[thing] = 1
    LOG.append((len(things), len(names)))
    x.sum().item()
    LOG.append((thing in things, names[thing]))
    return thing.scaled(x)


def of_a_method(x):
    thing = Plain()
    reference = weakref.WeakMethod(thing.scaled)
    x.sum().item()
    y = reference()(x)
    return thing.scaled(y)


def of_a_tensor(x):
    tensor = x + 1
    reference = weakref.ref(tensor)
    LOG.append(reference() is tensor)
    x.sum().item()
    LOG.append(reference() is tensor)


def finalized(x):
    thing = Plain()
    end = weakref.finalize(thing, gone, None)
    LOG.append(end.alive)
    return thing.scaled(x)


PROGRAMS = (
    from_outside,
    of_a_class,
    made_here,
    over_a_break,
    with_a_callback,
    proxy,
    in_weak_containers,
    of_a_method,
    of_a_tensor,
    finalized,
)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_what_is_held_is_found_and_what_is_dropped_is_gone_behind_the_call(program: Callable[..., Any], backend: str):
    compiled = onegraph.compile(program, backend=backend, options={"raise_compiler_errors": True})
    assert logs_of(compiled, LOG) == logs_of(program, LOG)


@pytest.mark.parametrize("program", [from_outside, made_here])
def test_to_ask_a_weak_reference_breaks_nothing(program: Callable[..., Any]) -> None:
    onegraph.compile(program, backend="eager", fullgraph=True)(torch.ones(2))


def test_an_object_that_the_program_sees_dying_breaks_nothing() -> None:
    def f(x, things):
        thing = things.pop()
        x = thing.scaled(x)
        thing = None  # noqa: F841
        return x + 1

    ended: list[int] = []
    compiled = onegraph.compile(f, backend="eager")
    with Watch() as watch:
        for number in range(3):
            things = [Plain()]
            weakref.finalize(things[0], ended.append, number).atexit = False
            compiled(torch.ones(2), things)
            assert ended == [*range(number + 1)]
    assert watch.of(ev.GraphBroken) == []
