"""What the running version of Python says where it refuses something: asked of it, as the words differ."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any


def refusal(operation: Callable[..., Any], *args: Any) -> str:
    """The message of the error that an operation raises, or nothing."""
    try:
        operation(*args)
    except (AttributeError, TypeError, ValueError) as error:
        return str(error)
    return ""


def _unpack(values: list[int]) -> None:
    (_,) = values


#: Of `in`, with the name of the type that has no items.
NO_CONTAINER = refusal(operator.contains, 0, 0).replace("'int'", "'{}'")
#: Whether unpacking tells how many values there are, where a list, a tuple or a dict has too many.
COUNTS_VALUES = "2" in refusal(_unpack, [0, 0])
#: Of writing an attribute of an object without a dictionary, with the names of its type and of the attribute.
NO_ATTRIBUTE = refusal(setattr, iter(()), "name", 0).replace("'tuple_iterator'", "'{}'").replace("'name'", "'{}'")
