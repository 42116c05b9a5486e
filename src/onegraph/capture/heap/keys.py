"""Keys of dicts and elements of sets over the shadow world: native code asks them for their hash, and compares them."""

from __future__ import annotations

import weakref
from collections import Counter
from collections.abc import Callable
from types import FunctionType, MethodType
from typing import Any, TypeVar

import torch

from onegraph.capture.breaks import TEXT_DECIDES, GraphBreak
from onegraph.capture.guards.source import Source
from onegraph.capture.heap.tensor_texts import is_marked, refuse_marked
from onegraph.capture.heap.type_rules import Record
from onegraph.capture.pyobject.contents import ATOMS, keys_of, members_of
from onegraph.capture.pyobject.exact_types import isinstance
from onegraph.capture.pyobject.layout import HEAP_TYPE, compares_in_python, filled_slots, instance_dict
from onegraph.capture.pyobject.special_methods import is_stateful
from onegraph.capture.pyobject.weakly_known import weakly

T = TypeVar("T")
BY_IDENTITY: tuple[object, ...] = (object.__hash__, torch.Tensor.__hash__)


class Unknowable(Exception):
    """There is no object of the world that is found as a key of the trace is."""


class Keys:
    """The part of the world that looks for keys."""

    origin: dict[int, Source]
    made_functions: dict[int, Any]
    made_classes: dict[int, Any]
    guard: Callable[..., None]
    real: Callable[[Any], Any]
    is_pinned: Callable[[Any], bool]
    realize_deep: Callable[..., Any]
    refuse_opaque: Callable[[Any], None]
    length_matters: Callable[[Any], None]
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
        for part in deciding(value):
            if type(part) in ATOMS or id(part) in self._hashed:
                continue
            self._hashed.add(id(part))
            if type(part).__hash__ not in BY_IDENTITY or is_stateful(type(part).__eq__):
                self.refuse_opaque(part)
            origin = self.origin.get(id(part))
            if origin is not None and type(part).__hash__ in BY_IDENTITY:
                self.guard(origin, "is", self.real(part))

    def note_order(self, value: Any) -> None:
        """The program comes to see the order of a set, or a hash: Python may give another one in the next process."""
        if not isinstance(value, set | frozenset) or any(type(member) is not int for member in members_of(value)):
            self.told_order = True

    def note_hashed(self, *containers: Any) -> None:
        """What native code has put into dicts and sets of the trace."""
        for container in containers:
            if isinstance(container, set | frozenset | dict) and id(container) not in self.origin:
                members = keys_of(container) if isinstance(container, dict) else members_of(container)
                if len(members) > 1:  # of texts that are not known yet, two may be one
                    refuse_marked(*members)
                for member in members:
                    self.hashed(member)

    def is_new(self, key: Any) -> bool:
        """Whether no container from outside can have the key: an object of the trace that equals nothing else."""
        return any(map(self._is_new, deciding(key)))

    def _is_new(self, part: Any) -> bool:
        if isinstance(part, type | FunctionType):
            return id(part) in self.made_classes or id(part) in self.made_functions
        kind = type(part)
        made = kind.__flags__ & HEAP_TYPE or kind is object  # what Python and torch have one of is nobody's
        return bool(made) and id(part) not in self.origin and kind.__hash__ in BY_IDENTITY

    def original(self, key: Any) -> Any:
        """The object by which containers from outside are asked for a key that is not in them.

        Raises:
            Unknowable: a key that is found by its value holds more than atoms, which may be others in another call.
        """
        kind = type(key)
        if kind in ATOMS or self.is_pinned(key):
            return key
        parts = parts_of(key)
        if parts is not None:
            found = tuple(map(self.original, parts))
            if all(a is b for a, b in zip(parts, found, strict=True)):
                return key
            if kind not in (*PARTS, tuple, frozenset):
                raise Unknowable
            return kind(*found) if kind in PARTS else kind(found)
        if kind.__hash__ in BY_IDENTITY:
            return self.real(key)
        if id(key) in self.origin or not all(type(value) in ATOMS for value in state_of(key)):
            raise Unknowable
        return key

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
        for part in deciding(key):
            if type(part) not in ATOMS and compares_in_python(type(part)):
                self.realize_deep(part)
        return key

    def guard_presence(self, entry: Record, key: Any) -> None:
        """Guard whether the original dict has the key, unless a guard on the whole dict already says so."""
        if not entry.guarded or entry.complete or key in entry.snapshot:
            return
        if self.runs_code(key):  # more of it than in eager mode, if it were asked again
            self.length_matters(entry.shadow)
        elif key in (entry.real if entry.keys is None else entry.keys):
            self.guard(entry.source, "has", weakly(entry.original_key(key)))
        elif not self.is_new(key):
            try:
                found = self.original(key)
                passes = self.is_pinned(found) or type(found).__hash__ in BY_IDENTITY  # else it is a value of the trace
                self.guard(entry.source, "lacks", weakly(found) if passes else found)
            except Unknowable:
                self.length_matters(entry.shadow)

    def find(self, operation: Callable[..., T], container: Any, key: Any, *more: Any) -> T:
        """A native operation on a dict or a set: what it asks the key is code of the program that is traced too."""
        direct = type(key) in ATOMS or not self.runs_code(key)
        return operation(container, key, *more) if direct else self.natively(operation, container, key, *more)

    def runs_code(self, key: Any) -> bool:
        """Whether a dict or a set that looks for this key runs code of the program."""
        kinds = map(type, deciding(key))
        return any(compares_in_python(kind) and not self._library(kind.__module__ or "") for kind in kinds)


#: Objects that are one key if their parts are, and how to get at these: each is made of them again.
PARTS: dict[type, Callable[[Any], tuple[Any, ...]]] = {
    weakref.ref: lambda reference: () if reference() is None else (reference(),),
    MethodType: lambda method: (method.__func__, method.__self__),
}


def parts_of(key: Any) -> tuple[Any, ...] | None:
    """The parts of a key, if two keys are one where their parts are; None for a key that decides itself."""
    if isinstance(key, tuple | frozenset):
        return tuple(members_of(key))
    return PARTS[type(key)](key) if type(key) in PARTS else None


def deciding(key: Any) -> tuple[Any, ...]:
    """What decides in place of a key whether two are one: itself, or parts of it at any depth."""
    parts = None if type(key) in ATOMS else parts_of(key)
    return (key,) if parts is None else tuple(each for part in parts for each in deciding(part))


def state_of(value: Any) -> list[Any]:
    """What an object holds in attributes and slots."""
    return [*(instance_dict(value) or {}).values(), *(held for _, held in filled_slots(value))]


def made_quietly(world: Keys, make: Callable[[], T], members: list[Any]) -> T | None:
    """A copy of a set or dict; None where members with one hash would be compared, for real, by the program."""
    own = list(map(world.runs_code, members))
    hashes = list(map(hash, members)) if any(own) else []
    counts = Counter(hashes)
    return make() if all(counts[number] == 1 for number, asks in zip(hashes, own, strict=False) if asks) else None
