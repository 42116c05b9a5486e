"""What containers hold, read without running the program's code, and what stands for contents that are not there."""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable
from types import CellType
from typing import Any

from onegraph.capture.pyobject.exact_types import isinstance, plain


class Unfilled:
    """The content of a shadow's slot that nobody has read yet. It never reaches the user's program."""

    def __repr__(self) -> str:
        return "<unfilled>"


UNFILLED = Unfilled()


#: Types that are guarded by value and used as they are.
ATOMS = frozenset({type(None), bool, int, float, complex, str, bytes, type(Ellipsis), type(NotImplemented)})


DELETED = Unfilled()


def keys_of(container: dict[Any, Any]) -> list[Any]:
    """The keys of a dict of any class in their order, without running the program's code."""
    ordered = isinstance(container, OrderedDict)
    return list(OrderedDict.__iter__(container) if ordered else dict.__iter__(container))


def members_of(container: Any) -> list[Any]:
    """The members of a list, tuple, set or deque of any class in their order, without running the program's code."""
    if type(container) is list or type(container) is tuple:
        return list(container)
    kind = next(kind for kind in (list, tuple, set, frozenset, deque) if isinstance(container, kind))
    return list(kind.__iter__(container))


def holds(value: Any, wanted: Callable[[Any], bool]) -> bool:
    """Whether a value is `wanted`, or holds one in tuples, lists and dicts, at any depth."""
    match plain(value):
        case tuple() | list():
            items = members_of(value)
        case dict():
            items = [*keys_of(value), *dict.values(value)]
        case _:
            return wanted(value)
    return any(holds(item, wanted) for item in items)


def same_key(a: Any, b: Any) -> bool:
    """Whether two keys are one; equal strings are, which objects share as names of their attributes."""
    return a is b or (type(a) is str and type(b) is str and a == b)


def cell_value(cell: CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:
        return DELETED
