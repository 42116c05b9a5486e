"""Native code that compares values from outside sees all that is in them."""

from __future__ import annotations

import bisect
import collections
import dataclasses
import heapq
import itertools
import operator
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
import torch

import onegraph


class Items(list[Any]):
    pass


@dataclasses.dataclass(order=True)
class Box:
    value: Any


class Pair(NamedTuple):
    first: Any
    second: Any


VALUES: dict[str, Callable[[], Any]] = {
    "list": lambda: [1, 2],
    "subclass": lambda: Items([1, 2]),
    "dict": lambda: {1: 2},
    "nested": lambda: [[1], [2]],
    "tuple": lambda: (1, [2]),
    "objects": lambda: [Box([1])],
}
PROGRAMS: list[Callable[[Any, Any], Any]] = [
    lambda a, b: ([b].count(a), (b,).count(a), [Box(a)].count(Box(b)), [Pair(a, 1)].count(Pair(b, 1))),
    lambda a, b: ([b, 1].index(a), (b,).index(a), collections.deque([a]).index(b)),
    lambda a, b: (a in [b], a in (b,), a in {1: b}.values(), a in collections.deque([b]), Box(a) in (Box(b),)),
    lambda a, b: ([b].__contains__(a), list.__contains__([b], a), operator.contains([a], b)),
    lambda a, b: ([a].__eq__([b]), [a].__ne__([b]), list.__eq__([a], [b]), a.__eq__(b), (a,).__eq__((b,))),
    lambda a, b: (operator.countOf([b], a), operator.indexOf([b], a), operator.eq(a, b)),
    lambda a, b: ({1: a} == {1: b}, [a] == [b], (1, a) == (1, b), collections.deque([a]) == collections.deque([b])),
    lambda a, b: (next(iter(lambda: a, b), "end"), [len(list(g)) for _, g in itertools.groupby([a, b])]),
    lambda a, b: [len(list(group)) for _, group in itertools.groupby([1, 2], key=lambda n: a if n == 1 else b)],
    lambda a, b: (bisect.bisect_left([a], b), heapq.nsmallest(1, [b, a])[0] is b, max([a, b]) is a, [a] < [b]),
]


@pytest.mark.parametrize("value", VALUES.values(), ids=VALUES)
@pytest.mark.parametrize("number", range(len(PROGRAMS)))
def test_compared_natively(number: int, value: Callable[[], Any]) -> None:
    program = PROGRAMS[number]

    def traced(x: torch.Tensor, a: Any, b: Any) -> Any:
        try:
            return x + 1, program(a, b)
        except (TypeError, ValueError) as error:
            return x + 1, type(error).__name__

    x = torch.ones(2)
    compiled = onegraph.compile(traced, backend="eager")
    assert repr(compiled(x, value(), value())) == repr(traced(x, value(), value()))
    other = value()
    other = (*other, 3) if isinstance(other, tuple) else {3: 4} if isinstance(other, dict) else type(other)([*other, 3])
    assert repr(compiled(x, value(), other)) == repr(traced(x, value(), other))
