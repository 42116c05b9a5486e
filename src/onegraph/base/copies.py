"""How compiled functions are copied and pickled: as what they wrap. The C extension asks by the names here.

A function is itself, and found by its name. Of an object with a state the copy is wrapped by what has wrapped this one,
its `onegraph_maker`.
"""

from __future__ import annotations

import copy
import sys
from collections.abc import Callable
from typing import Any


def copied(wrapper: Any) -> Any:
    return remade(wrapper, copy.copy)


def deepcopied(wrapper: Any, memo: dict[int, Any]) -> Any:
    return remade(wrapper, lambda wrapped: copy.deepcopy(wrapped, memo))


def remade(wrapper: Any, how: Callable[[Any], Any]) -> Any:
    facts = vars(wrapper)
    if "onegraph_maker" not in facts or "__wrapped__" not in facts:
        return wrapper
    made = how(facts["__wrapped__"])
    return wrapper if made is facts["__wrapped__"] else facts["onegraph_maker"](made)


def reduced(wrapper: Any) -> Any:
    facts = vars(wrapper)
    if "onegraph_maker" not in facts or "__wrapped__" not in facts or is_found_by_name(wrapper):
        return wrapper.__qualname__
    return facts["onegraph_maker"], (facts["__wrapped__"],)


def is_found_by_name(wrapper: Any) -> bool:
    """Whether its module has it under its name."""
    try:
        found: Any = sys.modules[wrapper.__module__]
        for part in wrapper.__qualname__.split("."):
            found = getattr(found, part)
    except (AttributeError, KeyError):
        return False
    return found is wrapper
