"""What is compiled, dropped and reset gives back all that was made."""

from __future__ import annotations

import gc
import importlib
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest
import torch

import onegraph
from onegraph.capture.resume import resume_function

X = torch.ones(3)
SOURCES = {
    "plain": "def f(x):\n    return (x + 1) * 2\n",
    "broken": "import onegraph\ndef f(x):\n    y = x + 1\n    onegraph.graph_break()\n    return y * 2\n",
}


def function(source: str, backend: str) -> None:
    namespace: dict[str, Any] = {}
    exec(source, namespace)
    onegraph.compile(namespace["f"], backend=backend)(X)


def module(backend: str) -> None:
    onegraph.compile(torch.nn.Linear(3, 3), backend=backend)(X)


def again(x: torch.Tensor) -> torch.Tensor:
    return x * 3


def recompilation(backend: str) -> None:
    compiled = onegraph.compile(again, backend=backend)
    for size in (3, 2):
        compiled(X[:size])


MAKERS: dict[str, Callable[[str], None]] = {
    "plain": lambda backend: function(SOURCES["plain"], backend),
    "broken": lambda backend: function(SOURCES["broken"], backend),
    "module": module,
    "recompilation": recompilation,
}


def objects() -> int:
    for _ in range(2):  # what is garbage now may be the last that holds what is forgotten next
        onegraph.reset()
        gc.collect()
    return len(gc.get_objects())


def least_growth(counts: list[int]) -> int:
    """How many objects the round that added least has added: a leak adds at each, a memo that fills does not."""
    return min(after - before for before, after in pairwise(counts))


@pytest.mark.parametrize("backend, count", [("eager", 100), ("native", 20)])
@pytest.mark.parametrize("name", MAKERS)
def test_nothing_is_kept_behind_a_reset(name: str, backend: str, count: int) -> None:
    counts = []
    for _ in range(4):
        for _ in range(count):
            MAKERS[name](backend)
        counts.append(objects())
    assert least_growth(counts) < count // 2, counts


def test_resume_functions_of_dropped_functions_are_forgotten() -> None:
    onegraph.reset()
    known = len(resume_function._made)
    for _ in range(30):
        MAKERS["broken"]("eager")
    onegraph.reset()
    gc.collect()
    onegraph.reset()
    assert len(resume_function._made) <= known


@pytest.mark.parametrize("name", MAKERS)
def test_what_is_dropped_is_forgotten_without_a_reset(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.import_module("onegraph.compile"), "_FORGET_EVERY", 16)

    def kept() -> int:
        gc.collect()
        return len(gc.get_objects())

    onegraph.reset()
    counts = []
    for _ in range(5):
        for _ in range(32):
            MAKERS[name]("eager")
        counts.append(kept())
    assert least_growth(counts) < 16, counts
