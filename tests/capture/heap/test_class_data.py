"""Data of classes and modules may be written: the program sees what was written, and so does everybody at the end."""

from __future__ import annotations

import copy
import operator
import types
from collections.abc import Callable
from typing import Any

import pytest
import torch

import onegraph
from onegraph.base import events as ev
from tests.capture.resume.test_breaks import Watch

SETTINGS = types.ModuleType("settings_of_a_program")


class Flag:
    """As libraries have them: a block sets what the class says, for all of the program."""

    state: Any = None
    entered: list[int] = []

    def __init__(self, state: Any) -> None:
        self.before, self.now = self.current(), state

    @classmethod
    def current(cls) -> Any:
        return cls.state

    @classmethod
    def put(cls, state: Any) -> None:
        cls.state = state

    def __enter__(self) -> Flag:
        self.put(self.now)
        self.entered.append(1)
        return self

    def __exit__(self, *args: object) -> None:
        self.put(self.before)


class Loud(Flag):
    pass


class Answering(type):
    @property
    def level(cls) -> int:
        return cls._level

    @level.setter
    def level(cls, value: int) -> None:
        cls._level = value * 2


class Level(metaclass=Answering):
    _level = 1


class Slotted:
    __slots__ = ("value",)
    count = 0


def in_a_block(x):
    with Flag(True), Loud(3):
        y = x + 1 if Flag.state is True else x - 1
        y = y * Loud.state * Loud(0).before
    return y * (2 if Flag.state is None else 3), Flag.state, Loud.state


def counted(x):
    Slotted.count += 1
    Loud.state = Slotted.count
    return x * Slotted.count, Slotted().count, vars(Loud(1))


def kept(x):
    Flag.state, before = x * 2, Flag.state
    return x + (before if before is not None else 1)


def by_its_own_descriptor(x):
    Level.level = 4
    return x * Level.level


def passed_over(x):
    Flag.state = 2
    Loud.state = 5
    Flag.state = 3
    return x * Flag.state + Loud.state, super(Loud, Loud(0)).state


def asked_natively(x):
    Flag.state = 7
    return (
        x * operator.attrgetter("state")(Flag(1)),
        Flag.state,
        hasattr(Loud, "state"),
        copy.copy(Flag(2)).now,
    )


def in_modules(x):
    before, SETTINGS.scale = SETTINGS.scale, SETTINGS.scale + 1
    SETTINGS.last = x * before
    return SETTINGS.last + SETTINGS.scale


def raising(x):
    with Flag(1):
        y = x + 1
        Slotted.count = 4
        if x.shape[0] == 3:
            raise ValueError(Flag.state)
    return y


PROGRAMS = [in_a_block, counted, kept, passed_over, asked_natively, in_modules, raising]


def calls(function: Callable[[torch.Tensor], Any]) -> list[str]:
    """Results and what the classes are after each of several calls, and after what somebody else has written."""
    found = []
    for owner in (Flag, Loud, Slotted):
        owner.state = None
    del Loud.state
    Slotted.count, SETTINGS.scale, SETTINGS.last, Level._level = 0, 1, None, 1
    for step in range(4):
        try:
            found.append(repr(function(torch.ones(2) + step)))
        except ValueError as error:
            found.append(repr(error))
        found.append(
            repr((Flag.state, vars(Loud).get("state"), Slotted.count, SETTINGS.scale, SETTINGS.last, Level._level))
        )
        if step == 1:
            Slotted.count, Flag.state, SETTINGS.scale = 10, torch.ones(2), 5
    return found


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "native"])
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_written_data_is_seen(program: Callable[[torch.Tensor], Any], backend: str) -> None:
    onegraph.reset()
    with Watch() as watch:
        assert calls(onegraph.compile(program, backend=backend, fullgraph=True)) == calls(program)
    assert not watch.of(ev.GraphBroken)


def test_behind_a_break_they_are_what_was_written() -> None:
    def program(x: torch.Tensor) -> Any:
        with Flag(2):
            y = x * Flag.state
            onegraph.graph_break()
            y = y + Flag.state
        return y, Flag.state

    onegraph.reset()
    assert calls(onegraph.compile(program)) == calls(program)


def deleted(x):
    Loud.state = 1
    del Loud.state
    return x + 1


def replaced_method(x):
    Slotted.step = lambda self: 3
    return x * Slotted().step()


def names_asked(x):
    Flag.state = 4
    return x * vars(Flag)["state"]


def of_a_library(x):
    torch.nn.ReLU.__constants__ = ["inplace"]
    return x + 1


BROKEN = [by_its_own_descriptor, deleted, replaced_method, names_asked, of_a_library]


@pytest.mark.parametrize("program", BROKEN, ids=lambda program: program.__name__)
def test_what_native_code_looks_at_breaks(program: Callable[[torch.Tensor], Any]) -> None:
    onegraph.reset()
    with Watch() as watch:
        assert calls(onegraph.compile(program)) == calls(program)
    assert {event.code for event in watch.of(ev.GraphBroken)} == {"class-attribute-write"}
    if "step" in vars(Slotted):
        delattr(Slotted, "step")
