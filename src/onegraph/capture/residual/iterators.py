"""Iterators from outside: the trace draws from a stand-in, and behind the graph the real one is drawn from as often.

An iterator over a container tells where it stands, so its stand-in reads the items where they are. Items are counted
from where the real one stands when a call begins: what was compiled for one call fits the next, which goes on.
An iterator over others (`zip`, `enumerate`, those of `itertools`) is made again over their stand-ins.
"""

from __future__ import annotations

import collections
import copy
import gc
import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

from onegraph.capture.breaks import OUTSIDE_ITERATOR, GraphBreak
from onegraph.capture.calls.tracing import Tracing
from onegraph.capture.guards.source import Item, Source, Through
from onegraph.capture.heap.iterator_reads import counted, draw
from onegraph.capture.heap.type_rules import Rebuilding, TypeRule, admit_opaque, rule_for
from onegraph.capture.heap.world import World
from onegraph.capture.policy.python.iteration import CALLING, Filtered, Mapped, StandIn, hidden
from onegraph.capture.pyobject.exact_types import defines, isinstance
from onegraph.capture.pyobject.iterator_positions import write_position

# ---- over a container ------------------------------------------------------------------------------------------------

#: Iterators over dicts, views of them and sets, which tell what is left of them.
REMAINING: tuple[type, ...] = (
    type(iter({})), type(iter({}.values())), type(iter({}.items())), type(reversed({})), type(reversed({}.values())),
    type(reversed({}.items())), type(iter(set())),
)  # fmt: skip
#: Iterators over sequences, which tell where they stand.
FORWARD: tuple[type, ...] = (
    type(iter([])),
    type(iter(())),
    type(iter("")),
    type(iter("\N{SNOWMAN}")),
    type(iter(b"")),
    type(iter(bytearray())),
    type(iter(range(0))),
    type(iter(range(1 << 64))),
    type(iter(collections.deque())),
)
BACKWARD: tuple[type, ...] = (type(reversed([])), reversed, type(reversed(collections.deque())))
SEQUENCES = (list, tuple, str, bytes, bytearray, range, collections.deque)
CHANGING = (list, dict, set, collections.deque, bytearray)


def position(iterator: Any) -> tuple[Any, int, int]:
    """(sequence, index of the next item, step)"""
    _, args, *state = iterator.__reduce__()
    if isinstance(args[0], collections.deque):
        sequence, drawn = args
        return (sequence, drawn, 1) if type(iterator) in FORWARD else (sequence, len(sequence) - 1 - drawn, -1)
    if type(iterator) in BACKWARD:
        return (args[0], state[0], -1) if state else ((), -1, -1)
    return args[0], (state[0] or 0) if state else 0, 1


def index_of(iterator: Any) -> int:
    """The index of the next item."""
    return position(iterator)[1]


def remaining(iterator: Any) -> tuple[Any, ...]:
    """What is left of an iterator over a dict or a set."""
    return tuple(iterator.__reduce__()[1][0])


def behind(iterator: Any) -> Any:
    """The container that an iterator is over; None at its end."""
    if type(iterator) in REMAINING:
        return next((held for held in gc.get_referents(iterator) if isinstance(held, dict | set | frozenset)), None)
    return position(iterator)[0]


def left(iterator: Any) -> int:
    """How many items are left."""
    if type(iterator) in REMAINING:
        return len(remaining(iterator))
    sequence, index, step = position(iterator)
    return max(0, length(sequence) - index if step > 0 else index + 1)


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


def base(sequence: Any) -> Any:
    return next(kind for kind in SEQUENCES if isinstance(sequence, kind))


def length(sequence: Any) -> int:
    """The length of a sequence of any class, as its iterators see it."""
    return int(base(sequence).__len__(sequence))


class Plain(StandIn):
    """An iterator over a container."""

    plain = True
    is_copy = False

    def __init__(self, world: World, real: Any, source: Source) -> None:
        self.world, self.real, self.source, self.kind = world, real, source, type(real)
        self.container = behind(real)
        self.left = left(real)
        self.taken = 0
        self.ended = self.late = False

    def __next__(self) -> Any:
        if self.ended or not self._has_next():
            self.ended = True
            self._note()
            raise StopIteration
        item = self._item()
        self.taken += 1
        self._note()
        return item

    def _note(self) -> None:
        if not self.is_copy:
            self.world.draws.note(self)

    def copied(self) -> Plain:
        """Another iterator that goes on from here."""
        if self.ended or self.late or self.kind in REMAINING:  # of which copies are of another kind
            raise hidden(self)
        made = Plain(self.world, self.real, self.source)
        made.taken, made.is_copy = self.taken, True
        return made

    def _has_next(self) -> bool:
        changed = self._changed()
        if changed is not None:
            self.world.length_matters(changed)
            return 0 <= self._index() < list.__len__(changed)
        if self.taken == self.left:
            self.world.guard(self.source, "check", HasLeft(self.left))
        return self.taken < self.left

    def _item(self) -> Any:
        changed = self._changed()
        if changed is not None:
            return self.world.element(changed, self._index())
        if self.kind in REMAINING:
            rest = remaining(self.real)
            return self.world.admit(rest[self.taken], Item(Through(self.source, remaining), self.taken))
        upcoming = Upcoming(self.taken)
        return self.world.admit(upcoming(self.real), Through(self.source, upcoming))

    def _index(self) -> int:
        _, index, step = position(self.real)
        return index + step * self.taken

    def _changed(self) -> list[Any] | None:
        """The list that it is over as the program sees it, if the program has written to it."""
        shadow = self.world.shadow_of.get(id(self.container))
        entry = None if shadow is None else self.world.records.get(id(shadow))
        if entry is None or not (self.late or id(shadow) in self.world.touched or entry.differs()):
            return None
        if not isinstance(shadow, list):
            raise GraphBreak(OUTSIDE_ITERATOR, what=f"a {self.kind.__name__} over what has changed since")
        self.late = True
        self.world.guard(Through(self.source, index_of), "equal", index_of(self.real))
        return shadow

    def watched(self) -> tuple[Source, Any] | None:
        looked = self.taken or self.ended
        return (
            (Through(self.source, behind), self.container) if looked and isinstance(self.container, CHANGING) else None
        )

    def count_left(self) -> int:
        """How many items are left, for native code that asks."""
        if self._changed() is not None:
            raise GraphBreak(OUTSIDE_ITERATOR, what=f"a {self.kind.__name__} over what has changed since")
        self.world.guard(self.source, "check", HasLeft(self.left))
        return self.left - self.taken


@rule_for(Plain)
class Copies(TypeRule):
    """A copy that the program has made of an iterator from outside."""

    def rebuild(self, rebuild: Rebuilding, value: Plain) -> str:
        if value.late:
            raise hidden(value)
        name = rebuild.assign(f"{rebuild.const(copy.copy)}({rebuild.source(value.source)})")
        rebuild.lines.append(f"{rebuild.const(draw)}({name}, {value.taken + value.ended})")
        return str(name)


# ---- over other iterators --------------------------------------------------------------------------------------------

#: "drawn": the real one is drawn from behind the graph. "state": it gets the state that the one of the trace has then.
#: "none": it has no state but that of the iterators that it is over.
Mode = Literal["drawn", "state", "none"]
MODES: dict[type, Mode] = {
    enumerate: "drawn",
    zip: "none",
    itertools.accumulate: "state",
    itertools.combinations: "drawn",
    itertools.combinations_with_replacement: "drawn",
    itertools.compress: "none",
    itertools.count: "drawn",
    itertools.cycle: "drawn",
    itertools.dropwhile: "state",
    itertools.filterfalse: "none",
    itertools.groupby: "state",
    itertools.islice: "drawn",
    itertools.permutations: "drawn",
    itertools.product: "drawn",
    itertools.repeat: "drawn",
    itertools.starmap: "none",
    itertools.takewhile: "state",
    itertools.zip_longest: "drawn",
    itertools.chain: "drawn",
}
OUTSIDE_ITERATORS = frozenset({*REMAINING, *FORWARD, *BACKWARD, *MODES, map, filter})


class Composed(StandIn):
    """An iterator over others: one of the same kind over their stand-ins."""

    plain = False

    def __init__(self, tracer: Tracing, real: Any, source: Source, inner: Any, quiet: bool) -> None:
        self.tracer, self.real, self.source, self.kind, self.inner = tracer, real, source, type(real), inner
        #: Whether drawing from the real one runs no code of the program.
        self.quiet = quiet
        self.mode: Mode = MODES[type(real)]
        self.late = False

    def __next__(self) -> Any:
        if self.mode == "none":
            return next(self.inner)
        draws = self.tracer.world.draws
        draws.note(self)
        draws.inside += self.mode == "drawn"
        try:
            return next(self.inner)
        finally:
            draws.inside -= self.mode == "drawn"

    def watched(self) -> None:
        return None


class Filled:
    """The iterables that a chain will go through: containers, filled for native code."""

    __slots__ = ("iterables", "world")

    def __init__(self, world: World, iterables: Any) -> None:
        self.world, self.iterables = world, iterables

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        item = next(self.iterables)
        if type(item) not in (list, tuple, dict, set, frozenset, str, bytes, range, collections.deque):
            raise GraphBreak(OUTSIDE_ITERATOR, what=f"a chain over a {type(item).__name__}")
        return self.world.realize(item)


def iterables(world: World, following: Any, *current: Any) -> Iterator[Any]:
    """What is left of a chain: what it goes through now, and what follows."""
    return itertools.chain(current, Filled(world, following))


def reduced(iterator: Any) -> Any:
    """What an iterator says of itself: (what makes it, the arguments, the state)."""
    return iterator.__reduce__()


def admit_iterator(tracer: Tracing, real: Any, source: Source) -> Any:
    """The stand-in of an iterator from outside; the iterator itself, which must not be used, if it has none."""
    world = tracer.world
    kind = type(real)
    if kind in MODES or kind in (map, filter):
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
    kind, mode = type(real), MODES.get(type(real), "none")
    function, args, *state = reduced(real)
    if mode != "drawn" and not all(part in held(real) for part in map(id, filter(is_iterator, args))):
        return None  # it says of itself that it is over others than it is
    where = Through(source, counted if kind in (enumerate, itertools.count) else reduced)
    parts = list(tracer.world.admit(args, Item(where, 1)))
    known = list(tracer.world.admit(tuple(state), Through(source, state_of)))
    for part in (*parts, *known):
        if not is_usable(tracer.world, part, mode):
            return None
    if kind is map:
        return Mapped(tracer, parts[0], parts[1:])
    if kind is filter:
        return Filtered(tracer, parts[0], parts[1:])
    if kind in CALLING:
        index, _, calls = CALLING[kind]
        parts[index] = parts[index] if parts[index] is None else calls(tracer, parts[index])
    made: Any
    if kind is itertools.chain:
        made = itertools.chain.from_iterable(iterables(tracer.world, *known[0]) if known else ())
    elif kind is enumerate:  # whose number may be symbolic
        made = zip(itertools.count(parts[1]), parts[0], strict=False)
    else:
        made = function(*parts)
        if known and known[0] is not None:
            made.__setstate__(own_lists(tracer.world, known[0]))
    quiet = mode == "drawn" or (kind is zip and all(map(is_quiet, parts)))
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


def held(iterator: Any) -> set[int]:
    """The identities of what an iterator holds, itself or in a tuple."""
    direct = gc.get_referents(iterator)
    return {id(part) for part in direct} | {id(item) for part in direct if type(part) is tuple for item in part}


def is_usable(world: World, part: Any, mode: Mode) -> bool:
    """Whether a part can stand in an iterator of the trace. What the real one draws from must run no program code."""
    if isinstance(part, tuple):
        return all(is_usable(world, item, mode) for item in part)
    if id(part) in world.opaque:
        return not is_iterator(part)
    if mode == "drawn" and is_iterator(part):
        return is_quiet(part)
    return True


def is_quiet(part: Any) -> bool:
    """Whether drawing from the real iterator runs no code of the program."""
    return isinstance(part, Plain) or (isinstance(part, Composed) and part.quiet)


def write_draws(rebuild: Rebuilding) -> list[str]:
    """The statements that draw from the real iterators; behind the writes, where those change what they are over."""
    statements: list[str] = []
    for made in rebuild.world.draws.made:
        iterator = made.iterator
        source = rebuild.source(iterator.source)
        if getattr(iterator, "mode", None) == "state":
            state = state_of(iterator.inner)
            if state and state[0] is not None:
                write_position(rebuild, source, iterator.inner, state[0])
            continue
        statement = f"{rebuild.const(draw)}({source}, {made.count})"
        (rebuild.late if iterator.late else statements).append(statement)
    return statements
