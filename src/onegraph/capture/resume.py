"""Resuming behind a graph break.

A break happens at an instruction of the innermost of some frames that were inlined into each other. The replacement of
the root frame ends like this (normal form):

    ...                         residual code: run the graph, replay writes, rebuild the live values
    rebuild the innermost frame's operand stack, and the exceptions that it is handling
    the breaking instruction    in Python, natively: it is what could not be traced
    call resume(values...)      one way on for each outcome: it goes on, it jumps, or a handler catches what it raises

A resume function is a frame's own bytecode behind a prologue that puts its stack and its handled exceptions back.
That of the innermost frame then jumps behind the breaking instruction. That of an outer frame first calls the resume
function of the frame that it had called, in the place (and under the handlers) of the original call. So the rest of
all frames is one call, which the hook captures as one frame in turn.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from inspect import CO_ASYNC_GENERATOR, CO_COROUTINE, CO_GENERATOR, CO_VARARGS, CO_VARKEYWORDS
from types import CellType, CodeType, FunctionType
from typing import Any

from onegraph.capture.bytecode import NULL_FIRST, Bytecode, Handler, Instr, encode
from onegraph.capture.bytecode.flow import TERMINATORS, handled_slots, live_names, stack_effect
from onegraph.capture.interp.frame import NULL, Frame
from onegraph.capture.residual import Rebuild

#: How many stack slots a call takes; only calls can have called the next frame.
CALL_OPERANDS = {
    "CALL": lambda arg: arg + 2,
    "CALL_KW": lambda arg: arg[0] + 2,
    "CALL_FUNCTION_EX": lambda keywords: 3 + bool(keywords),
}
#: Instructions that cannot be run outside of their frame.
UNRESUMABLE = TERMINATORS | frozenset(
    """YIELD_VALUE SEND PUSH_EXC_INFO POP_EXCEPT LOAD_LOCALS LOAD_CLOSURE MAKE_CELL LOAD_METHOD LOAD_SUPER_METHOD
    LOAD_SUPER_ATTR LOAD_DEREF STORE_DEREF DELETE_DEREF LOAD_NAME STORE_NAME DELETE_NAME WITH_EXCEPT_START""".split()
)
#: Instructions that mean the globals of their frame.
GLOBAL_NAMES = frozenset({"LOAD_GLOBAL", "STORE_GLOBAL", "DELETE_GLOBAL", "IMPORT_NAME"})
#: Names of functions that look at the variables of their caller: a resume function has not all of them.
FRAME_ACCESS = frozenset({"locals", "vars", "dir", "eval", "exec"})
NAMES = frozenset({"LOAD_GLOBAL", "LOAD_NAME"})
_SUSPENDABLE = CO_GENERATOR | CO_COROUTINE | CO_ASYNC_GENERATOR


@dataclass(frozen=True, slots=True)
class ResumeFunction:
    """A function to be made behind the break: its code, and the cells that it closes over."""

    code: CodeType
    namespace: dict[str, Any]
    cells: tuple[CellType, ...]


@dataclass(frozen=True, slots=True)
class Exit:
    """One outcome of the breaking instruction: the resume function of the root frame and what it is called with.

    `results` are the slots of the native stack that it takes first (from `bottom` up), `values` the computed values.
    """

    function: int
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
    following: Exit
    jumping: Exit | None
    raising: Exit | None
    depth_when_raising: int


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
        if isinstance(value, ResumeFunction) or id(value) not in self._numbers:
            self._numbers[id(value)] = len(self.items)
            self.items.append(value)
        return self._numbers[id(value)]


@dataclass(frozen=True, slots=True)
class Slots:
    """A frame's stack as a resume function rebuilds it: kinds of the slots, and the values of those that have one."""

    kinds: tuple[str, ...]  # "value", "null", "handled", "lasti"
    numbers: tuple[int, ...]


def plan_resume(frames: Sequence[Frame]) -> Continuation | str:
    """The continuation behind the instruction that the last of the frames has stopped at, or why there is none."""
    frame = frames[-1]
    instruction = frame.bytecode.instrs[frame.ip]
    for each in frames:
        if each.bytecode.code.co_flags & _SUSPENDABLE:
            return "a generator cannot be resumed yet"
        if each.namespace is not None:
            return "the body of a class cannot be resumed"
        if any(instr.op in NAMES and instr.arg in FRAME_ACCESS for instr in each.bytecode.instrs):
            return "the function looks at its own variables"
    if instruction.op in UNRESUMABLE:
        return f"the instruction {instruction.op} cannot be resumed"
    if instruction.op in GLOBAL_NAMES and frame.globals is not frames[0].globals:
        return f"the instruction {instruction.op} needs the globals of another module"
    values = Values()
    planner = Planner(frames, values)
    depth = len(frame.stack) + stack_effect(instruction)
    following = planner.exit_at(frame.ip + 1, depth)
    jumping = None
    if instruction.target is not None:
        jumping = planner.exit_at(instruction.target, len(frame.stack) + stack_effect(instruction, jump=True))
    raising, depth_when_raising = planner.exit_when_raising()
    stack = planner.native_stack()
    return Continuation(tuple(values.items), instruction, stack, following, jumping, raising, depth_when_raising)


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
        handled = handled_slots(frame.bytecode)[frame.ip]
        kinds, numbers = [], []
        for index, value in enumerate(frame.stack[:depth]):
            if index in handled:
                kinds.append("handled")
            elif value is NULL:
                kinds.append("null")
            else:
                kinds.append("value")
                numbers.append(self.values.add(value))
        return Slots(tuple(kinds), tuple(numbers))

    def exit_at(self, target: int, depth: int) -> Exit:
        """Go on at `target` with the `depth` slots that the breaking instruction leaves on the native stack."""
        frame = self.frames[-1]
        kept = self.slots(frame, min(depth, len(frame.stack))).kinds
        kinds = [*kept, *["value"] * (depth - len(kept))]
        if depth and kinds[-1] != "handled":
            kinds[-1] = "value"
        results = tuple(kind == "value" for kind in kinds)
        exceptions = self._exceptions(frame, depth)
        names = live_in(frame, live_names(frame.bytecode)[target])
        locals_ = tuple(self.values.add(frame.locals[name]) for name in names)
        made = build(frame, Slots(tuple(kinds), ()), len(exceptions), names, Jump(target))
        return self._wrap(len(self.frames) - 1, made, results, (*exceptions, *locals_))

    def exit_when_raising(self) -> tuple[Exit | None, int]:
        """Go on in the innermost handler, with the exception on top; and the native stack's depth there."""
        for level in range(len(self.frames) - 1, -1, -1):
            frame = self.frames[level]
            handler = frame.bytecode.handler_at(frame.ip)
            if handler is None:
                continue
            slots = self.slots(frame, handler.depth)
            kinds = (*slots.kinds, *(("lasti",) if handler.lasti else ()), "value")
            exceptions = self._exceptions(frame, handler.depth)
            names = live_in(frame, live_names(frame.bytecode)[handler.target])
            locals_ = tuple(self.values.add(frame.locals[name]) for name in names)
            # The exception is the native stack's one result, so it is taken first.
            made = build(frame, Slots(kinds, ()), len(exceptions), names, Jump(handler.target), top_first=True)
            exit_ = self._wrap(level, made, (True,), (*slots.numbers, *exceptions, *locals_))
            kept = max(handled_slots(self.frames[-1].bytecode)[self.frames[-1].ip], default=-1) + 1
            return exit_, int(self.ambient is not None) + kept
        return None, 0

    def _exceptions(self, frame: Frame, depth: int) -> tuple[int, ...]:
        return tuple(self.values.add(exception) for exception in handled_exceptions(frame, depth))

    def _wrap(self, level: int, made: ResumeFunction, results: tuple[bool, ...], rest: tuple[int, ...]) -> Exit:
        """Wrap the resume function of frame `level` into those of the frames that called it."""
        count = sum(results)
        for outer in range(level - 1, -1, -1):
            frame = self.frames[outer]
            call = frame.bytecode.instrs[frame.ip]
            depth = len(frame.stack) - CALL_OPERANDS[call.op](call.arg)
            slots = self.slots(frame, depth)
            exceptions = self._exceptions(frame, depth)
            live = live_names(frame.bytecode)
            handler = frame.bytecode.handler_at(frame.ip)
            names = live_in(frame, live[frame.ip + 1] | (live[handler.target] if handler else frozenset()))
            locals_ = tuple(self.values.add(frame.locals[name]) for name in names)
            inner = self.values.add(made)
            way = InnerCall(count + len(rest), frame.ip)
            made = build(frame, slots, len(exceptions), names, way, first=count)
            rest = (*slots.numbers, *exceptions, *locals_, inner, *rest)
        return Exit(self.values.add(made), results, rest)


def deepest(frames: Sequence[Frame]) -> int:
    """The last of the frames that can go on by its own: each was called by a plain call of the one before."""
    level = 0
    while level + 1 < len(frames):
        outer, inner = frames[level], frames[level + 1]
        if not inner.plain_call or inner.parent is not outer or outer.bytecode.instrs[outer.ip].op not in CALL_OPERANDS:
            break
        level += 1
    return level


def handled_exceptions(frame: Frame, depth: int) -> list[BaseException]:
    """The exceptions that the frame is handling, outermost first, as far as its lowest `depth` slots tell."""
    slots = [index for index in handled_slots(frame.bytecode)[frame.ip] if index < len(frame.stack)]
    ordered = sorted(slots)
    current = [frame.stack[index] for index in ordered[1:]] + [frame.handled]
    return [exception for index, exception in zip(ordered, current, strict=False) if index < depth]


def live_in(frame: Frame, live: frozenset[str]) -> list[str]:
    return sorted(name for name in live if name in frame.locals)


# ---- resume functions ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Jump:
    """A resume function goes on at this instruction of the frame."""

    target: int


@dataclass(frozen=True, slots=True)
class InnerCall:
    """A resume function first calls that of the frame it had called, with `count` arguments, in the place of `at`."""

    count: int
    at: int


def build(
    frame: Frame,
    slots: Slots,
    handled: int,
    names: list[str],
    way: Jump | InnerCall,
    first: int = 0,
    top_first: bool = False,
) -> ResumeFunction:
    """The frame's bytecode behind a prologue.

    Its parameters: `first` results for the inner call, the stack's values, the handled exceptions, the live locals, and
    for an inner call the function and the rest of its arguments.
    """
    taken = frame.bytecode.code.co_varnames
    turn = next(f"_{n}" for n in range(len(taken) + 1) if not any(name.endswith(f"_{n}") for name in taken))
    stack_names = [f"stack{index}{turn}" for index, kind in enumerate(slots.kinds) if kind == "value"]
    exception_names = [f"handled{index}{turn}" for index in range(handled)]
    inner = [f"inner{index}{turn}" for index in range(way.count)] if isinstance(way, InnerCall) else []
    given = [*stack_names[-1:], *stack_names[:-1]] if top_first else stack_names
    call = [f"call{turn}", *inner[first:]] if isinstance(way, InnerCall) else []
    parameters = [*inner[:first], *given, *exception_names, *names, *call]
    prologue = rebuild_stack(slots.kinds, stack_names, exception_names)
    bytecode = frame.bytecode
    cells = sorted(frame.cells)
    prologue = [*([Instr("COPY_FREE_VARS", len(cells))] if cells else []), Instr("RESUME", 0), *prologue]
    handlers: list[Handler] = []
    target = way.target if isinstance(way, Jump) else way.at + 1
    if isinstance(way, InnerCall):
        prologue += call_instructions(f"call{turn}", inner)
    shift = len(prologue) + 1
    if isinstance(way, InnerCall):
        around = bytecode.handler_at(way.at)
        if around is not None:
            handlers.append(Handler(shift - 2, shift - 1, around.target + shift, around.depth, around.lasti))
    prologue.append(Instr("JUMP", target=target + shift))
    body = [shifted(instr, shift) for instr in bytecode.instrs]
    handlers += [Handler(h.start + shift, h.end + shift, h.target + shift, h.depth, h.lasti) for h in bytecode.handlers]
    others = [name for name in bytecode.code.co_varnames if name not in names and name not in frame.cells]
    position = bytecode.instrs[frame.ip].position
    placed = [Instr(i.op, i.arg, i.target, i.offset, position) for i in prologue]
    code = encode(
        Bytecode(bytecode.code, (*placed, *body), tuple(handlers)),
        co_argcount=len(parameters),
        co_posonlyargcount=0,
        co_kwonlyargcount=0,
        co_flags=bytecode.code.co_flags & ~(CO_VARARGS | CO_VARKEYWORDS),
        co_varnames=(*parameters, *others),
        co_cellvars=(),
        co_freevars=tuple(cells),
    )
    return ResumeFunction(code, frame.globals, tuple(frame.cells[name] for name in cells))


def rebuild_stack(kinds: Sequence[str], values: Sequence[str], exceptions: Sequence[str]) -> list[Instr]:
    """Instructions that put the slots on the stack, the values and exceptions being in variables."""
    out: list[Instr] = []
    waiting, handled = iter(values), iter(exceptions)
    for kind in kinds:
        match kind:
            case "null":
                out.append(Instr("PUSH_NULL"))
            case "lasti":
                out.append(Instr("LOAD_CONST", 0))
            case "handled":
                out += [Instr("LOAD_FAST", next(handled)), Instr("PUSH_EXC_INFO"), Instr("POP_TOP")]
            case _:
                out.append(Instr("LOAD_FAST", next(waiting)))
    return out


def call_instructions(function: str, arguments: Sequence[str]) -> list[Instr]:
    """Call a function in a variable with arguments in variables."""
    pair = [Instr("LOAD_FAST", function), Instr("PUSH_NULL")]
    if NULL_FIRST:
        pair.reverse()
    return [*pair, *(Instr("LOAD_FAST", name) for name in arguments), Instr("CALL", len(arguments))]


def shifted(instr: Instr, by: int) -> Instr:
    """The instruction at its new place. What sets up a frame is left out: the prologue has done it."""
    if instr.op in ("MAKE_CELL", "COPY_FREE_VARS"):
        return Instr("NOP", None, None, instr.offset, instr.position)
    target = None if instr.target is None else instr.target + by
    return Instr(instr.op, instr.arg, target, instr.offset, instr.position)


def write_resume_function(rebuild: Rebuild, made: ResumeFunction) -> str:
    """The expression of a resume function; one without free variables is a constant."""
    if not made.cells:
        return rebuild.const(FunctionType(made.code, made.namespace, made.code.co_name))
    cells = "".join(f"{rebuild.value(cell)}, " for cell in made.cells)
    parts = f"{rebuild.const(made.code)}, {rebuild.const(made.namespace)}, {made.code.co_name!r}, None, ({cells})"
    return rebuild.assign(f"{rebuild.const(FunctionType)}({parts})")
