"""Native iterators: what they go over, where they are, and which of them can be made again."""

from __future__ import annotations

import gc
import itertools
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any

from onegraph.capture.pyobject.exact_types import isinstance

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
        lambda: next(itertools.groupby([0]))[1], lambda: iter(set()),
    )
}  # fmt: skip
EMPTY |= {kind: partial(over, {}) for kind, over in OVER_TABLES.items() if kind not in EMPTY}
SEQUENCES = (list, tuple, str, bytes, bytearray, range, deque)


def position(iterator: Any) -> tuple[Any, int, int]:
    """(sequence, index of the next item, step)"""
    _, args, *state = iterator.__reduce__()
    if type(iterator) in OVER_DEQUES:
        sequence, drawn = args
        return (sequence, drawn, 1) if type(iterator) is OVER_DEQUES[0] else (sequence, len(sequence) - 1 - drawn, -1)
    if type(iterator) in BACKWARD:
        return (args[0], state[0], -1) if state else ((), -1, -1)
    return args[0], (state[0] or 0) if state else 0, 1


def remaining(iterator: Any) -> tuple[Any, ...]:
    """What is left of an iterator over a dict or a set."""
    return tuple(iterator.__reduce__()[1][0])


def behind(iterator: Any) -> Any:
    """The container that an iterator is over; None at its end."""
    if type(iterator) in OVER_TABLES:
        return next((held for held in gc.get_referents(iterator) if isinstance(held, dict | set | frozenset)), None)
    return position(iterator)[0]


def left(iterator: Any) -> int:
    """How many items are left."""
    if type(iterator) in OVER_TABLES:
        return len(remaining(iterator))
    sequence, index, step = position(iterator)
    return max(0, length(sequence) - index if step > 0 else index + 1)


def base(sequence: Any) -> Any:
    return next(kind for kind in SEQUENCES if isinstance(sequence, kind))


def length(sequence: Any) -> int:
    """The length of a sequence of any class, as its iterators see it."""
    return int(base(sequence).__len__(sequence))
