"""What a `threading.local` holds is read and written as the names of the thread that runs."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest
import torch

import onegraph

LOCAL = threading.local()


class Settings(threading.local):
    scale = 2

    def __init__(self) -> None:
        self.count = 0
        self.stack: list[int] = []

    @property
    def doubled(self) -> int:
        return self.count * 2

    @doubled.setter
    def doubled(self, value: int) -> None:
        self.count = value // 2

    def add(self, value: int) -> None:
        self.stack.append(value)


class Answering(threading.local):
    def __getattr__(self, name: str) -> Any:
        return len(name)


ANSWERING = Answering()


SETTINGS = Settings()


def read(x: torch.Tensor) -> Any:
    return x * getattr(LOCAL, "scale", 1) + (len(LOCAL.stack) if hasattr(LOCAL, "stack") else 0)


def counted(x: torch.Tensor) -> Any:
    try:
        LOCAL.count += 1
    except AttributeError as error:
        LOCAL.count = 1
        return x, str(error)
    return x + LOCAL.count, sorted(LOCAL.__dict__)


def stacked(x: torch.Tensor) -> Any:
    if not hasattr(LOCAL, "stack"):
        LOCAL.stack = []
    LOCAL.stack.append(x.shape[0])
    y = x * len(LOCAL.stack) + LOCAL.stack[-1]
    if len(LOCAL.stack) > 2:
        del LOCAL.stack
    return y


def holding_tensors(x: torch.Tensor) -> Any:
    before, LOCAL.last = getattr(LOCAL, "last", x), x * 2
    return before + x


def deleted(x: torch.Tensor) -> Any:
    LOCAL.gone = 1
    del LOCAL.gone
    try:
        del LOCAL.gone
    except AttributeError as error:
        return x + 1, str(error), error.name, LOCAL.__class__, type(LOCAL)


def broken(x: torch.Tensor) -> Any:
    LOCAL.count = getattr(LOCAL, "count", 0) + 1
    onegraph.graph_break()
    LOCAL.count *= 2
    return x + LOCAL.count


PROGRAMS: dict[Callable[[torch.Tensor], Any], bool] = {
    read: True,
    counted: True,
    stacked: True,
    holding_tensors: True,
    deleted: True,
    broken: False,
}


def run(function: Callable[[torch.Tensor], Any]) -> list[Any]:
    """Results of several calls in several threads, what the program changes in between, and what is left."""
    found: list[Any] = []

    def calls() -> None:
        for step in range(4):
            found.append(repr(function(torch.ones(2) + step)))
            if step == 1:
                LOCAL.scale = step + 4
                LOCAL.stack = [1]
            found.append(repr(LOCAL.__dict__))

    for _ in range(2):
        thread = threading.Thread(target=calls)
        thread.start()
        thread.join()
    calls()
    LOCAL.__dict__.clear()
    return found


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_each_thread_has_its_own(program: Callable[[torch.Tensor], Any]) -> None:
    onegraph.reset()
    compiled = onegraph.compile(program, fullgraph=PROGRAMS[program])
    assert run(compiled) == run(program)


def prepared(x: torch.Tensor) -> Any:
    SETTINGS.count += 1
    SETTINGS.add(x.shape[0])
    SETTINGS.doubled = SETTINGS.doubled + 2
    before, SETTINGS.scale = SETTINGS.scale, SETTINGS.scale + 1
    try:
        del SETTINGS.missing
    except AttributeError as error:
        message = str(error), getattr(SETTINGS, "missing", None), type(SETTINGS)
    return x * before + SETTINGS.count, len(SETTINGS.stack), message, sorted(SETTINGS.__dict__)


def test_a_class_may_prepare_each_thread() -> None:
    def found(function: Callable[[torch.Tensor], Any]) -> list[Any]:
        results: list[Any] = []

        def calls() -> None:
            results.extend(repr(function(torch.ones(2) * step)) for step in range(3))
            results.append(repr(SETTINGS.__dict__))

        for _ in range(2):
            thread = threading.Thread(target=calls)
            thread.start()
            thread.join()
        return results

    onegraph.reset()
    assert found(onegraph.compile(prepared, fullgraph=True)) == found(prepared)


def test_a_class_that_answers_for_itself_is_asked_by_the_program() -> None:
    def program(x: torch.Tensor) -> Any:
        return x * ANSWERING.four

    assert onegraph.compile(program)(torch.ones(1)).item() == 4
