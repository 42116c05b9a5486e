"""Which sizes and numbers become symbolic: those that are marked, and those that were seen to change."""

from __future__ import annotations

import builtins
from collections.abc import Callable
from dataclasses import field
from typing import Any

import torch

from onegraph.base.dataclass import dataclass
from onegraph.capture.guards.predicates import Predicate
from onegraph.capture.guards.source import Const, Source, root_of
from onegraph.capture.pyobject.exact_types import isinstance
from onegraph.capture.pyobject.weakly_known import Known
from onegraph.capture.symbolic.size_marks import marks_of

OFTEN = 3


@dataclass(frozen=True, slots=True)
class Learnt:
    """The sizes that were seen, the dimensions of them that change; the numbers that do, with one of their values."""

    sizes: tuple[tuple[Source, tuple[int, ...]], ...]
    changing: tuple[tuple[Source, tuple[int, ...]], ...]
    numbers: tuple[tuple[Source, int | float], ...]


@dataclass(slots=True)
class History:
    """The sizes that the traces of one code object have seen at each source."""

    sizes: dict[Source, tuple[int, ...]] = field(default_factory=dict)
    changing: dict[Source, set[int]] = field(default_factory=dict)
    #: The last number, a weak reference to its owner, and how often it was another one.
    numbers: dict[Source, tuple[int | float, Callable[[], Any], int]] = field(default_factory=dict)
    changing_numbers: set[Source] = field(default_factory=set)
    #: Whether floating-point numbers stay constants: the backend has failed on a graph that takes them.
    constant_floats: bool = False
    #: Whether graphs make checks of data: one of them does what cannot be undone where a check fails.
    makes_checks: bool = True
    #: Whether a graph has sizes that only the data say.
    sizes_made: bool = False
    #: How often sizes that only the data say were not what a graph was made for.
    unexpected: int = 0

    def learn(self, other: History) -> None:
        """Know what the traces of equal code have seen."""
        self.sizes.update(dict(other.sizes))  # other threads add to it
        self.numbers.update(dict(other.numbers))
        self.changing_numbers.update(set(other.changing_numbers))
        for source, dims in list(other.changing.items()):
            self.changing.setdefault(source, set()).update(dims)
        self.constant_floats |= other.constant_floats
        self.makes_checks &= other.makes_checks
        self.unexpected = max(self.unexpected, other.unexpected)

    def learnt(self) -> Learnt:
        """What is known of sizes, for another process."""
        changing = tuple((source, tuple(sorted(dims))) for source, dims in self.changing.items() if dims)
        numbers = tuple((source, self.numbers[source][0]) for source in self.changing_numbers)
        return Learnt(tuple(self.sizes.items()), changing, numbers)

    def relearn(self, learnt: Learnt) -> None:
        """Know what another process has seen; what was seen here goes before it."""
        self.sizes = {**dict(learnt.sizes), **self.sizes}
        for source, dims in learnt.changing:
            self.changing.setdefault(source, set()).update(dims)
        for source, value in learnt.numbers:
            self.numbers.setdefault(source, (value, _nobody, 0))
            self.changing_numbers.add(source)

    @property
    def makes_sizes(self) -> bool:
        """Whether graphs go on behind sizes that only the data say."""
        return self.unexpected < OFTEN

    def note_unexpected(self) -> None:
        self.unexpected += 1

    def policy(self, dynamic: bool | None, constant: tuple[type, ...] = ()) -> ShapePolicy:
        return ShapePolicy(self, dynamic, constant)


class AsExpected(Predicate):
    """Sizes that only the data say were mostly what graphs were made for."""

    def __call__(self, history: History) -> bool:
        return history.makes_sizes

    def text(self, *what: str) -> str:
        return "sizes that depend on data have been what the graph is made for"


@dataclass(frozen=True, slots=True)
class ShapePolicy:
    """`dynamic` True: every size above one is symbolic; None: those that were seen to change; False: none.

    Numbers of the types in `constant` are none, whether they change or not. `shared`: sizes that are equal now are one.
    """

    history: History
    dynamic: bool | None
    constant: tuple[type, ...] = ()
    shared: bool = True

    def symbolic_dims(self, source: Source, tensor: torch.Tensor) -> tuple[int, ...]:
        """The dimensions of an input that get a symbol: what it is marked with goes before what is known of it."""
        if builtins.isinstance(tensor, torch.nn.Parameter):
            return ()
        marks = marks_of(tensor)
        found = (marks.dynamic | marks.weak | {*self._changing_dims(source, tensor)}) - marks.static
        return tuple(dim for dim in sorted(found) if dim < tensor.dim())

    def _changing_dims(self, source: Source, tensor: torch.Tensor) -> tuple[int, ...]:
        sizes = tuple(tensor.shape)
        if self.dynamic is False:
            return ()
        if self.dynamic:
            return tuple(dim for dim, size in enumerate(sizes) if size > 1)
        seen = self.history.sizes.setdefault(source, sizes)
        changing = self.history.changing.setdefault(source, set())
        if len(seen) == len(sizes):
            changing.update(dim for dim, (old, new) in enumerate(zip(seen, sizes, strict=True)) if old != new)
        return tuple(dim for dim in sorted(changing) if dim < len(sizes))

    def will_change(self, source: Source, sizes: tuple[Any, ...], after: tuple[Any, ...]) -> bool:
        """Note the sizes of an input that the program changes; whether any of them gets a symbol by that."""
        if self.dynamic is not None or len(sizes) != len(after):
            return False
        found = {dim for dim, (old, new) in enumerate(zip(sizes, after, strict=True)) if is_other(old, new)}
        changing = self.history.changing.setdefault(source, set())
        new = found - changing
        changing |= found
        return bool(new)

    def is_changing_number(self, source: Source, value: int | float, owner: Any) -> bool:
        """Whether a number gets a symbol: it was seen to change.

        An attribute may be a constant of its object, and have another value in each of a few. It changes if it does so
        in one object, if its last object is gone, or if it has done so often. What is known by identity is one object:
        another one may have come to its address.
        """
        if self.dynamic is False or type(value) in self.constant:
            return False
        last, holder, changes = self.history.numbers.get(source, (value, _nobody, 0))
        if repr(last) != repr(value):
            changes += 1
            holder_now = holder()
            others = not isinstance(root_of(source), Const)
            if holder_now is owner or others and (holder_now is None or changes >= OFTEN):
                self.history.changing_numbers.add(source)
        self.history.numbers[source] = value, weakly(owner), changes
        known = type(value) is int or not self.history.constant_floats
        return known and source in self.history.changing_numbers

    def keep_floats_constant(self) -> bool:
        """Make no symbols of floating-point numbers from here on; whether that is new for this code."""
        found = any(type(self.history.numbers[source][0]) is float for source in self.history.changing_numbers)
        known, self.history.constant_floats = self.history.constant_floats, True
        return found and not known

    def give_up_sizes(self) -> bool:
        """Make no sizes that only the data say from here on; whether any were made."""
        made, self.history.unexpected = self.history.sizes_made and self.history.makes_sizes, OFTEN
        return made


def is_other(size: Any, after: Any) -> bool:
    """Whether a size that is a constant is another one now, without asking a symbol for its value."""
    return type(size) is int and (type(after) is not int or size != after)


def weakly(owner: Any) -> Callable[[], Any]:
    """A reference to an object that does not keep it alive, if there is such a one; to None, a plain one."""
    if owner is None:
        return _nobody
    try:
        return Known(owner)
    except TypeError:
        return object  # which gives none that is known


def _nobody() -> None:
    return None
