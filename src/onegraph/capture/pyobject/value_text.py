"""Values in the text of a report, or of code: short, and without a line that the program would run or print much."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import torch

from onegraph.capture.pyobject.weakly_known import Named, referred

#: Python prints no number with more bits in decimal digits, if it is told so.
_PRINTED_BITS = 2000
_LONGEST = 80


def written_atom(value: Any) -> str:
    """The Python text of an atom; that of a large integer is hexadecimal, which has no limit."""
    return hex(value) if type(value) is int and value.bit_length() > _PRINTED_BITS else repr(value)


def short(value: object) -> str:
    """The value as a person would name it, in at most 80 characters.

    >>> short([1, torch.nn.Parameter(torch.ones(2, 3))])
    '[1, <Parameter of shape (2, 3)>]'
    """
    text = _text(value)
    return text if len(text) <= _LONGEST else text[: _LONGEST - 3] + "..."


def _text(value: object) -> str:
    value = referred(value)
    if isinstance(value, Named):
        return value.text
    if isinstance(value, ModuleType):
        return f"the module {value.__name__}"
    if isinstance(value, torch.Tensor):  # whose own text has its numbers, and takes long
        return f"<{type(value).__name__} of shape {tuple(value.shape)}>"
    if type(value) is list:
        return f"[{', '.join(map(_text, value[:_LONGEST]))}]"
    if type(value) is tuple:
        return f"({', '.join(map(_text, value[:_LONGEST]))}{',' if len(value) == 1 else ''})"
    name = getattr(value, "__qualname__", None)
    return name if isinstance(name, str) else written_atom(value)
