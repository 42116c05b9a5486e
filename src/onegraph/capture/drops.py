"""Where the last reference to something goes away that the program sees dying.

That is a suspended generator (see `onegraph.capture.suspended`), an object with a finalizer, or one that the program
has weak references to. A trace holds all that it has seen: what comes from outside is let go of between traces.
"""

from __future__ import annotations

import collections
import gc
import weakref
from collections.abc import Callable, Collection, Iterable, Iterator, Set
from types import BuiltinFunctionType, CodeType, FrameType, FunctionType, GeneratorType, ModuleType, TracebackType
from typing import Any

import torch

from onegraph.capture.breaks import DROPPED_GENERATOR, DROPPED_OBJECT, WEAK_REFERENCE, GraphBreak
from onegraph.capture.bytecode import Instr
from onegraph.capture.interp.frame import Abort, Frame
from onegraph.capture.interp.machine import Machine
from onegraph.capture.kinds import isinstance
from onegraph.capture.resume_function import in_prologue, original_place, resumed_by
from onegraph.capture.shadows import ATOMS, DELETED, UNFILLED, Record, cell_value
from onegraph.capture.suspended import (
    INTERPRETED,
    contents,
    held_by,
    is_generator,
    is_protected,
    operands_of,
    runs_code,
    waiting_in,
)
from onegraph.capture.unread import Unread, as_it_is
from onegraph.capture.world import World

#: How many values are searched for the object of a weak reference, and in what kinds it is not searched for.
SEARCHED = 10_000
_NOT_SEARCHED = (
    torch.Tensor, type, ModuleType, BuiltinFunctionType, CodeType, weakref.ref, TracebackType, FrameType, Machine,
    World, *ATOMS,
)  # fmt: skip


#: Methods of containers that take out of them what they hold.
REMOVING = frozenset({"clear", "pop", "popleft", "popitem", "remove", "discard"})


class Drops(Machine):
    """The part of the tracer that breaks where something would die at another time than in eager mode."""

    world: World

    def __init__(self) -> None:
        super().__init__()
        #: What the trace was given that the program sees dying: generators that wait, and objects that it watches. By
        #: identity, and which of them each value holds.
        self.mortal: dict[int, Any] = {}
        self.holding: dict[int, frozenset[int]] = {}
        self._is_watched: Callable[[Any], bool] = lambda _: False
        #: The identities of the values that the root frame was called with.
        self.given: list[int] = []
        #: Of what the root frame was called with, that which frames had that an exception has left.
        self.with_traceback: set[int] = set()
        #: Whether code of the program has run because a generator was dropped.
        self.has_dropped = False
        #: The variables that the root frame has when it returns, by name, with the identities of their values.
        self.left: dict[str, int] = {}
        #: Whether it lets go of what the program sees dying: that is done behind the trace. One that it was not called
        #: with, its frame has not in its variables.
        self.lets_go = False
        self.lost_at_end: Any = None

    def watch(self, values: Collection[Any], fullgraph: bool) -> None:
        """The trace begins with these values from outside. Under `fullgraph`, the caller's stack has them too."""
        self._is_watched = (lambda _: False) if fullgraph else self.world.is_watched
        self.given = [id(value) for value in values]
        if any([self._held_outside(value) for value in values]):
            self.instruction_hook = self._refuse_drop

    def on_frame_enter(self, frame: Frame) -> None:
        """The caller's call instruction, too, has what a frame is called with as long as the frame runs."""
        super().on_frame_enter(frame)
        if any(type(value) is GeneratorType for value in dict.values(frame.locals)):
            self.instruction_hook = self._refuse_drop

    def refuse_removal(self, container: Any, method: str) -> None:
        """Break where a method takes what the program sees dying out of a container from outside."""
        if method not in REMOVING or not self.world.is_outside(container):
            return
        real = self.world.real(container)
        inside = [*waiting_in(real, is_watched=self.world.is_watched)]
        inside += [self.mortal[each] for each in self._mortal_in(gc.get_referents(container))]
        lost = next((each for each in inside if each is not real), None)
        if lost is not None:
            raise dropped(lost, f"in a call of `{method}`")

    def _refuse_drop(self, frame: Frame, instr: Instr) -> None:
        """Break where the frames let go of what is held elsewhere only because they are traced."""
        level = len(self.frames) - 1
        match instr.op:
            case "STORE_FAST" | "DELETE_FAST" if instr.arg in frame.locals:
                gone = [as_it_is(frame.locals, str(instr.arg))]
            case "POP_TOP":
                gone = frame.stack[-1:]
            case "POP_EXCEPT":
                gone = [frame.handled]
            case "RETURN_VALUE" if level:
                gone, level = at_its_end(frame), level - 1
            case "RETURN_VALUE":
                self._refuse_end(frame)
                return
            case _:
                return
        dropped = self._mortal_in(gone)
        if not dropped and not any(map(is_generator, gone)) or in_prologue(frame):
            return
        operands = self._operands()
        if instr.op != "RETURN_VALUE":
            dropped |= {id(value) for value in gone if any(value is other and runs_code(value) for other in operands)}
        lost = dropped - self._held_but([*gone, *operands], dropped) if dropped else dropped
        if lost:
            raise self._dropped("here", level, lost)

    def _refuse_end(self, frame: Frame) -> None:
        """Break where the root frame lets go of generators of the trace and of what is from outside, one by one."""
        gone = list(dict.values(frame.locals))
        if self._mortal_in(gone) and (
            any(is_made_generator(value) and runs_code(value) for value in gone) or self._is_reordered(frame)
        ):
            raise self._dropped("at the end, in another order", 0, frozenset())

    def _is_reordered(self, frame: Frame) -> bool:
        """Whether values whose end is seen have changed places in the variables since the frame began."""
        names = [name for name in frame.bytecode.code.co_varnames if name in frame.locals]
        values = [as_it_is(frame.locals, name) for name in names]
        now = [id(self.real(value)) for value in values if self._mortal_in([value]) or calls_back(value)]
        before = [identity for identity in self.given if identity in now]
        return by_last(before) != by_last(identity for identity in now if identity in before)

    def _operands(self) -> list[Any]:
        return [value for each in self.frames[:-1] for value in operands_of(each)]

    def _mortal_in(self, values: Iterable[Any]) -> set[int]:
        """What the values hold of that which the program sees dying."""
        found, seen, todo = set[int](), set[int](), list(values)
        while todo and len(seen) < SEARCHED:
            value = todo.pop()
            if id(value) in seen or issubclass(type(value), _NOT_SEARCHED):
                continue
            seen.add(id(value))
            if type(value) is Unread:
                found |= self._held_outside(value.value)
            elif self.world.is_outside(value):
                found |= self._held_outside(self.world.real(value))
            else:
                todo += referents(value)
        return found

    def _held_outside(self, real: Any) -> frozenset[int]:
        if id(real) not in self.holding:
            held = {id(each): each for each in waiting_in(real, is_watched=self._is_watched)}
            self.mortal |= held
            self.holding[id(real)] = frozenset(held)
        return self.holding[id(real)]

    def _held_but(self, gone: list[Any], wanted: set[int]) -> set[int]:
        """Which of the wanted are held by the frames or what the trace has written to, but for values that go."""
        held = [value for each in self.frames for value in (*held_by(each), *in_cells(each, each.cells), each.handled)]
        for value in gone:
            place = next((index for index, other in enumerate(held) if other is value), None)
            if place is not None:  # an instruction may have taken it from its stack already
                del held[place]
        found = self._mortal_in(held) | set(map(id, held))
        missing = wanted & self.mortal.keys() - found
        if missing:
            real = [self.real(value) for value in held]
            roots = [*held, *self.written()]
            for each in missing:
                seen = self.world.shadow_of.get(each, self.mortal[each])
                if is_reachable(self.mortal[each], real) or is_reachable(seen, roots):
                    found.add(each)
        return found

    def written(self) -> list[Any]:
        """What the program has written to, and what it has written there, except to the cells of its frames."""
        cells = {id(cell) for each in self.frames for cell in each.cells.values()}
        written = [entry.shadow for entry in self.world.changed() if id(entry.shadow) not in cells]
        written += [value for _, _, value in self.world.changed_slots()]
        return written + [value for space in self.world.namespaces.values() for value in space.written.values()]

    def on_leave(self, frame: Frame) -> None:
        """The variables live in the traceback until the exception is handled: the call that raises it runs."""
        mortal = self._mortal_in(held_by(frame))
        super().on_leave(frame)
        level = next((n for n in range(len(self.frames) - 2, -1, -1) if is_handled(self.frames[n])), None)
        if level is None or self.lost is not None:
            return
        made = (reference() for reference, each in self.world.generators.values() if each.serial > frame.serial)
        lost = mortal - self._held_but([*held_by(frame), *self._operands()], mortal) if mortal else mortal
        resumed = resumed_by(frame.bytecode.code)
        if resumed is not None and resumed.noted:  # who holds the traceback holds the root frame, and what it was given
            kept = {each for each in lost if not is_generator(self.mortal[each])}
            self.with_traceback |= kept
            lost = lost - kept
        if lost or any(runs_code(each) for each in made):
            raise self._dropped("with a traceback", level, lost)

    def on_return(self, frame: Frame) -> None:
        if len(self.frames) == 1:
            self.left = self.identities(frame)
            real = [self.real(value) for value in dict.values(frame.locals) if self.world.is_watched(value)]
            self.lets_go = bool(real)
            self.lost_at_end = next((each for each in real if id(each) not in self.given), None)

    def identities(self, frame: Frame) -> dict[str, int]:
        """The variables of a frame by name, with the identities of what they hold, or of what stands for it unread."""
        held = dict.items(frame.locals)
        return {name: id(value if type(value) is Unread else self.world.real(value)) for name, value in held}

    def is_left_to_traceback(self, value: Any) -> bool:
        """Whether what the root frame was called with is, or holds, something that a traceback is to hold."""
        return not self.with_traceback.isdisjoint(self.holding.get(id(self.real(value)), ()))

    def real(self, value: Any) -> Any:
        return value.value if type(value) is Unread else self.world.real(value)

    def on_dropped(self, frame: Frame) -> None:
        if is_protected(frame.bytecode, frame.ip):
            self.has_dropped = True
            if self.lets_go:
                self.lost = self._dropped("at the end, in another order", -1, frozenset())

    def on_drop(self, frame: Frame, raised: BaseException) -> bool:
        if not isinstance(raised, Abort | GeneratorExit | StopIteration):
            self.lost = self._dropped(
                f"and its handler raises {type(raised).__name__}", len(self.frames) - 1, frozenset()
            )
        return super().on_drop(frame, raised)

    @property
    def drops_at_end(self) -> bool:
        """Whether the trace has let go of what would live on in a frame that a traceback holds."""
        return self.has_dropped or self.lost_at_end is not None

    def refuse_overdue(self, is_made: Callable[[Any], bool], keeps_frames: bool) -> None:
        """Break where a generator of the trace would live on behind it, or one from outside was written over in it.

        With `keeps_frames` a traceback outlives the trace, and with it all variables of its frames.
        """
        if keeps_frames and self.drops_at_end:
            raise dropped(self.lost_at_end, "with a traceback")
        made = [reference() for reference, _ in self.world.generators.values()]
        over = [value for entry in self.world.changed() for value in written_over(self.world, entry)]
        for space in self.world.namespaces.values():
            over += [space.real.get(name) for name in space.written]
        if any(runs_code(each) and not is_made(each) for each in made) or any(map(runs_code, over)):
            raise GraphBreak(DROPPED_GENERATOR, where="at some time")

    def refuse_lost(self, reference: weakref.ref[Any]) -> None:
        """Break where the object of a weak reference would be gone if the trace did not hold it."""
        target = weakref.ref.__call__(reference)
        kind = type(target)
        is_held = self.world.is_outside(target) and not issubclass(kind, torch.Tensor)
        if target is None or is_held or issubclass(kind, type | FunctionType):
            return
        roots: list[Any] = [value for each in self.frames for value in (*held_by(each), *each.cells.values())]
        roots += [each.handled for each in self.frames]
        if not is_reachable(target, [*roots, *self.written()]):
            raise GraphBreak(WEAK_REFERENCE)

    def _dropped(self, where: str, level: int, lost: Set[int]) -> GraphBreak:
        broken = dropped(next((self.mortal[each] for each in lost if each in self.mortal), None), where)
        broken.frames = tuple(self.frames[: level + 1])
        return broken


def by_last(identities: Iterable[int]) -> list[int]:
    """Each identity once, by where it comes last, the latest first: there a frame lets go of it."""
    return [*dict.fromkeys(reversed([*identities]))]


def dropped(lost: Any, where: str) -> GraphBreak:
    """The break where an object is let go of; or, where there is none, a generator of the trace."""
    if lost is None or is_generator(lost):
        return GraphBreak(DROPPED_GENERATOR, where=where)
    return GraphBreak(DROPPED_OBJECT, what=f"a {type(lost).__qualname__}", where=where)


def is_reachable(target: Any, roots: list[Any]) -> bool:
    """Whether one of the roots is the object, or holds it, as far as a short search can tell."""
    seen: set[int] = set()
    todo = collections.deque(roots)
    while todo and len(seen) < SEARCHED:
        value = todo.popleft()
        if value is target:
            return True
        if id(value) in seen or issubclass(type(value), _NOT_SEARCHED):
            continue
        seen.add(id(value))
        todo += referents(value)
    return False


def referents(value: Any) -> Iterable[Any]:
    """What a value of the trace holds. (A proxy is asked for nothing: its object may be dead.)"""
    kind = type(value)
    if kind is FunctionType:
        return value.__closure__, value.__defaults__, value.__kwdefaults__
    if kind is GeneratorType and value.gi_frame is not None:
        return contents(value, later=False)[0]
    return gc.get_referents(value)


def at_its_end(frame: Frame) -> list[Any]:
    """What a frame lets go of when it returns."""
    return [*dict.values(frame.locals), *frame.stack[:-1], *in_cells(frame, frame.bytecode.code.co_cellvars)]


def in_cells(frame: Frame, names: Iterable[str]) -> list[Any]:
    """What the cells of these names of a frame hold."""
    cells = {id(cell): cell_value(cell) for name, cell in frame.cells.items() if name in names}
    return [value for value in cells.values() if value is not UNFILLED and value is not DELETED]


def calls_back(value: Any) -> bool:
    """Whether the value is a weak reference that is to call something: its own end, before, is the end of that."""
    seen = value.value if type(value) is Unread else value
    return type(seen) is weakref.ref and seen.__callback__ is not None


def is_made_generator(value: Any) -> bool:
    """Whether the value is a generator of the trace."""
    return type(value) is GeneratorType and value.gi_code is INTERPRETED


def written_over(world: World, entry: Record) -> Iterator[Any]:
    """What the original container holds and its shadow does not."""
    real, shadow = entry.real, entry.shadow
    before = gc.get_referents(real)
    if isinstance(real, dict):
        before = [value for key, value in dict.items(real) if dict.get(shadow, key) is not UNFILLED]
    elif isinstance(real, list) and list.__len__(real) <= list.__len__(shadow):
        before = [old for old, new in zip(real, list.__iter__(shadow), strict=False) if new is not UNFILLED]
    kept = set(map(id, gc.get_referents(shadow)))
    yield from (value for value in before if id(world.shadow_of.get(id(value), value)) not in kept)


def is_handled(frame: Frame) -> bool:
    """Whether the frame has a handler for what its instruction raises."""
    bytecode, index = original_place(frame)
    return bytecode.handler_at(index) is not None
