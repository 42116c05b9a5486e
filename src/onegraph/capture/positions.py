"""Where an iterator goes on that is made again, or was moved while tracing."""

from __future__ import annotations

from typing import Any

#: Iterators over lists, which may be shorter than they were when the iterator came to its position.
OVER_LISTS = (type(iter([])), type(reversed([])))


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
