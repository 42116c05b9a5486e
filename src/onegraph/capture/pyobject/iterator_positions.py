"""Native iterators that can be made again, and where one goes on that is, or that was moved while tracing."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

#: Native iterators whose `__reduce__` says exactly what is left of them.
ITERATORS: tuple[type, ...] = (
    type(iter([])), type(iter(())), type(iter(range(0))), type(iter(range(1 << 64))), type(iter("")), type(iter(b"")),
    type(iter(bytearray())), enumerate, zip, type(reversed([])), reversed, type(iter(int, 1)),
)  # fmt: skip
ITERATORS += tuple(kind for kind in vars(itertools).values() if isinstance(kind, type) and "__reduce__" in vars(kind))

#: What has no item, by the type of its iterator.
EMPTY: dict[type, Callable[[], Any]] = {
    type(make()): make
    for make in (
        lambda: iter([]), lambda: iter(()), lambda: iter(""), lambda: iter("\N{SNOWMAN}"), lambda: iter(b""),
        lambda: iter(bytearray()), lambda: iter(int, 0), lambda: reversed([]),
        lambda: next(itertools.groupby([0]))[1],
    )
}  # fmt: skip
#: Iterators over lists, which may be shorter than they were when the iterator came to its position.
OVER_LISTS: tuple[type, ...] = (type(iter([])), type(reversed([])))


def write_position(rebuild: Any, name: str, iterator: Any, position: Any) -> None:
    """Move the iterator in a variable, behind the writes: it does not go past what its list holds meanwhile."""
    text = rebuild.value(position)
    if type(iterator) in OVER_LISTS and position >= list.__len__(iterator.__reduce__()[1][0]):
        rebuild.late.append(f"{rebuild.const(move)}({name}, {text})")
    else:
        rebuild.late.append(f"{name}.__setstate__({text})")


def move(iterator: Any, position: int) -> None:
    """Move an iterator over a list, also behind the end of the list, where `__setstate__` does not let it."""
    over = iterator.__reduce__()[1][0]
    length = list.__len__(over)
    list.extend(over, [None] * (position + 1 - length))
    iterator.__setstate__(position)
    list.__delitem__(over, slice(length, None))
