"""Resuming behind a graph break.

The replacement of a frame that breaks at instruction `i` ends like this (normal form):

    ...                         residual code: run the graph, replay writes, rebuild the live values
    rebuild the operand stack
    instruction i               in Python, natively: it is what could not be traced
    call resume(stack..., locals...)

and the resume function is the frame's own bytecode behind a prologue that puts the stack back and jumps to `i + 1`.
It is an ordinary function, so the hook captures it in turn.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from inspect import CO_ASYNC_GENERATOR, CO_COROUTINE, CO_GENERATOR, CO_VARARGS, CO_VARKEYWORDS
from types import CellType, CodeType, FunctionType
from typing import Any

from onegraph.capture.bytecode import NULL_FIRST, Bytecode, Handler, Instr, decode, encode
from onegraph.capture.bytecode.flow import stack_effect
from onegraph.capture.interp.frame import NULL, Frame
from onegraph.capture.residual import Rebuild

#: Instructions that read and write fast locals.
READS = frozenset({"LOAD_FAST", "LOAD_FAST_CHECK", "LOAD_FAST_AND_CLEAR", "LOAD_CLOSURE", "DELETE_FAST"})
WRITES = frozenset({"STORE_FAST", "STORE_FAST_MAYBE_NULL", "DELETE_FAST"})


@dataclass(frozen=True, slots=True)
class ResumeFunction:
    """A function to be made behind the break: its code, and the cells that it closes over."""

    code: CodeType
    namespace: dict[str, Any]
    cells: tuple[CellType, ...]


@dataclass(frozen=True, slots=True)
class Continuation:
    """How a replacement goes on behind the break.

    `values` is what the residual code computes: the resume functions, the operand stack without its NULLs, then the
    live locals. `ends` are the stack depths behind the breaking instruction: when it falls through, and when it jumps.
    """

    values: tuple[Any, ...]
    instruction: Instr
    nulls: tuple[bool, ...]
    local_names: tuple[str, ...]
    ends: tuple[int, ...]


def plan_resume(frame: Frame, start: Any) -> Continuation | str:
    """The continuation behind the instruction that the frame has stopped at, or why there is none."""
    bytecode, index = frame.bytecode, frame.ip
    instruction = bytecode.instrs[index]
    if bytecode.code.co_flags & (CO_GENERATOR | CO_COROUTINE | CO_ASYNC_GENERATOR):
        return "a generator cannot be resumed yet"
    if bytecode.handler_at(index) is not None:
        return "the break is inside of a try or with block, which cannot be resumed yet"
    if instruction.op in UNRESUMABLE:
        return f"the instruction {instruction.op} cannot be resumed"
    targets = [(index + 1, len(frame.stack) + stack_effect(instruction))]
    if instruction.target is not None:
        targets.append((instruction.target, len(frame.stack) + stack_effect(instruction, jump=True)))
    live = live_names(bytecode)
    names = sorted({name for target, _ in targets for name in live[target] if name in frame.locals})
    nulls = tuple(slot is NULL for slot in frame.stack)
    functions = tuple(resume_function(frame, target, after_nulls(frame, depth), names) for target, depth in targets)
    stack = [slot for slot in frame.stack if slot is not NULL]
    values = (*functions, *stack, *(frame.locals[name] for name in names))
    return Continuation(values, instruction, nulls, tuple(names), tuple(depth for _, depth in targets))


def after_nulls(frame: Frame, depth: int) -> tuple[bool, ...]:
    """Which stack slots are NULL behind the instruction: below what it took as before, the rest are values."""
    kept = [slot is NULL for slot in frame.stack[:depth]]
    kept += [False] * (depth - len(kept))
    if depth:
        kept[-1] = False
    return tuple(kept)


def resume_function(frame: Frame, target: int, nulls: tuple[bool, ...], names: list[str]) -> ResumeFunction:
    """The frame's bytecode behind a prologue that takes the stack and the live locals as arguments."""
    bytecode = frame.bytecode
    cells = sorted(frame.cells)
    stack_names = [f"stack{depth}_" for depth, null in enumerate(nulls) if not null]
    prologue = [Instr("COPY_FREE_VARS", len(cells))] if cells else []
    prologue.append(Instr("RESUME", 0))
    waiting = iter(stack_names)
    prologue += [Instr("PUSH_NULL") if null else Instr("LOAD_FAST", next(waiting)) for null in nulls]
    shift = len(prologue) + 1
    prologue.append(Instr("JUMP", target=target + shift))
    body = [shifted(instr, shift) for instr in bytecode.instrs]
    handlers = tuple(
        Handler(h.start + shift, h.end + shift, h.target + shift, h.depth, h.lasti) for h in bytecode.handlers
    )
    others = [name for name in bytecode.code.co_varnames if name not in names and name not in frame.cells]
    code = encode(
        Bytecode(bytecode.code, (*prologue, *body), handlers),
        co_argcount=len(stack_names) + len(names),
        co_posonlyargcount=0,
        co_kwonlyargcount=0,
        co_flags=bytecode.code.co_flags & ~(CO_VARARGS | CO_VARKEYWORDS),
        co_varnames=(*stack_names, *names, *others),
        co_cellvars=(),
        co_freevars=tuple(cells),
    )
    return ResumeFunction(code, frame.globals, tuple(frame.cells[name] for name in cells))


def shifted(instr: Instr, by: int) -> Instr:
    """The instruction at its new place. What sets up a frame is left out: the prologue has done it."""
    if instr.op in ("MAKE_CELL", "COPY_FREE_VARS"):
        return Instr("NOP", None, None, instr.offset, instr.position)
    target = None if instr.target is None else instr.target + by
    return Instr(instr.op, instr.arg, target, instr.offset, instr.position)


def splice(code: CodeType, continuation: Continuation, start: Any) -> CodeType:
    """Replace the return of the residual code by the breaking instruction and the call of the resume function."""
    bytecode = decode(code)
    place = max(index for index, instr in enumerate(bytecode.instrs) if instr.op == "RETURN_VALUE")
    tail = list(ending(continuation, place))
    stored = [instr.arg for instr in tail if instr.op in WRITES]
    names = tuple(dict.fromkeys((*code.co_varnames, *stored)))
    return encode(Bytecode(code, (*bytecode.instrs[:place], *tail), bytecode.handlers), co_varnames=names)


def ending(continuation: Continuation, place: int) -> Iterator[Instr]:
    """The instructions behind the residual code; the tuple of the values is on the stack."""
    functions = [f"resume{index}_" for index in range(len(continuation.ends))]
    stack = [f"stack{index}_" for index, null in enumerate(continuation.nulls) if not null]
    names = [f"local{index}_" for index in range(len(continuation.local_names))]
    unpacked = [*functions, *stack, *names]
    out = [Instr("UNPACK_SEQUENCE", len(unpacked)), *(Instr("STORE_FAST", name) for name in unpacked)]
    waiting = iter(stack)
    out += [Instr("PUSH_NULL") if null else Instr("LOAD_FAST", next(waiting)) for null in continuation.nulls]
    position = continuation.instruction.position
    jump_at = len(out)
    out.append(continuation.instruction)
    starts = []
    for function, depth in zip(functions, continuation.ends, strict=True):
        starts.append(place + len(out))
        out += call_resume(function, continuation, depth, names)
    if continuation.instruction.target is not None:
        jumping = continuation.instruction
        out[jump_at] = Instr(jumping.op, jumping.arg, starts[1], jumping.offset, position)
    return iter(Instr(i.op, i.arg, i.target, i.offset, i.position or position) for i in out)


def call_resume(function: str, continuation: Continuation, depth: int, names: list[str]) -> list[Instr]:
    """Take `depth` values from the stack, call the resume function with them and the locals, and return its result."""
    nulls = [
        index < len(continuation.nulls) and continuation.nulls[index] and index < depth - 1 for index in range(depth)
    ]
    results = [f"result{index}_" for index in range(depth)]
    out = []
    for name, null in zip(reversed(results), reversed(nulls), strict=True):
        out.append(Instr("STORE_FAST_MAYBE_NULL" if null else "STORE_FAST", name))
    arguments = [name for name, null in zip(results, nulls, strict=True) if not null] + names
    out += (
        [Instr("PUSH_NULL"), Instr("LOAD_FAST", function)]
        if NULL_FIRST
        else [Instr("LOAD_FAST", function), Instr("PUSH_NULL")]
    )
    out += [Instr("LOAD_FAST", name) for name in arguments]
    return [*out, Instr("CALL", len(arguments)), Instr("RETURN_VALUE")]


def live_names(bytecode: Bytecode) -> list[frozenset[str]]:
    """For each instruction, the fast locals that may be read at or behind it before they are written."""
    instrs = bytecode.instrs
    live: list[frozenset[str]] = [frozenset()] * (len(instrs) + 1)
    changed = True
    while changed:
        changed = False
        for index in range(len(instrs) - 1, -1, -1):
            now = live_at(bytecode, index, live)
            if now != live[index]:
                live[index], changed = now, True
    return live


def live_at(bytecode: Bytecode, index: int, live: list[frozenset[str]]) -> frozenset[str]:
    instr = bytecode.instrs[index]
    behind = frozenset() if instr.op in TERMINATORS else live[index + 1]
    if instr.target is not None:
        behind |= live[instr.target]
    handler = bytecode.handler_at(index)
    if instr.op in WRITES:
        behind -= {instr.arg}
    if instr.op in READS:
        behind |= {instr.arg}
    return behind if handler is None else behind | live[handler.target]


TERMINATORS = frozenset({"RETURN_VALUE", "RAISE_VARARGS", "RERAISE", "JUMP", "JUMP_NO_INTERRUPT"})
#: Instructions that cannot be run outside of their frame.
UNRESUMABLE = TERMINATORS | {
    "YIELD_VALUE",
    "SEND",
    "PUSH_EXC_INFO",
    "POP_EXCEPT",
    "LOAD_LOCALS",
    "LOAD_CLOSURE",
    "MAKE_CELL",
}


def write_resume_function(rebuild: Rebuild, made: ResumeFunction) -> str:
    """The expression of a resume function; one without free variables is a constant."""
    if not made.cells:
        return rebuild.const(FunctionType(made.code, made.namespace, made.code.co_name))
    cells = "".join(f"{rebuild.value(cell)}, " for cell in made.cells)
    parts = f"{rebuild.const(made.code)}, {rebuild.const(made.namespace)}, {made.code.co_name!r}, None, ({cells})"
    return rebuild.assign(f"{rebuild.const(FunctionType)}({parts})")
