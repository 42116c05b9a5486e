"""What is known about the shadows: their contents at first, and whether the program has written to them."""

from __future__ import annotations

import operator
from collections import deque
from dataclasses import dataclass, field
from types import CellType
from typing import Any

from onegraph.capture.guards.source import Globals, Source
from onegraph.capture.pyobject.contents import UNFILLED, cell_value, keys_of, same_key


@dataclass(slots=True)
class Record:
    """What is known about one shadow container (a dict, list, set, cell, or the `__dict__` of an object)."""

    shadow: Any
    real: Any
    source: Source
    guarded: bool
    #: The contents that the shadow would have if the program had not written to it (filled slots only).
    snapshot: Any
    #: The keys that a dict had at first, if it is not that of an object: the key in the shadow -> the original key.
    keys: dict[Any, Any] | None = None
    #: The keys that `popitem` has taken out of a dict.
    popped: list[Any] = field(default_factory=list)
    complete: bool = False

    def original_key(self, key: Any) -> Any:
        return key if self.keys is None else self.keys.get(key, key)

    def original_keys(self) -> list[Any]:
        """The keys of a dict as the shadow had them at first."""
        return keys_of(self.real) if self.keys is None else list(self.keys)


@dataclass(slots=True)
class Namespace:
    """The globals of a module as the trace sees them: what was read, and what was written."""

    real: dict[str, Any]
    source: Globals
    guarded: bool
    read: dict[str, Any] = field(default_factory=dict)
    written: dict[str, Any] = field(default_factory=dict)
    #: What a library has under the names that the trace has looked up in it (DELETED: nothing), as far as it is code.
    bound: dict[str, Any] = field(default_factory=dict)


def differs(entry: Record) -> bool:
    """Whether the program wrote to the shadow."""
    shadow, snapshot = entry.shadow, entry.snapshot
    match shadow:
        case dict():
            after, before = keys_of(shadow), entry.original_keys()
            if len(after) != len(before) or not all(map(same_key, after, before)):
                return True
            return any(
                value is not UNFILLED and (key not in snapshot or snapshot[key] is not value)
                for key, value in dict.items(shadow)
            )
        case list():
            if list.__len__(shadow) != len(snapshot):
                return True
            return any(map(operator.is_not, list.__iter__(shadow), snapshot))
        case set():
            return set.__len__(shadow) != len(snapshot) or any(map(operator.is_not, set.__iter__(shadow), snapshot))
        case deque():  # of one that was not looked at, it holds what was appended
            items = list(deque.__iter__(shadow))
            same = len(items) == len(snapshot) and all(map(operator.is_, items, snapshot))
            return not same if entry.complete else bool(snapshot)
        case CellType():
            value = cell_value(shadow)
            return value is not UNFILLED and value is not snapshot[0]
        case _:
            return False
