"""What the atoms of index expressions consist of, for any type of expression. `index` says what they mean."""

from __future__ import annotations

from typing import Final, Generic, Protocol, TypeVar

OPERATIONS: dict[str, object] = {
    "//": lambda a, b: a // b,
    "%": lambda a, b: a % b,
    "min": min,
    "max": max,
}


class Expression(Protocol):
    """What atoms ask of an expression."""

    @property
    def is_factor(self) -> bool: ...


E = TypeVar("E", bound=Expression)


class Named(Generic[E]):
    """A named integer.

    An axis has an `extent` and takes the values 0 .. extent-1. A size has none and is not negative. A value that is
    read from memory is `signed`: nothing is known about it.
    """

    __slots__ = ("_hash", "extent", "name", "signed")

    def __init__(self, name: str, extent: E | None = None, signed: bool = False) -> None:
        self.name: Final = name
        self.extent: Final = extent
        self.signed: Final = signed
        self._hash = hash((name, signed))

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, Named):
            return NotImplemented
        return self.name == other.name and self.signed == other.signed and self.extent == other.extent

    def __str__(self) -> str:
        return self.name

    __repr__ = __str__

    @property
    def key(self) -> str:
        return self.name


class Pair(Generic[E]):
    """A pair of index expressions under one of the operations of `OPERATIONS`."""

    __slots__ = ("_hash", "a", "b", "bounds", "key", "op")

    #: The smallest and the largest value, once somebody asked (see `index.bounds`).
    bounds: tuple[E | None, E | None] | None

    def __init__(self, op: str, a: E, b: E) -> None:
        self.bounds = None
        self.op: Final = op
        self.a: Final = a
        self.b: Final = b
        self.key: Final = f"{op}({a}, {b})" if op in ("min", "max") else f"({a}) {op} ({b})"
        self._hash = hash((op, a, b))

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Pair):
            return NotImplemented
        return self._hash == other._hash and self.op == other.op and self.a == other.a and self.b == other.b

    def __str__(self) -> str:
        if self.op in ("min", "max"):
            return f"{self.op}({self.a}, {self.b})"
        left = str(self.a) if self.a.is_factor else f"({self.a})"
        right = str(self.b) if self.b.is_factor else f"({self.b})"
        return f"{left} {self.op} {right}"

    __repr__ = __str__
