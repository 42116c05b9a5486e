"""Keys of dicts and elements of sets over the shadow world: native code asks them for their hash, and compares them."""

from __future__ import annotations

from collections.abc import Callable
from types import CodeType
from typing import Any, TypeVar

import torch

from onegraph import _C
from onegraph.capture.breaks import TEXT_DECIDES, GraphBreak
from onegraph.capture.kinds import isinstance
from onegraph.capture.layout import compares_in_python
from onegraph.capture.shadows import ATOMS
from onegraph.capture.source import Source
from onegraph.capture.special_methods import is_stateful
from onegraph.capture.texts import is_marked

T = TypeVar("T")
BY_IDENTITY = (object.__hash__, torch.Tensor.__hash__)


class Keys:
    """The part of the world that looks for keys."""

    origin: dict[int, Source]
    guard: Callable[..., None]
    real: Callable[[Any], Any]
    realize_deep: Callable[..., Any]
    refuse_opaque: Callable[[Any], None]
    #: Runs native code that may call methods of the program's objects: they are traced.
    natively: Callable[..., Any]
    _library: Callable[[str], bool]

    def __init__(self) -> None:
        super().__init__()
        self._hashed: set[int] = set()
        #: The dicts and sets with one key that is a text of a tensor.
        self._with_texts: dict[int, Any] = {}

    def hashed(self, value: Any) -> None:
        """The program finds a value in a dict or a set: objects that are found by identity are guarded by it."""
        if type(value) in ATOMS or id(value) in self._hashed:
            return
        self._hashed.add(id(value))
        if isinstance(value, tuple | frozenset):
            for item in value:
                self.hashed(item)
            return
        if type(value).__hash__ not in BY_IDENTITY or is_stateful(type(value).__eq__):
            self.refuse_opaque(value)
        origin = self.origin.get(id(value))
        if origin is not None and type(value).__hash__ in BY_IDENTITY:
            self.guard(origin, "is", self.real(value))

    def added(self, key: Any, container: Any) -> None:
        """The program puts a key into a dict or a set. A text that is not known yet may be one that is there."""
        self.hashed(key)
        count = (dict if isinstance(container, dict) else set).__len__(container)
        if count and (is_marked(key) or id(container) in self._with_texts):
            raise GraphBreak(TEXT_DECIDES)
        if is_marked(key):
            self._with_texts[id(container)] = container

    def settled(self, key: Any) -> Any:
        """A key whose hash and equality native code may ask for."""
        self.hashed(key)
        if isinstance(key, tuple | frozenset):
            for item in key:
                self.settled(item)
        elif type(key) not in ATOMS and compares_in_python(type(key)):
            self.realize_deep(key)
        return key

    def find(self, operation: Any, container: Any, key: Any, *more: Any) -> Any:
        """A native operation on a dict or a set: what it asks the key is code of the program that is traced too."""
        direct = type(key) in ATOMS or not self.runs_code(key)
        return operation(container, key, *more) if direct else self.natively(operation, container, key, *more)

    def runs_code(self, key: Any) -> bool:
        """Whether a dict or a set that looks for this key runs code of the program."""
        if isinstance(key, tuple | frozenset):
            return any(map(self.runs_code, key))
        return compares_in_python(type(key)) and not self._library(type(key).__module__ or "")


class Compared(Exception):
    """A copy of a container would compare its members by code of the program."""


def refuse_comparison(function: Any, code: CodeType, values: Any) -> None:
    if code.co_name == "__eq__":
        raise Compared


def made_quietly(world: Keys, make: Callable[[], T], members: list[Any]) -> T | None:
    """A copy of a set or dict; None where members with one hash would be compared, for real, by the program."""
    if not any(map(world.runs_code, members)):
        return make()
    try:
        with _C.trace_hook(refuse_comparison):
            return make()
    except Compared:
        return None
