"""Calls of NumPy's functions and methods on arrays: the other modules fill the table of those that are known."""

from __future__ import annotations

from types import MethodDescriptorType
from typing import Any

import numpy as np

from onegraph.torchlib.arrays import joining, linear, making, reductions, ufuncs, views  # noqa: F401  they fill the table
from onegraph.torchlib.arrays.array import ATTRIBUTES, FUNCTIONS, METHODS, Array
from onegraph.torchlib.arrays.elements import Unsupported

__all__ = ["ATTRIBUTES", "FUNCTIONS", "METHODS", "OF_NUMBERS", "Array", "Unsupported", "call"]


#: Those that give numbers for numbers.
OF_NUMBERS = {np.round, np.around, np.clip} | {
    function
    for function, meaning in FUNCTIONS.items()
    if meaning.__module__ in (ufuncs.__name__, reductions.__name__) and not isinstance(function, MethodDescriptorType)
}


def call(meaning: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """What the meaning of a function of NumPy gives for arrays.

    Raises:
        Unsupported: it is not known in terms of torch, or it would raise.
    """
    try:
        return meaning(*args, **kwargs)
    except Unsupported:
        raise
    except (RuntimeError, TypeError, ValueError, IndexError, OverflowError, ZeroDivisionError) as error:
        raise Unsupported(str(error)) from error
