"""Sources: where a value that came from outside the traced frame can be found again.

A source is a path from a root of the frame (argument, free variable, globals, a constant object) to a value.
The same path is read by the guards (as register loads), by the residual code (as a Python expression) and by
people (as text). The set is closed: every consumer is one `match`.

    Source = Arg(index, name) | FreeCell(index, name) | Globals(dict, module) | Const(object, text)
           | Drawn(draw)
           | Attr(base, name) | Item(base, key) | DictOf(base) | CellOf(base) | TypeOf(base) | Through(base, function)
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import field
from types import FunctionType
from typing import Any, assert_never

from onegraph.base.dataclass import dataclass
from onegraph.capture.pyobject.native_members import Member, hidden_member
from onegraph.capture.pyobject.value_text import short
from onegraph.capture.pyobject.weakly_known import referred, weakly


@dataclass(frozen=True, slots=True)
class Arg:
    """An argument of the frame: slot `index` of its fast locals."""

    index: int
    name: str


@dataclass(frozen=True, slots=True)
class FreeCell:
    """The cell of the frame's free variable number `index`; `CellOf` it are the contents."""

    index: int
    name: str


@dataclass(frozen=True, slots=True)
class Globals:
    """The globals of a module, by identity of the dictionary."""

    identity: int
    module: str
    namespace: dict[str, Any] = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Const:
    """An object that the trace knows by identity: a class, a function or a module of a library, a key of a dict.

    The source outlives the trace, which keeps the object; one that the program may let go of is referred to weakly.
    """

    __match_args__ = ("identity", "text", "value")

    identity: int
    text: str
    held: Any = field(compare=False, repr=False)

    def __init__(self, identity: int, text: str, value: Any) -> None:
        object.__setattr__(self, "identity", identity)
        object.__setattr__(self, "text", text)
        object.__setattr__(self, "held", weakly(value))

    @property
    def value(self) -> Any:
        """The object; None when it has died."""
        return referred(self.held)


@dataclass(frozen=True, slots=True)
class Drawn:
    """What a random draw gives that the residual code makes, by its number. Nothing of it can be guarded."""

    draw: int


class Path:
    """What is read from a base. Its hash goes over all bases, and tables ask for it all the time: it is kept."""

    __slots__ = ("_hash",)
    base: Source
    _hash: int


def hashed_once(kind: Any) -> Any:
    """The class with a hash that is computed at most once for an instance."""
    compute: Callable[[Path], int] = kind.__hash__

    def __hash__(self: Path) -> int:
        try:
            return self._hash
        except AttributeError:
            object.__setattr__(self, "_hash", result := compute(self))
            return result

    kind.__hash__ = __hash__
    return kind


@hashed_once
@dataclass(frozen=True, slots=True)
class Attr(Path):
    base: Source
    name: str


@hashed_once
@dataclass(frozen=True, slots=True)
class Item(Path):
    """`base[key]` of an exact dict, list or tuple, read without calling user code; a key may be known weakly."""

    base: Source
    key: Any


@hashed_once
@dataclass(frozen=True, slots=True)
class DictOf(Path):
    """The instance dictionary of an object."""

    base: Source


@hashed_once
@dataclass(frozen=True, slots=True)
class CellOf(Path):
    """The contents of a cell object."""

    base: Source


@hashed_once
@dataclass(frozen=True, slots=True)
class TypeOf(Path):
    base: Source


@hashed_once
@dataclass(frozen=True, slots=True)
class Through(Path):
    """A pure native function of the base, such as the list behind a set or the dereferenced weak reference."""

    base: Source
    function: Callable[[Any], Any]


Source = Arg | FreeCell | Globals | Const | Drawn | Attr | Item | DictOf | CellOf | TypeOf | Through


@dataclass(frozen=True, slots=True)
class Seen:
    """What a trace has looked at without a guard, since it does not change in a process; it may be another in the next.

    `functions` are those whose code was followed, each with where it was found, if that is known. `values` are what
    libraries had at a place: atoms, and the classes of what is none. `unkept` says why they are not all that it depends
    on, if they are not; `order`: whether the program knows hashes, or the order of a set.
    """

    functions: tuple[tuple[FunctionType, Source | None], ...]
    values: tuple[tuple[Source, Any], ...]
    unkept: str
    order: bool


#: The base of what is read from the process itself.
NOWHERE = Const(id(None), "", None)


def base_of(source: Source) -> Source | None:
    """The source that this one is read from; None for a root."""
    return source.base if isinstance(source, Path) else None


def member_at(base: Source, cls: type, member: Member[Any]) -> Source:
    """Where an instance of a class, found at `base`, has a member: its attribute of that name, if nothing hides it."""
    return Through(base, hidden_member(member, cls)) if member.is_hidden(cls) else Attr(base, member.name)


def root_of(source: Source) -> Source:
    """The root of the path that a source is."""
    while isinstance(source, Path):
        source = source.base
    return source


def is_drawn(source: Source) -> bool:
    """Whether the value is drawn at random, or made of what is."""
    return isinstance(root_of(source), Drawn)


def placeholder_name(source: Source) -> str:
    """A readable identifier for a graph input: `self.h[0].weight` becomes `self_h_0_weight`."""
    text = describe(source)
    name = "".join(c if c.isalnum() else "_" for c in text).strip("_")
    while "__" in name:
        name = name.replace("__", "_")
    return name if name and not name[0].isdigit() else f"input_{name}"


def describe(source: Source) -> str:
    """The source as a person would write it.

    >>> describe(Item(DictOf(Arg(0, "self")), "weight"))
    'self.weight'
    """
    match source:
        case Arg(_, name) | FreeCell(_, name) | CellOf(FreeCell(_, name)):
            return name
        case Globals(_, module):
            return f"globals of {module}"
        case Const(_, text):
            return text
        case Drawn():
            return "random"
        case Attr(base, name):
            return f"{describe(base)}.{name}"
        case Item(Item(DictOf(base), ("_parameters" | "_buffers" | "_modules")), str(key)):
            return f"{describe(base)}.{key}" if key.isidentifier() else f"{describe(base)}[{key}]"
        case Item(DictOf(base), str(key)) if key.isidentifier():
            return f"{describe(base)}.{key}"
        case Item(Globals(_, _), str(key)):
            return key
        case Item(base, key):
            return f"{describe(base)}[{short(key)}]"
        case DictOf(base):
            return f"{describe(base)}.__dict__"
        case CellOf(base):
            return f"{describe(base)}.cell_contents"
        case TypeOf(base):
            return f"type({describe(base)})"
        case Through(base, function):
            return f"{getattr(function, '__name__', 'value')}({describe(base)})"
        case _:
            assert_never(source)


#: The variables of resume functions: what they are to the user.
_OF_RESUMING = re.compile(r"\b(stack|result|inner|call|handled|self)(\d*)_\d+\b")
_MEANINGS = {
    "stack": "<value {} of the expression>",
    "result": "<result {} of the break>",
    "inner": "<value {} behind the break>",
    "call": "<the place of the break>",
    "handled": "<handled exception {}>",
    "self": "self",
}


def written(source: Source) -> str:
    """The source as the user would write it."""
    return _OF_RESUMING.sub(lambda found: _MEANINGS[found[1]].format(found[2]), describe(source))
