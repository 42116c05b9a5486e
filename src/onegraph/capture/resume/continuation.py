"""Resuming behind a graph break.

A break happens at an instruction of the innermost of some frames that were inlined into each other. The replacement of
the root frame ends like this (normal form):

    ...                         residual code: run the graph, replay writes, rebuild the live values
    rebuild the innermost frame's operand stack, and the exceptions that it is handling
    the breaking instruction    in Python, natively: it is what could not be traced
    return TailCall(resume, values...)      one way on for each outcome: it goes on, it jumps, or a handler catches

The resume function of the innermost frame jumps behind the breaking instruction. That of an outer frame first calls the
resume function of the frame that it had called, in the place (and under the handlers) of the original call. So the rest
of all frames is one call, which the hook makes when the replaced frame has ended, and captures as one frame in turn. So
the stack is that of the program, also in a loop that breaks, and tracebacks have its entries alone.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from inspect import CO_ASYNC_GENERATOR, CO_COROUTINE, CO_GENERATOR
from types import CellType, CodeType, FrameType
from typing import Any

from onegraph.base.dataclass import dataclass
from onegraph.capture.bytecode import FREE_MARK, NULL_FIRST, Bytecode, Instr
from onegraph.capture.bytecode.flow import falls_through, handled_slots, kinds_behind, live_names, stack_depths
from onegraph.capture.bytecode.frame import NULL, Frame
from onegraph.capture.bytecode.instruction import derived
from onegraph.capture.bytecode.ops import OPCODES
from onegraph.capture.heap.type_rules import Rebuilding
from onegraph.capture.interp.rests import finish_of
from onegraph.capture.interp.tracebacks import frame_object
from onegraph.capture.pyobject.exact_types import isinstance, plain
from onegraph.capture.pyobject.native_members import TRACEBACK_OF
from onegraph.capture.resume.class_bodies import as_function
from onegraph.capture.resume.generator_steps import in_steps
from onegraph.capture.resume.instruction_rest import catches, taken_by
from onegraph.capture.resume.resume_function import (
    ResumeFunction,
    Slots,
    at_inner_call,
    in_prologue,
    original_place,
    place,
    resume_function,
    write_resume_function,
)
from onegraph.capture.resume.resumed import InnerCall, Jump, Shape, Suspended, Way
from onegraph.capture.resume.unread import Unread, as_it_is

#: Functions that look at the variables of their caller, which a resume function has not all: with how many arguments
#: they do not. (What counts is the name.)
FRAME_ACCESS: dict[object, float] = {"locals": math.inf, "vars": 1, "dir": 1, "eval": math.inf, "exec": math.inf}
NAMES = frozenset({"LOAD_GLOBAL", "LOAD_NAME"})
_SUSPENDABLE = CO_GENERATOR | CO_COROUTINE | CO_ASYNC_GENERATOR


@dataclass(frozen=True, slots=True)
class Exit:
    """One outcome of the breaking instruction: the resume function of the root frame and what it is called with.

    The computed values `leading`, the `results` that lie on the native stack (from `bottom` up), the other `values`.
    """

    function: int
    leading: tuple[int, ...]
    results: tuple[bool, ...]
    values: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Continuation:
    """How a replacement goes on behind the break.

    `values` is what the residual code computes. `stack` is the native stack before the breaking instruction: the number
    of a value, None for NULL, or `Handled` for an exception that is being handled.
    """

    values: tuple[Any, ...]
    instruction: Instr
    stack: tuple[int | Handled | None, ...]
    following: Exit | None
    jumping: Exit | None
    raising: Exit | None
    depth_when_raising: int
    passed: tuple[FrameType, ...]  # frames that an exception leaves on its way, outermost first
    code: CodeType  # of the function that the breaking instruction is in
    opened: int  # how many frames of the program there are besides the one that is replaced


@dataclass(frozen=True, slots=True)
class Handled:
    """A stack slot that holds the exception handled before; `value` is the number of the one handled from here on."""

    value: int


class Values:
    """The values that the residual code computes, without repetition."""

    def __init__(self) -> None:
        self.items: list[Any] = []
        self._numbers: dict[int, int] = {}

    def add(self, value: Any) -> int:
        if type(value) is ResumeFunction or id(value) not in self._numbers:
            self._numbers[id(value)] = len(self.items)
            self.items.append(value)
        return self._numbers[id(value)]


#: How many frames of one function, one called by the other, go on behind a break.
RECURSIVE = 16


def plan_resume(frames: Sequence[Frame]) -> Continuation | str:
    """The continuation behind the instruction that the last of the frames has stopped at, or why there is none."""
    frame = frames[-1]
    instruction = frame.bytecode.instrs[frame.ip]
    for each in frames:
        if each.bytecode.code.co_flags & _SUSPENDABLE:
            return "a generator cannot be resumed yet"
        if each.namespace is not None and as_function(each.bytecode) is None:
            return "the body of a class has two variables __class__"
        if looks_at_itself(each.bytecode):
            return "the function looks at its own variables"
    if in_prologue(frame):
        return "the first instructions of a resume function cannot be resumed"
    marks = OPCODES[instruction.op].marks
    if "stays" in marks:
        return f"the instruction {instruction.op} cannot be resumed"
    if "globals" in marks and frame.globals is not frames[0].globals:
        return f"the instruction {instruction.op} needs the globals of another module"
    if instruction.op == "WITH_EXCEPT_START" and TRACEBACK_OF(frame.stack[-1]) is None:
        return "an exception without traceback cannot be handed to __exit__"
    if "reads" in marks and instruction.arg in frame.locals:
        return "a variable is read that has a value"
    values = Values()
    planner = Planner(frames, values)
    bytecode, index = original_place(frame)
    following = planner.exit_at(index + 1) if falls_through(instruction) else None
    jumping, target = None, bytecode.instrs[index].target
    if target is not None:
        jumping = planner.exit_at(target, jump=True)
    nowhere = (None, 0, len(frames) - 1)
    raising, depth_when_raising, caught_at = nowhere if "silent" in marks else planner.exit_when_raising()
    passed = tuple(frame_object(each) for each in frames[caught_at:-1])
    if instruction.op != "RERAISE":
        stack = planner.native_stack()
    elif raising is None:  # the exception has its traceback, so nothing depends on the stack below it
        stack, instruction = (values.add(frame.stack[-1]),), replace(instruction, arg=0)
    else:
        return "an exception that is raised again is caught"
    code = frame.bytecode.code
    return Continuation(
        tuple(values.items), instruction, stack, following, jumping, raising, depth_when_raising, passed, code,
        len(frames) - 1,
    )  # fmt: skip


@derived
def looks_at_itself(bytecode: Bytecode) -> bool:
    """Whether the function may ask for its own variables."""
    return any(
        instr.op in NAMES and instr.arg in FRAME_ACCESS and arguments_of(bytecode, index) < FRAME_ACCESS[instr.arg]
        for index, instr in enumerate(bytecode.instrs)
    )


def arguments_of(bytecode: Bytecode, index: int) -> int:
    """With how many positional arguments that which the instruction loads is called; 0 if it is not called so."""
    depths = stack_depths(bytecode)
    base = (depths[index] or 0) - NULL_FIRST
    for instr, depth in zip(bytecode.instrs[index + 1 :], depths[index + 1 :], strict=True):
        if depth is None or depth <= base:
            return 0
        if instr.op == "CALL" and depth - int(str(instr.arg)) - 2 == base:
            return int(str(instr.arg))
    return 0


def kinds_of(frame: Frame) -> tuple[str, ...]:
    """What the slots of a frame's stack hold."""
    handled = handled_slots(frame.bytecode)[frame.ip]
    return tuple(
        "handled" if index in handled else "null" if value is NULL else "value"
        for index, value in enumerate(frame.stack)
    )


class Planner:
    """Plans the exits of one break."""

    def __init__(self, frames: Sequence[Frame], values: Values) -> None:
        self.frames = frames
        self.values = values
        self.ambient = next((f.handled for f in reversed(frames[:-1]) if f.handled is not None), None)

    def native_stack(self) -> tuple[int | Handled | None, ...]:
        """The innermost frame's stack, below it the exception that an outer frame is handling."""
        frame = self.frames[-1]
        slots = self.slots(frame, len(frame.stack))
        numbers = iter(slots.numbers)
        exceptions = iter(handled_exceptions(frame, len(frame.stack)))
        stack: list[int | Handled | None] = []
        if self.ambient is not None:
            stack.append(Handled(self.values.add(self.ambient)))
        for kind in slots.kinds:
            match kind:
                case "null":
                    stack.append(None)
                case "handled":
                    stack.append(Handled(self.values.add(next(exceptions))))
                case _:
                    stack.append(next(numbers))
        return tuple(stack)

    def slots(self, frame: Frame, depth: int) -> Slots:
        """The lowest `depth` slots of a frame's stack."""
        kinds = kinds_of(frame)[:depth]
        pairs = zip(kinds, frame.stack[:depth], strict=True)
        return Slots(kinds, tuple(self.values.add(value) for kind, value in pairs if kind == "value"))

    def exit_at(self, target: int, jump: bool = False) -> Exit:
        """Go on at `target` with what the breaking instruction leaves on the native stack."""
        frame = self.frames[-1]
        instruction = frame.bytecode.instrs[frame.ip]
        kinds = kinds_behind(instruction, kinds_of(frame), jump)
        results = tuple(kind == "value" for kind in kinds)
        made = self._resume(frame, Slots(kinds, ()), len(kinds), Jump(target))
        return self._wrap(len(self.frames) - 1, made, results)

    def exit_when_raising(self) -> tuple[Exit | None, int, int]:
        """Go on in the innermost handler, with the exception on top; the native stack's depth and the level there."""
        for level in range(len(self.frames) - 1, -1, -1):
            frame = self.frames[level]
            bytecode, index = original_place(frame)
            waiting = None if frame is self.frames[-1] else waiting_at(frame, self.frames[level + 1])
            if waiting is not None:
                bytecode, index = waiting.bytecode, waiting.at
            handler = bytecode.handler_at(index)
            if waiting is not None and catches(waiting.finish):
                raising = InnerCall(0, 0, waiting.at, waiting.finish, raising=True)
                made = self._resume_waiting(frame, waiting, raising, 1)
            elif handler is not None:
                slots = self.slots(frame, handler.depth)
                kinds = (*slots.kinds, *(("lasti",) if handler.lasti else ()), "value")
                # The exception is the native stack's one result, so it is taken first.
                way = Jump(handler.target)
                slots = Slots(kinds, slots.numbers)
                made = self._resume(frame, slots, handler.depth, way, top_first=True, bytecode=bytecode)
            else:
                continue
            exit_ = self._wrap(level, made, (True,))
            kept = max(handled_slots(self.frames[-1].bytecode)[self.frames[-1].ip], default=-1) + 1
            return exit_, int(self.ambient is not None) + kept, level
        return None, 0, 0

    def generator(self, frame: Frame, started: bool) -> Resuming:
        """The resume function that makes a generator which waits where the frame is suspended."""
        depth = len(frame.stack) if started else 0
        bytecode, at = frame.bytecode, frame.ip
        stepped = in_steps(bytecode)
        if stepped is not None:
            bytecode, at = stepped.bytecode, stepped.moved[at]
        return self._resume(frame, self.slots(frame, depth), depth, Suspended(at, started), bytecode=bytecode)

    def _resume(
        self,
        frame: Frame,
        slots: Slots,
        depth: int,
        way: Way,
        first: int = 0,
        top_first: bool = False,
        bytecode: Bytecode | None = None,
    ) -> Resuming:
        """The resume function of a frame, with its arguments."""
        bytecode = bytecode or original_place(frame)[0]
        live = live_names(bytecode)
        at, target = place(bytecode, way)
        handler = bytecode.handler_at(at) if isinstance(way, Suspended) else None
        wanted = live[at] if isinstance(way, InnerCall) else live[target]
        wanted |= live[handler.target] if handler else frozenset()
        name = receiver_name(frame, bytecode)
        names = [each for each in bytecode.code.co_varnames if each in wanted and each in frame.locals and each != name]
        exceptions = handled_exceptions(frame, depth)
        cells = tuple(sorted(each for each in frame.cells if not each.endswith(FREE_MARK)))
        shape = Shape(slots.kinds, len(exceptions), tuple(names), cells, way, name, first, top_first)
        leading = [] if name is None else [receiver(frame, name)]
        values = [*exceptions, *(as_it_is(frame.locals, each) for each in names)]
        add = self.values.add
        return Resuming(
            resume_function(bytecode, frame, shape), (*map(add, leading),), (*slots.numbers, *map(add, values))
        )

    def _wrap(self, level: int, made: Resuming, results: tuple[bool, ...]) -> Exit:
        """Wrap the resume function of frame `level` into those of the frames that called it."""
        for frame, inner in zip(self.frames[level - 1 :: -1], self.frames[level:0:-1], strict=True) if level else ():
            waiting = waiting_at(frame, inner)
            way = InnerCall(len(made.leading), len(made.values), waiting.at, waiting.finish)
            outer = self._resume_waiting(frame, waiting, way, sum(results))
            called = (self.values.add(made.function), *made.leading, *made.values)
            made = Resuming(outer.function, outer.leading, (*outer.values, *called))
        return Exit(self.values.add(made.function), made.leading, results, made.values)

    def _resume_waiting(self, frame: Frame, waiting: Waiting, way: InnerCall, first: int) -> Resuming:
        """The resume function of a frame that waits for a call, with what finishes the instruction."""
        slots = self.slots(frame, waiting.depth)
        made = self._resume(frame, slots, waiting.depth, way, first, bytecode=waiting.bytecode)
        return Resuming(made.function, made.leading, (*made.values, *map(self.values.add, waiting.values)))


@dataclass(frozen=True, slots=True)
class Contents:
    """A value of the residual code: what a cell holds."""

    cell: CellType


@dataclass(frozen=True, slots=True)
class Resuming:
    """A resume function and the numbers of its arguments before and behind the results."""

    function: ResumeFunction
    leading: tuple[int, ...]
    values: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Waiting:
    """Where a frame waits for the next, the depth of its stack without operands, and what finishes the instruction."""

    bytecode: Bytecode
    at: int
    depth: int
    finish: Any
    values: tuple[Any, ...]


def waiting_at(frame: Frame, inner: Frame) -> Waiting:
    depth = len(frame.stack) - taken_by(frame.bytecode.instrs[frame.ip])
    resumed = at_inner_call(frame)
    if resumed is not None:
        assert isinstance(resumed.way, InnerCall)
        values = tuple(as_it_is(frame.locals, name) for name in resumed.needed)
        return Waiting(resumed.bytecode, resumed.way.at, depth, resumed.way.finish, values)
    finish = finish_of(inner.rest, frame)
    assert not isinstance(finish, str)
    bytecode, at = original_place(frame)
    return Waiting(bytecode, at, depth, finish, inner.rest.values if finish else ())


def receiver_name(frame: Frame, bytecode: Bytecode) -> str | None:
    """The first variable of a method that may call `super()`, if it is still bound."""
    code = bytecode.code
    if "__class__" not in frame.cells or not code.co_argcount:
        return None
    name = code.co_varnames[0]
    return name if name in frame.locals or name in frame.cells else None


def receiver(frame: Frame, name: str) -> Any:
    if name in frame.locals:
        return as_it_is(frame.locals, name)
    first = frame.bytecode.code.co_varnames[0]  # of a resume function: the variable that stands for the cell
    return as_it_is(frame.locals, first) if first in frame.locals else Contents(frame.cells[name])


def deepest(frames: Sequence[Frame]) -> int:
    """The last of the frames that can go on by its own: what is left of the instruction behind each call is known.

    A recursion that breaks at each level would be made again from more frames each time: deep down, it calls itself.
    """
    level = 0
    entered: Counter[tuple[str, int]] = Counter()
    while level + 1 < len(frames):
        outer, inner = frames[level], frames[level + 1]
        code = inner.bytecode.code  # or that of one of its resume functions
        function = (code.co_filename, code.co_firstlineno)
        entered[function] += 1
        if inner.rest is None or isinstance(finish_of(inner.rest, outer), str) or entered[function] > RECURSIVE:
            break
        level += 1
    return level


def handled_exceptions(frame: Frame, depth: int) -> list[BaseException]:
    """The exceptions that the frame is handling, outermost first, as far as its lowest `depth` slots tell."""
    slots = [index for index in handled_slots(frame.bytecode)[frame.ip] if index < len(frame.stack)]
    ordered = sorted(slots)
    current = [frame.stack[index] for index in ordered[1:]] + [frame.handled]
    return [exception for index, exception in zip(ordered, current, strict=False) if index < depth]


def write_value(rebuild: Rebuilding, value: Any) -> str:
    match plain(value):
        case ResumeFunction():
            return write_resume_function(rebuild, value)
        case Unread(_, source):
            return rebuild.source(source)
        case Contents(cell):
            return rebuild.assign(f"{rebuild.value(cell)}.cell_contents")
    return rebuild.value(value)
