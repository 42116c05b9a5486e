"""Views of dicts from outside, and such that outlive the trace: they show the dict behind them."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

import onegraph


class Holder:
    """An object that keeps views."""

    def __init__(self, kind: type) -> None:
        self.table = kind(a=1, b=2)
        self.names, self.numbers, self.pairs = self.table.keys(), self.table.values(), self.table.items()


def count(holder: Holder, x: Tensor) -> Any:
    return x * len(holder.names) + ("a" in holder.names) * 10


def add(holder: Holder, x: Tensor) -> Any:
    return x + sum(holder.numbers)


def draw(holder: Holder, x: Tensor) -> Any:
    for name, number in holder.pairs:
        x = x * number + len(name)
    return x


def write(holder: Holder, x: Tensor) -> Any:
    holder.table["c"] = 7
    return x + sum(holder.numbers), list(holder.names)


def keep(holder: Holder, x: Tensor) -> Any:
    made = {"x": x, "y": x * 2}
    return made.keys(), list(made.values()), OrderedDict(z=x).items()


@pytest.mark.parametrize("kind", [dict, OrderedDict])
@pytest.mark.parametrize("program", [count, add, draw, write, keep], ids=lambda program: program.__name__)
def test_views_show_their_dicts(program: Callable[[Holder, Tensor], Any], kind: type) -> None:
    compiled = onegraph.compile(program, backend="eager", fullgraph=True)
    ours, theirs = Holder(kind), Holder(kind)
    for number in range(3):
        assert str(compiled(ours, torch.ones(2))) == str(program(theirs, torch.ones(2)))
        assert list(ours.pairs) == list(theirs.pairs)
        for holder in (ours, theirs):
            holder.table[f"more{number}"] = number


def test_a_view_that_is_kept_shows_what_is_written_later() -> None:
    def program(x: Tensor) -> Any:
        made = {"x": x}
        return made, made.keys()

    made, names = onegraph.compile(program, backend="eager", fullgraph=True)(torch.ones(2))
    made["y"] = 1
    assert list(names) == ["x", "y"]
