"""Iterators from outside that break the graph where they are used: what the program draws, it draws from the real ones."""

from __future__ import annotations

import copy
import itertools
import operator

import torch

from tests.capture.programs.whole.iterators import drawn_to_the_end, first_two
from tests.capture.twins import Cases

case = Cases()
KINDS = {
    "accumulate": lambda: itertools.accumulate([1, 2, 3, 4]),
    "accumulate_function": lambda: itertools.accumulate([1, 2, 3, 4], lambda a, b: a * b),
    "chain": lambda: itertools.chain([1, 2], (3,), range(2)),
    "chain_of": lambda: itertools.chain.from_iterable(iter([[1, 2], [3, 4], [5]])),
    "dropwhile": lambda: itertools.dropwhile(lambda n: n < 2, range(6)),
    "groupby": lambda: map(operator.itemgetter(0), itertools.groupby([1, 1, 2, 3, 3])),
    "takewhile": lambda: itertools.takewhile(lambda n: n < 5, range(9)),
}


def by_native_code(x, it):
    return x, next(it), list(itertools.islice(it, 1)), tuple(it)


def _programs() -> None:
    """Each of these functions with each kind of iterator."""
    for name, make in KINDS.items():
        for function in (first_two, drawn_to_the_end, by_native_code):
            case[f"{function.__name__}_{name}"] = type(case).entry(function, lambda make=make: (torch.rand(4), make()))


_programs()


def with_container():
    items = [1, 2, 3]
    return torch.rand(3), items, iter(items)


@case(with_container)
def over_a_list_that_grows(x, items, it):
    first = next(it)
    items.append(first + 6)
    return x, list(it), items, next(it, None)


@case(with_container)
def over_a_list_that_shrinks(x, items, it):
    first = next(it)
    items.pop()
    return x, first, list(it)


@case(lambda: (torch.rand(3), iter([1, 2, 3, 4, 5])))
def a_copy_goes_its_own_way(x, it):
    next(it)
    other = copy.copy(it)
    next(it)
    return x + next(other), it, other
