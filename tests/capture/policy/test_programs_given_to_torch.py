"""What the program's code reads and writes is seen also where a function of torch calls it."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.utils._pytree as pytree
from torch import Tensor, ones

import onegraph

factor: Any = 1.0
calls: list[int] = []


def scaled(x: Tensor) -> Tensor:
    calls.append(1)
    return x * factor


class Scaler:
    def scaled(self, x: Tensor) -> Tensor:
        return scaled(x)


region = torch.compiler.nested_compile_region(scaled)
wrapped = torch.overrides.wrap_torch_function(lambda x: (x,))(scaled)


@torch.compiler.nested_compile_region
def grows(x: Tensor) -> Tensor:
    global factor
    factor = factor + 1
    return x * factor


PROGRAMS: dict[str, Callable[[Tensor], Tensor]] = {
    "tree_map": lambda x: pytree.tree_map(scaled, [x])[0],
    "of_a_method": lambda x: pytree.tree_map(Scaler().scaled, {"a": x})["a"],
    "of_a_partial": lambda x: pytree.tree_map(functools.partial(scaled), (x,))[0],
    "of_some": lambda x: pytree.tree_map_only(torch.Tensor, scaled, [x])[0],
    "region": lambda x: region(x),
    "in_a_cell": lambda x: wrapped(x),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_what_it_reads_is_guarded_and_what_it_writes_is_done(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    compiled = onegraph.compile(PROGRAMS[name], fullgraph=True)
    for value in (1.0, 2.0, torch.tensor(3.0), 2.0):
        monkeypatch.setitem(globals(), "factor", value)
        calls.clear()
        assert compiled(ones(2)).tolist() == [float(value)] * 2
        assert len(calls) == 1


@pytest.mark.parametrize("start", [1.0, torch.ones(())])
def test_a_region_assigns_globals(start: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(globals(), "factor", start)
    compiled = onegraph.compile(lambda x: grows(x) + factor, fullgraph=True)
    for n in range(2, 5):
        assert compiled(ones(1)).tolist() == [2.0 * n]
        assert float(factor) == n
