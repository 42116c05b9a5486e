"""Where the last reference to a suspended generator goes away, see `onegraph.capture.suspended`."""

from __future__ import annotations

import collections
import gc
import weakref
from collections.abc import Callable, Iterable, Iterator
from types import BuiltinFunctionType, CodeType, FunctionType, GeneratorType, ModuleType
from typing import Any

import torch

from onegraph.capture.breaks import DROPPED_GENERATOR, WEAK_REFERENCE, GraphBreak
from onegraph.capture.bytecode import Instr
from onegraph.capture.finishing import taken_by
from onegraph.capture.interp.frame import Abort, Frame
from onegraph.capture.interp.machine import Machine
from onegraph.capture.kinds import isinstance
from onegraph.capture.resume_function import original_place
from onegraph.capture.shadows import ATOMS, UNFILLED, Record
from onegraph.capture.suspended import held_by, is_generator, is_protected, runs_code, waiting_in
from onegraph.capture.unread import Unread, as_it_is
from onegraph.capture.world import World

#: How many values are searched for the object of a weak reference, and in what kinds it is not searched for.
SEARCHED = 10_000
_NOT_SEARCHED = (torch.Tensor, type, ModuleType, BuiltinFunctionType, CodeType, weakref.ref, *ATOMS)


class Drops(Machine):
    """The part of the tracer that breaks where a generator would be dropped at another time than in eager mode."""

    world: World

    def __init__(self) -> None:
        super().__init__()
        #: The generators that wait in what the trace was given, by the identity of what holds them.
        self.waiting: dict[int, frozenset[int]] = {}
        #: Whether code of the program has run because a generator was dropped.
        self.has_dropped = False
        #: The variables that the root frame has when it returns, by name, with the identities of their values.
        self.left: dict[str, int] = {}
        #: Whether it lets go of what the program sees dying: that is done behind the trace.
        self.lets_go = False

    def watch(self, values: Iterable[Any]) -> None:
        """The trace begins with these values from outside."""
        found = {id(value): frozenset(map(id, waiting_in(value))) for value in values}
        self.waiting = {identity: waiting for identity, waiting in found.items() if waiting}
        if self.waiting:
            self.instruction_hook = self._refuse_drop

    def on_frame_enter(self, frame: Frame) -> None:
        """The caller's call instruction, too, has what a frame is called with as long as the frame runs."""
        super().on_frame_enter(frame)
        if any(type(value) is GeneratorType for value in dict.values(frame.locals)):
            self.instruction_hook = self._refuse_drop

    def _refuse_drop(self, frame: Frame, instr: Instr) -> None:
        """Break where the frames let go of a generator that is held elsewhere only because they are traced."""
        level = len(self.frames) - 1
        match instr.op:
            case "STORE_FAST" | "DELETE_FAST" if instr.arg in frame.locals:
                gone = [as_it_is(frame.locals, str(instr.arg))]
            case "POP_TOP":
                gone = frame.stack[-1:]
            case "POP_EXCEPT":
                gone = [frame.handled]
            case "RETURN_VALUE" if level:
                gone, level = [*dict.values(frame.locals), *frame.stack[:-1]], level - 1
            case _:
                return
        dropped = self._waiting_in(gone)
        if not dropped and not any(map(is_generator, gone)):
            return
        operands = [value for each in self.frames[:-1] for value in operands_of(each)]
        if instr.op != "RETURN_VALUE":
            dropped |= {id(value) for value in gone if any(value is other and runs_code(value) for other in operands)}
        if not dropped:
            return
        held = [value for each in self.frames for value in (*held_by(each), each.handled)]
        for value in (*gone, *operands):
            del held[next(index for index, other in enumerate(held) if other is value)]
        if not dropped <= self._waiting_in(held) | set(map(id, held)):
            raise self._dropped("here", level)

    def _waiting_in(self, values: Iterable[Any]) -> set[int]:
        """The generators that wait in those of the values that the trace was given."""
        found = set()
        for value in values:
            real = value.value if type(value) is Unread else self.world.real(value)
            found |= self.waiting.get(id(real), frozenset())
        return found

    def on_leave(self, frame: Frame) -> None:
        """The variables live in the traceback until the exception is handled: the call that raises it runs."""
        waiting = self._waiting_in(held_by(frame))
        super().on_leave(frame)
        level = next((n for n in range(len(self.frames) - 2, -1, -1) if is_handled(self.frames[n])), None)
        if level is None or self.lost is not None:
            return
        made = (reference() for reference, each in self.world.generators.values() if each.serial > frame.serial)
        if any(runs_code(each) for each in made) or waiting:
            raise self._dropped("with a traceback", level)

    def on_return(self, frame: Frame) -> None:
        if len(self.frames) == 1:
            self.left = {name: id(value) for name, value in dict.items(frame.locals)}
            self.lets_go = any(map(self.world.is_watched, dict.values(frame.locals)))

    def on_dropped(self, frame: Frame) -> None:
        if is_protected(frame.bytecode, frame.ip):
            self.has_dropped = True
            if self.lets_go:
                self.lost = self._dropped("at the end, in another order", -1)

    def on_drop(self, frame: Frame, raised: BaseException) -> bool:
        if not isinstance(raised, Abort | GeneratorExit | StopIteration):
            self.lost = self._dropped(f"and its handler raises {type(raised).__name__}", len(self.frames) - 1)
        return super().on_drop(frame, raised)

    def refuse_overdue(self, is_made: Callable[[Any], bool], keeps_frames: bool) -> None:
        """Break where a generator of the trace would live on behind it, or one from outside was written over in it.

        With `keeps_frames` a traceback outlives the trace, and with it all variables of its frames.
        """
        if keeps_frames and self.has_dropped:
            raise GraphBreak(DROPPED_GENERATOR, where="with a traceback")
        made = [reference() for reference, _ in self.world.generators.values()]
        over = [value for entry in self.world.changed() for value in written_over(self.world, entry)]
        for space in self.world.namespaces.values():
            over += [space.real.get(name) for name in space.written]
        if any(runs_code(each) and not is_made(each) for each in made) or any(map(runs_code, over)):
            raise GraphBreak(DROPPED_GENERATOR, where="at some time")

    def refuse_lost(self, reference: weakref.ref[Any]) -> None:
        """Break where the object of a weak reference would be gone if the trace did not hold it."""
        target = reference()
        kind = type(target)
        if target is None or self.world.is_outside(target) or issubclass(kind, type | FunctionType | torch.Tensor):
            return
        roots: list[Any] = [value for each in self.frames for value in (*held_by(each), *each.cells.values())]
        roots += [each.handled for each in self.frames]
        roots += [entry.shadow for entry in self.world.changed()]
        roots += [value for _, _, value in self.world.changed_slots()]
        roots += [value for space in self.world.namespaces.values() for value in space.written.values()]
        if not is_reachable(target, roots):
            raise GraphBreak(WEAK_REFERENCE)

    def _dropped(self, where: str, level: int) -> GraphBreak:
        broken = GraphBreak(DROPPED_GENERATOR, where=where)
        broken.frames = tuple(self.frames[: level + 1])
        return broken


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
        todo += (value.__closure__, value.__defaults__) if type(value) is FunctionType else gc.get_referents(value)
    return False


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


def operands_of(frame: Frame) -> list[Any]:
    """What a frame's call instruction has taken, which the frame that it calls has in its variables."""
    instr = frame.bytecode.instrs[frame.ip]
    return frame.stack[-taken_by(instr) :] if instr.op in ("CALL", "CALL_KW", "CALL_FUNCTION_EX") else []


def is_handled(frame: Frame) -> bool:
    """Whether the frame has a handler for what its instruction raises."""
    bytecode, index = original_place(frame)
    return bytecode.handler_at(index) is not None
