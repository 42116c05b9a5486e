"""Weak references that the program makes and asks in compiled code."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

import pytest
import torch

import onegraph
from tests.capture.twins import logs_of

LOG: list[Any] = []


class Plain:
    def scaled(self, x: torch.Tensor) -> torch.Tensor:
        return x * 2


def gone(_: object) -> None:
    LOG.append("gone")


def unbound(x):
    thing = Plain()
    reference = weakref.ref(thing, gone)
    y = x + 1
    thing = None
    LOG.append(("unbound", reference() is None))
    return y


def deleted_between_breaks(x):
    thing = Plain()
    reference = weakref.ref(thing, gone)
    x.sum().item()
    LOG.append(reference() is thing)
    del thing
    LOG.append(reference() is None)
    x.sum().item()


def left_in_a_variable(x):
    thing = Plain()
    reference = weakref.ref(thing, gone)  # noqa: F841
    LOG.append("end")
    return x + 1


def left_in_a_function(x):
    def inner(x):
        thing = Plain()
        reference = weakref.ref(thing, gone)  # noqa: F841
        return x + 1

    x = inner(x)
    LOG.append("behind")
    x.sum().item()
    x = inner(x)
    LOG.append("end")
    return x


def bound_the_other_way_round(x):
    thing = Plain()
    reference = weakref.ref(thing, gone)
    thing, reference = reference, thing
    x.sum().item()
    LOG.append("end")
    return x + 1


def proxy(x):
    thing = Plain()
    reference = weakref.proxy(thing, gone)
    y = reference.scaled(x)
    LOG.append("used")
    y.sum().item()
    del thing
    LOG.append("end")
    return y


def in_weak_containers(x):
    things, names = weakref.WeakSet(), weakref.WeakKeyDictionary()
    thing = Plain()
    things.add(thing)
    names[thing] = 1
    LOG.append((len(things), len(names)))
    x.sum().item()
    LOG.append((len(things), len(names)))
    del thing
    LOG.append((len(things), len(names)))


def of_a_method(x):
    thing = Plain()
    reference = weakref.WeakMethod(thing.scaled)
    x.sum().item()
    y = reference()(x)
    del thing
    LOG.append(reference() is None)
    return y


def of_a_tensor(x):
    tensor = x + 1
    reference = weakref.ref(tensor)
    LOG.append(reference() is tensor)
    x.sum().item()
    LOG.append(reference() is tensor)
    del tensor
    LOG.append(reference() is None)


def in_the_default_of_a_function(x):
    thing = Plain()
    weakref.finalize(thing, LOG.append, "gone")
    functions = [lambda thing=thing: thing]
    del thing
    x.sum().item()
    functions = None  # noqa: F841
    LOG.append("end")


def watched(number):
    thing = Plain()
    weakref.finalize(thing, LOG.append, number).atexit = False
    return thing


def more_often_than_versions_are_made(x):
    for number in range(12):
        thing = watched(number)
        LOG.append("next")
    del thing


def a_proxy_of_what_is_gone(x):
    thing = Plain()
    held = [weakref.proxy(thing)]
    x.sum().item()
    thing = None
    x.sum().item()
    LOG.append(len(held))


PROGRAMS = (
    unbound,
    deleted_between_breaks,
    left_in_a_variable,
    left_in_a_function,
    bound_the_other_way_round,
    proxy,
    in_weak_containers,
    of_a_method,
    of_a_tensor,
    in_the_default_of_a_function,
    more_often_than_versions_are_made,
    a_proxy_of_what_is_gone,
)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_objects_die_and_are_called_for_as_in_eager_mode(program: Callable[..., Any], backend: str) -> None:
    compiled = onegraph.compile(program, backend=backend, options={"raise_compiler_errors": True})
    assert logs_of(compiled, LOG) == logs_of(program, LOG)
