"""The text of a tensor is known when the graph has run. Until then a string that holds one holds a mark in its place.

    f"loss: {loss:.3f}"   --trace-->   "loss: <mark 0>"   --residual code-->   "".join(("loss: ", format(o2_, ".3f")))

Such a string may be joined, formatted, kept and returned; a program that decides by its contents breaks the graph.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import torch

from onegraph.base.dataclass import dataclass
from onegraph.capture.breaks import TENSOR_TO_NUMBER, TEXT_DECIDES, GraphBreak
from onegraph.capture.pyobject.contents import ATOMS, holds
from onegraph.torchlib.histories import version_of

MARK = re.compile("\ue000tensor:(\\d+)\ue001")


@dataclass(frozen=True, slots=True)
class Printed:
    """One place where a tensor is printed: by `str`, `repr` or `ascii`, or by `format` with a specification."""

    tensor: torch.Tensor
    kind: str
    spec: str
    version: int | None

    @property
    def is_current(self) -> bool:
        """Whether the tensor still has the contents that were to be printed."""
        return version_of(self.tensor) == self.version


class Texts:
    """The marks of one trace."""

    def __init__(self) -> None:
        self._printed: list[Printed] = []

    def __bool__(self) -> bool:
        return bool(self._printed)

    def mark(self, tensor: torch.Tensor, kind: str, spec: str = "") -> str:
        """What stands for the text of `tensor`."""
        self._printed.append(Printed(tensor, kind, spec, version_of(tensor)))
        return f"\ue000tensor:{len(self._printed) - 1}\ue001"

    def parts(self, text: str) -> Iterator[str | Printed]:
        """A marked string in pieces."""
        for index, piece in enumerate(MARK.split(text)):
            if index % 2:
                yield self._printed[int(piece)]
            elif piece:
                yield piece


def is_marked(value: Any) -> bool:
    """Whether the value is a string whose contents are not known yet."""
    return type(value) is str and "\ue000" in value and MARK.search(value) is not None


def holds_marked(value: Any) -> bool:
    """Whether the value is such a string, or tuples, lists and dicts in it hold one."""
    return holds(value, is_marked)


def refuse_marked(*values: Any) -> None:
    """Break the graph where the contents of a string decide what happens."""
    for value in values:
        if is_marked(value):
            raise GraphBreak(TEXT_DECIDES)


#: What is left of a mark that native code has cut, or written with escapes.
_PIECE = re.compile("[\ue000\ue001]|ue000tensor")


def refuse_pieces(text: str) -> None:
    """Break the graph where a string holds pieces of marks."""
    if _PIECE.search(text) and _PIECE.search(MARK.sub("", text)):
        raise GraphBreak(TEXT_DECIDES)


#: A place of `text % values`: its name, width, precision and kind.
_PLACE = re.compile(r"%(?:\((\w*)\))?[-#0 +]*(\*|\d+)?(\.\*|\.\d*)?[hlL]?([a-zA-Z%])")


def measures(template: str, values: Any) -> bool:
    """Whether `template % values` may pad, cut or quote what the program's own classes print.

    Breaks the graph where it does so with a text that is not known yet.
    """
    own = False
    given = iter(values if type(values) is tuple else (values,))
    for name, width, precision, kind in _PLACE.findall(template):
        if kind == "%":
            continue
        if "*" in (width, precision.lstrip(".")):
            next(given, None)
        value = values.get(name) if name and isinstance(values, dict) else next(given, None)
        measured = bool(width or precision) and kind in "sra"
        if is_marked(value) and (measured or kind in "ra") or isinstance(value, torch.Tensor) and measured:
            raise GraphBreak(TEXT_DECIDES)
        own = own or (measured or kind == "a") and type(value) not in ATOMS
    return own


class Shown:
    """A tensor among the arguments of a native function that prints."""

    __slots__ = ("_tensor", "_texts")

    def __init__(self, tensor: torch.Tensor, texts: Texts) -> None:
        self._tensor = tensor
        self._texts = texts

    def __str__(self) -> str:
        return self._texts.mark(self._tensor, "str")

    def __repr__(self) -> str:
        return self._texts.mark(self._tensor, "repr")

    def _number(self) -> Any:
        raise GraphBreak(TENSOR_TO_NUMBER, what="formatting")

    __int__ = __float__ = __index__ = _number


#: The types of what stands for tensors and numbers in a trace. (Schemas of operators name the type `SymInt` too.)
_STANDING = re.compile(r"(?<!a value of type ')\b(?:(FakeTensor)|Sym(Int|Float|Bool))\b")


def with_real_types(text: str) -> str:
    """A message, with the types that the program's values have."""
    return _STANDING.sub(lambda found: torch.Tensor.__name__ if found[1] else found[2].lower(), text)
