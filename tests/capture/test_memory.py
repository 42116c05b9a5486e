"""What was compiled for a function is freed with the function. (Kernels stay: others may use them.)"""

from __future__ import annotations

import gc
import sys
import weakref
from collections.abc import Callable
from typing import Any

import pytest
import torch

import onegraph


def make(number: int) -> Callable[[torch.Tensor], torch.Tensor]:
    module = torch.nn.Linear(4, 4)

    def f(x: torch.Tensor) -> torch.Tensor:
        y = module(x) * number
        if y.sum() > 0:
            y = y + 1
        onegraph.graph_break()
        return y.sin()

    return f


def counted(kind: str) -> int:
    gc.collect()
    return sum(type(item).__name__ == kind for item in gc.get_objects())


@pytest.mark.parametrize("backend", ["eager", "native"])
def test_compiled_pieces_die_with_their_function(backend: str) -> None:
    kinds = ("Graph", "FakeTensor", "GraphModule", "Plan")
    x = torch.randn(2, 4)
    before = None
    with torch.no_grad():
        for number in range(4):
            function: Any = make(number)
            onegraph.compile(function, backend=backend)(x)
            gone = weakref.ref(function)
            del function
            gc.collect()
            assert gone() is None
            if number == 0:
                before = {kind: counted(kind) for kind in kinds}
    assert {kind: counted(kind) for kind in kinds} == before


def counts_by_variable(x: torch.Tensor) -> Any:
    def holding() -> None: ...

    held = holding.held = object()  # type: ignore[attr-defined]
    before = sys.getrefcount(held)
    y = x + 1
    onegraph.graph_break()
    return y, before, sys.getrefcount(held)


def counts_by_container(x: torch.Tensor) -> Any:
    held = [x + 1]
    other = {1: held}
    before = sys.getrefcount(held)
    other = {}
    onegraph.graph_break()
    return held, other, before, sys.getrefcount(held)


@pytest.mark.parametrize("function", [counts_by_variable, counts_by_container])
def test_variables_that_are_not_read_again_count_where_references_are_counted(function: Callable[..., Any]) -> None:
    x = torch.ones(2)
    assert repr(onegraph.compile(function, backend="eager")(x)) == repr(function(x))
