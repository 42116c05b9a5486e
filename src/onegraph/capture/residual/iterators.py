"""Iterators from outside: the trace draws from a stand-in, and behind the graph the real one is drawn from as often.

An iterator over a container tells where it stands, so its stand-in reads the items where they are. Items are counted
from where the real one stands when a call begins: what was compiled for one call fits the next, which goes on.
An iterator over others (`zip`, `enumerate`, most of `itertools`) is made again over their stand-ins. One over what the
program has changed since, and one whose state is not the number of its items, break the graph where they are used.
"""

from __future__ import annotations

import collections
import itertools
from typing import Any

from onegraph.base.dataclass import dataclass
from onegraph.capture.breaks import OUTSIDE_ITERATOR, GraphBreak
from onegraph.capture.calls.tracing import Tracing
from onegraph.capture.guards.source import Item, Source, Through
from onegraph.capture.heap.iterator_reads import counted, draw
from onegraph.capture.heap.type_rules import Rebuilding, admit_opaque
from onegraph.capture.heap.world import World
from onegraph.capture.policy.python.iteration import CALLING, Filtered, Mapped, StandIn
from onegraph.capture.pyobject.exact_types import defines, isinstance
from onegraph.capture.pyobject.native_iterators import (
    BACKWARD,
    FORWARD,
    OVER_DEQUES,
    OVER_TABLES,
    REDUCED,
    SEQUENCES,
    base,
    behind,
    left,
    length,
    position,
    remaining,
)

# ---- over a container ------------------------------------------------------------------------------------------------

CHANGING = (list, dict, set, collections.deque, bytearray)


@dataclass(frozen=True, slots=True)
class Upcoming:
    """The item that an iterator will give behind so many others."""

    index: int

    @property
    def __name__(self) -> str:
        return f"item {self.index} of the rest of "

    def __call__(self, iterator: Any) -> Any:
        sequence, index, step = position(iterator)
        index += step * self.index
        if not 0 <= index < length(sequence):
            raise IndexError(index)
        return base(sequence).__getitem__(sequence, index)


@dataclass(frozen=True, slots=True)
class HasLeft:
    """Guard predicate: so many items are left, and no more."""

    count: int

    @property
    def __name__(self) -> str:
        return f"having {self.count} items left"

    def __call__(self, iterator: Any) -> bool:
        return left(iterator) == self.count


class Plain(StandIn):
    """An iterator over a container."""

    plain = True

    def __init__(self, world: World, real: Any, source: Source) -> None:
        self.world, self.real, self.source, self.kind = world, real, source, type(real)
        self.container = behind(real)
        self.left = left(real)
        self.taken = 0
        self.ended = False

    def __next__(self) -> Any:
        self.ended = self.ended or not self._has_next()
        if not self.ended:
            item = self._item()
            self.taken += 1
        self.world.draws.note(self)
        if self.ended:
            raise StopIteration
        return item

    def _has_next(self) -> bool:
        self._refuse_changed()
        if self.taken == self.left:
            self.world.guard(self.source, "check", HasLeft(self.left))
        return self.taken < self.left

    def _item(self) -> Any:
        if self.kind in OVER_TABLES:
            rest = remaining(self.real)
            return self.world.admit(rest[self.taken], Item(Through(self.source, remaining), self.taken))
        upcoming = Upcoming(self.taken)
        return self.world.admit(upcoming(self.real), Through(self.source, upcoming))

    def _refuse_changed(self) -> None:
        """Break the graph if the program has written to the container."""
        shadow = self.world.shadow_of.get(id(self.container))
        entry = None if shadow is None else self.world.records.get(id(shadow))
        if entry is not None and (id(shadow) in self.world.touched or entry.differs()):
            raise GraphBreak(OUTSIDE_ITERATOR, what=f"a {self.kind.__name__} over what has changed since")

    def watched(self) -> tuple[Source, Any] | None:
        looked = self.taken or self.ended
        return (
            (Through(self.source, behind), self.container) if looked and isinstance(self.container, CHANGING) else None
        )

    def count_left(self) -> int:
        """How many items are left, for native code that asks."""
        self._refuse_changed()
        self.world.guard(self.source, "check", HasLeft(self.left))
        return self.left - self.taken


# ---- over other iterators --------------------------------------------------------------------------------------------

#: Iterators whose state is that of the iterators that they are over; only those that say which these are.
STATELESS: frozenset[type] = frozenset(
    {map, filter, *{zip, itertools.compress, itertools.filterfalse, itertools.starmap}.intersection(REDUCED)}
)
#: Those that are somewhere themselves: the real one is drawn from behind the graph.
COUNTING: frozenset[type] = frozenset(
    {
        enumerate, itertools.combinations, itertools.combinations_with_replacement, itertools.count, itertools.cycle,
        itertools.islice, itertools.permutations, itertools.product, itertools.repeat, itertools.zip_longest,
    }
).intersection(REDUCED)  # fmt: skip
OUTSIDE_ITERATORS = frozenset({*FORWARD, *BACKWARD, *OVER_DEQUES, *OVER_TABLES, *STATELESS, *COUNTING})


class Composed(StandIn):
    """An iterator over others: one of the same kind over their stand-ins."""

    plain = False

    def __init__(self, tracer: Tracing, real: Any, source: Source, inner: Any, quiet: bool) -> None:
        self.tracer, self.real, self.source, self.kind, self.inner = tracer, real, source, type(real), inner
        #: Whether drawing from the real one runs no code of the program.
        self.quiet = quiet
        self.is_drawn = type(real) in COUNTING

    def __next__(self) -> Any:
        if not self.is_drawn:
            return next(self.inner)
        draws = self.tracer.world.draws
        draws.note(self)
        draws.inside += 1
        try:
            return next(self.inner)
        finally:
            draws.inside -= 1

    def watched(self) -> None:
        return None


def reduced(iterator: Any) -> Any:
    """What an iterator says of itself: (what makes it, the arguments, the state)."""
    return iterator.__reduce__()


def admit_iterator(tracer: Tracing, real: Any, source: Source) -> Any:
    """The stand-in of an iterator from outside; the iterator itself, which must not be used, if it has none."""
    world = tracer.world
    kind = type(real)
    if kind in STATELESS or kind in COUNTING:
        made = compose(tracer, real, source)
    else:
        made = plain(world, real, source)
    if made is None:
        return admit_opaque(world, real, source, True)
    world.guard(source, "type", kind)
    world.adopt(real, made, source)
    if isinstance(made, Plain | Composed):
        world.draws.iterators.append(made)
    return made


def plain(world: World, real: Any, source: Source) -> Plain | None:
    try:
        known = isinstance(behind(real), (*SEQUENCES, dict, set, frozenset, type(None))) and left(real) >= 0
    except RuntimeError:  # the dict or the set has changed
        return None
    return Plain(world, real, source) if known else None


def compose(tracer: Tracing, real: Any, source: Source) -> Any:
    """The stand-in of an iterator over others, or None."""
    kind, is_drawn = type(real), type(real) in COUNTING
    function, args, *state = reduced(real)
    where = Through(source, counted if kind in (enumerate, itertools.count) else reduced)
    parts = list(tracer.world.admit(args, Item(where, 1)))
    known = list(tracer.world.admit(tuple(state), Through(source, state_of)))
    if not all(is_usable(tracer.world, part, is_drawn) for part in (*parts, *known)):
        return None
    if kind is map:
        return Mapped(tracer, parts[0], parts[1:])
    if kind is filter:
        return Filtered(tracer, parts[0], parts[1:])
    if kind in CALLING:
        index, _, calls = CALLING[kind]
        parts[index] = parts[index] if parts[index] is None else calls(tracer, parts[index])
    made: Any
    if kind is enumerate:  # whose number may be symbolic
        made = zip(itertools.count(parts[1]), parts[0], strict=False)
    else:
        made = function(*parts)
        if known and known[0] is not None:
            made.__setstate__(own_lists(tracer.world, known[0]))
    quiet = is_drawn or (kind is zip and all(map(is_quiet, parts)))
    return Composed(tracer, real, source, made, quiet)


def state_of(iterator: Any) -> tuple[Any, ...]:
    """The state of an iterator beside its arguments."""
    return tuple(iterator.__reduce__()[2:])


def own_lists(world: World, state: Any) -> Any:
    """The state with lists of its own: an iterator fills those that it is given."""
    if not isinstance(state, tuple):
        return state
    return tuple(list(world.realize(part)) if isinstance(part, list) else part for part in state)


def is_iterator(part: Any) -> bool:
    return defines(type(part), "__next__")


def is_usable(world: World, part: Any, is_drawn: bool) -> bool:
    """Whether a part can stand in an iterator of the trace. What the real one draws from must run no program code."""
    if isinstance(part, tuple):
        return all(is_usable(world, item, is_drawn) for item in part)
    if id(part) in world.opaque:
        return not is_iterator(part)
    return is_quiet(part) if is_drawn and is_iterator(part) else True


def is_quiet(part: Any) -> bool:
    """Whether drawing from the real iterator runs no code of the program."""
    return isinstance(part, Plain) or (isinstance(part, Composed) and part.quiet)


def write_draws(rebuild: Rebuilding) -> list[str]:
    """The statements that draw from the real iterators."""
    draws = ((made.count, rebuild.source(made.iterator.source)) for made in rebuild.world.draws.made)
    return [f"{rebuild.const(draw)}({source}, {count})" for count, source in draws]
