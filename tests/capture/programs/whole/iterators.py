"""Iterators that come from outside: what the program draws is drawn from the real ones."""

from __future__ import annotations

import collections
import itertools
import operator

import torch

from tests.capture.twins import Cases

case = Cases()
NUMBERS = iter(range(100))
COUNTER = itertools.count(5)
ITEMS = [1, 2, 3, 4, 5, 6, 7, 8]
OVER_ITEMS = iter(ITEMS)
TABLE = {"a": 1, "b": 2, "c": 3, "d": 4, "e": 5, "f": 6}
TENSORS = iter([torch.full((4,), float(i)) for i in range(9)])


class Holder:
    def __init__(self):
        self.rest = iter([1, 2, 3, 4, 5, 6, 7])


HOLDER = Holder()
KINDS = {
    "list": lambda: iter([1, 2, 3, 4, 5]),
    "reversed_list": lambda: reversed([1, 2, 3, 4, 5]),
    "tuple": lambda: iter((1, 2, 3, 4)),
    "reversed_tuple": lambda: reversed((1, 2, 3, 4)),
    "range": lambda: iter(range(1, 9)),
    "reversed_range": lambda: reversed(range(1, 9)),
    "long_range": lambda: iter(range(1 << 64, (1 << 64) + 4)),
    "bytes": lambda: iter(b"\1\2\3"),
    "bytearray": lambda: iter(bytearray(b"\1\2\3\4")),
    "dict": lambda: iter({1: "a", 2: "b", 3: "c", 4: "d"}),
    "values": lambda: iter({"a": 1, "b": 2, "c": 3}.values()),
    "reversed_dict": lambda: reversed({1: "a", 2: "b", 3: "c", 4: "d"}),
    "set": lambda: iter({1, 2, 3, 4}),
    "frozenset": lambda: iter(frozenset({1, 2, 3, 4})),
    "deque": lambda: iter(collections.deque([1, 2, 3, 4])),
    "reversed_deque": lambda: reversed(collections.deque([1, 2, 3, 4])),
    "map": lambda: map(lambda n: n + 1, [0, 1, 2, 3]),
    "map_of_two": lambda: map(operator.add, [0, 1, 2, 3], iter((1, 1, 1))),
    "filter": lambda: filter(lambda n: n % 2, range(9)),
    "filter_none": lambda: filter(None, [0, 1, 0, 2, 3]),
    "compress": lambda: itertools.compress([1, 2, 3, 4, 5], [1, 0, 1, 1, 1]),
    "count": lambda: itertools.islice(itertools.count(3, 2), 7),
    "cycle": lambda: itertools.islice(itertools.cycle([1, 2, 3]), 9),
    "filterfalse": lambda: itertools.filterfalse(lambda n: n == 2, range(6)),
    "islice": lambda: itertools.islice(range(20), 2, 15, 3),
    "repeat": lambda: itertools.repeat(3, 5),
    "starmap": lambda: itertools.starmap(max, [(1, 2), (3, 1), (2, 2), (4, 1)]),
}
PAIRS = {
    "items": lambda: iter({1: 2, 3: 4, 5: 6}.items()),
    "reversed_items": lambda: reversed({1: 2, 3: 4, 5: 6}.items()),
    "enumerate": lambda: enumerate([5, 6, 7, 8], 2),
    "zip": lambda: zip([1, 2, 3, 4], iter((4, 5, 6)), strict=False),
    "zip_strict": lambda: zip([1, 2, 3, 4], (5, 6, 7, 8), strict=True),
    "nested": lambda: enumerate(zip([1, 2, 3], range(5), strict=False)),
    "product": lambda: itertools.product([1, 2], [3, 4]),
    "permutations": lambda: itertools.permutations([1, 2, 3], 2),
    "combinations": lambda: itertools.combinations([1, 2, 3], 2),
    "with_replacement": lambda: itertools.combinations_with_replacement([1, 2, 3], 2),
    "zip_longest": lambda: itertools.zip_longest([1, 2, 3], [4], fillvalue=0),
}


def first_two(x, it):
    return x + next(it) * next(it), it


def drawn_to_the_end(x, it):
    for item in it:
        x = x + item
    return x, next(it, "end"), it


def left_in_the_middle(x, it):
    for item in it:
        if item == 2:
            break
    return x + item, it


def after_an_exception(x, it):
    try:
        for item in it:
            if item > 1:
                raise ValueError(item)
    except ValueError as error:
        return x + next(it, 0), str(error), it
    return x, it


def by_native_code(x, it):
    return x, next(it), list(itertools.islice(it, 1)), tuple(it)


def pairs(x, it):
    return x, next(it), dict(enumerate(it))


def _programs() -> None:
    """Each of these functions with each kind of iterator."""
    single = (first_two, drawn_to_the_end, left_in_the_middle, after_an_exception, by_native_code)
    for kinds, functions in ((KINDS, single), (PAIRS, (pairs, by_native_code))):
        for name, make in kinds.items():
            for function in functions:
                case[f"{function.__name__}_{name}"] = type(case).entry(
                    function, lambda make=make: (torch.rand(4), make())
                )


_programs()

if hasattr(itertools, "batched"):  # Python 3.12

    @case
    def in_batches(x):
        return [x * sum(batch) for batch in itertools.batched([1, 2, 3, 4, 5], 2)]


@case
def of_a_global(x):
    return x + next(NUMBERS) + sum(itertools.islice(NUMBERS, 2))


@case
def a_counter(x):
    return x * next(COUNTER), next(COUNTER)


@case
def of_an_attribute(x):
    return x + next(HOLDER.rest)


@case
def of_tensors(x):
    return x + next(TENSORS) * 2


def closed_over():
    rest = iter([1, 2, 3, 4, 5, 6, 7, 8])

    def inner(x):
        return x + next(rest)

    return inner


INNER = closed_over()


@case
def of_a_closure(x):
    return INNER(x)


@case(lambda: (torch.rand(3), iter([1, 2, 3, 4, 5])))
def two_names(x, it):
    same = it
    return x + next(it) - next(same), it is same, same


def one_twice():
    it = iter([1, 2, 3, 4, 5])
    return torch.rand(3), it, it


@case(one_twice)
def one_argument_twice(x, a, b):
    return x + next(a) * 10 + next(b), a is b


@case(lambda: (torch.rand(3), iter([1, 2, 3]), iter([1, 2, 3])))
def two_arguments(x, a, b):
    return x + next(a) * 10 + next(b), a is b


def shared():
    it = iter(range(10))
    return torch.rand(3), it, enumerate(it), zip(it, it, strict=False)


@case(shared)
def drawn_through_others(x, it, numbered, zipped):
    return x + next(it), next(numbered), next(zipped), next(it), next(numbered), list(itertools.islice(zipped, 1))


def with_container():
    items = [1, 2, 3]
    return torch.rand(3), items, iter(items)


@case(with_container)
def over_a_list_that_changes_later(x, items, it):
    result = [*it]
    items[0] = x
    items.append(4)
    return result, next(it, None)


@case
def over_a_global_list(x):
    item = next(OVER_ITEMS, 0)
    ITEMS.append(item)
    return x + item


def with_table():
    table = {"a": 1, "b": 2}
    return torch.rand(3), table, iter(table.items())


@case(with_table)
def over_a_dict_that_changes_later(x, table, it):
    name, number = next(it)
    table[name] = number + x
    return x


@case(lambda: (torch.rand(3), iter([1, 2, 3, 4, 5])))
def looked_at(x, it):
    return (
        x,
        type(it).__name__,
        isinstance(it, collections.abc.Iterator),
        isinstance(it, map | type(iter([]))),
        hasattr(it, "__len__"),
        getattr(it, "missing", 1),
        operator.length_hint(it),
        it.__next__(),
        next(iter(it)),
        it.__length_hint__(),
        callable(it),
    )


@case(lambda: (torch.rand(3), iter([1, 2, 3, 4, 5])))
def wrapped(x, it):
    next(it)
    return enumerate(it, 3), zip(it, x, strict=False), map(str, it)


@case(lambda: (torch.rand(3), iter([1, 2, 3, 4, 5])))
def over_over(x, it):
    y = [a * b for a, b in zip(it, it, strict=False)]
    return x, y, 2 in it


@case(lambda: (torch.rand(3), iter([1, 2, 3, 4, 5])))
def unpacked(x, it):
    a, *b = itertools.islice(it, 3)
    c, d = it
    return x + a, b, c, d


@case(lambda: (torch.rand(3), iter([3, 1, 2])))
def folded(x, it):
    return x, max(it), sum(it), any(it), sorted(it)


@case(lambda: (torch.rand(3), iter([3, 1, 2])))
def handed_on_by_a_generator(x, it):
    def inner():
        yield from it
        yield 5

    made = inner()
    return x + next(made), list(made)


@case(lambda: (torch.rand(3), iter([3, 1, 2])))
def refused(x, it):
    try:
        it.name = 1
    except AttributeError as error:
        return x, str(error), next(it)


CALLED = []


def noted(n):
    CALLED.append(n)
    return n


@case(lambda: (torch.rand(3), zip(map(noted, [1, 2, 3, 4]), (5, 6, 7, 8), strict=True)))
def functions_are_called_once(x, it):
    return x + next(it)[0], len(CALLED)
