"""`onegraph.Dim`: the size of a dimension of an exported program, by name, and what it may be.

batch = onegraph.Dim("batch", min=2, max=64)
onegraph.export(model, (x,), dynamic_shapes={"x": {0: batch, 1: 2 * batch}})
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar

from onegraph.base.errors import InvalidArgument


@dataclass(frozen=True, slots=True)
class DimHint:
    """What is said of a size without a name: `Dim.AUTO`, `Dim.DYNAMIC` or `Dim.STATIC`."""

    kind: str

    def __repr__(self) -> str:
        return f"Dim.{self.kind}"


@dataclass(frozen=True)
class Dim:
    """A size that may be another one in each call. Where a name stands twice, the sizes are equal.

    Args:
        name: an identifier.
        min, max: the least and the greatest size. Where `min` is not given, a program may need it to be 1 or 2.

    Raises:
        InvalidArgument: for a name that is none, and bounds that leave no choice.
    """

    AUTO: ClassVar[DimHint] = DimHint("AUTO")
    DYNAMIC: ClassVar[DimHint] = DimHint("DYNAMIC")
    STATIC: ClassVar[DimHint] = DimHint("STATIC")

    name: str
    min: int | None = field(default=None, kw_only=True)
    max: int | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name.isidentifier():
            raise InvalidArgument(f"Dim expects an identifier as its name, got {self.name!r}")
        for bound in (self.min, self.max):
            if bound is not None and (type(bound) is not int or bound < 0):
                raise InvalidArgument(f"Dim expects bounds of 0 or more, got {bound!r}")
        if self.max is not None and (self.min or 0) >= self.max:
            raise InvalidArgument(f"Dim('{self.name}') leaves no choice: min={self.min}, max={self.max}")

    def __add__(self, other: int) -> Derived:
        return Derived(self, 1, other)

    __radd__ = __add__

    def __sub__(self, other: int) -> Derived:
        return Derived(self, 1, -other)

    def __mul__(self, other: int) -> Derived:
        return Derived(self, other, 0)

    __rmul__ = __mul__


@dataclass(frozen=True, slots=True)
class Derived:
    """`factor * root + offset`"""

    root: Dim
    factor: int
    offset: int

    def __add__(self, other: int) -> Derived:
        return Derived(self.root, self.factor, self.offset + other)

    __radd__ = __add__

    def __sub__(self, other: int) -> Derived:
        return self + -other

    def of(self, size: int) -> int:
        return self.factor * size + self.offset

    def text(self, root: str) -> str:
        """As an expression over what is written for the root."""
        product = root if self.factor == 1 else f"{self.factor} * {root}"
        return product if not self.offset else f"{product} {'-' if self.offset < 0 else '+'} {abs(self.offset)}"


def dim_of(given: Any) -> Dim | Derived | DimHint | int | None:
    """What was said of a size, by torch's classes or by ours: theirs are known by what they have.

    Raises:
        InvalidArgument: for what says nothing of a size.
    """
    if given is None or isinstance(given, Dim | Derived | DimHint) or type(given) is int:
        return given
    kind = getattr(getattr(given, "type", None), "name", None)
    if kind in ("AUTO", "DYNAMIC", "STATIC"):
        return DimHint(kind)
    root, function = getattr(given, "root", None), getattr(given, "fn", None)
    if root is not None and callable(function):
        return _derived(dim_of(root), function, given)
    name = getattr(given, "__name__", None)
    if isinstance(name, str) and hasattr(given, "min") and hasattr(given, "max"):
        low, high = given.min, given.max
        return Dim(name, min=low if type(low) is int and low > 0 else None, max=high if type(high) is int else None)
    raise InvalidArgument(f"a size is described by a Dim, an integer or None, got {given!r}")


def _derived(root: Any, function: Callable[[int], int], given: Any) -> Derived:
    if not isinstance(root, Dim):
        raise InvalidArgument(f"{given!r} is not derived from a Dim")
    offset = function(0)
    return Derived(root, function(1) - offset, offset)
