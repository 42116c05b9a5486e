"""Native iterators by what they go over, and which of them can be made again."""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable
from typing import Any

#: Iterators over sequences, which tell where they stand.
FORWARD: tuple[type, ...] = tuple(
    map(type, map(iter, ([], (), "", "\N{SNOWMAN}", b"", bytearray(), range(0), range(1 << 64))))
)
BACKWARD: tuple[type, ...] = (type(reversed([])), reversed)
OVER_DEQUES: tuple[type, ...] = (type(iter(deque())), type(reversed(deque())))
#: Iterators over dicts, views of them and sets, which tell what is left -> what makes one over the same container.
OVER_TABLES: dict[type, Callable[[Any], Any]] = {
    type(over({})): over
    for over in (
        iter,
        lambda d: iter(d.values()),
        lambda d: iter(d.items()),
        reversed,
        lambda d: reversed(d.values()),
        lambda d: reversed(d.items()),
    )
} | {type(iter(set())): iter}
_OF_ITERTOOLS = tuple(kind for kind in vars(itertools).values() if isinstance(kind, type))
#: Iterators whose `__reduce__` says exactly what is left of them.
REDUCED: tuple[type, ...] = (
    *FORWARD,
    *BACKWARD,
    enumerate,
    zip,
    type(iter(int, 1)),
    *(kind for kind in _OF_ITERTOOLS if "__reduce__" in vars(kind)),
)
UNREDUCED: tuple[type, ...] = tuple(kind for kind in _OF_ITERTOOLS if kind not in REDUCED)
#: What has no item, by the type of its iterator.
EMPTY: dict[type, Callable[[], Any]] = {
    type(make()): make
    for make in (
        lambda: iter([]), lambda: iter(()), lambda: iter(""), lambda: iter("\N{SNOWMAN}"), lambda: iter(b""),
        lambda: iter(bytearray()), lambda: iter(int, 0), lambda: reversed([]),
        lambda: next(itertools.groupby([0]))[1],
    )
}  # fmt: skip
