"""Jumps, loops and returning."""

from __future__ import annotations

from typing import Any

from onegraph.capture.bytecode.frame import Frame
from onegraph.capture.bytecode.instruction import Instr
from onegraph.capture.bytecode.opcode import RETURN, opcode


@opcode("JUMP target: --", "ends", "stays")
@opcode("JUMP_NO_INTERRUPT target: --", "ends", "stays")
def jump(machine: Any, frame: Frame, instr: Instr) -> int | None:
    return instr.target


@opcode("POP_JUMP_IF_TRUE target: condition --")
def pop_jump_if_true(machine: Any, frame: Frame, instr: Instr) -> int | None:
    return instr.target if frame.stack.pop() else None


@opcode("POP_JUMP_IF_FALSE target: condition --")
def pop_jump_if_false(machine: Any, frame: Frame, instr: Instr) -> int | None:
    return None if frame.stack.pop() else instr.target


@opcode("POP_JUMP_IF_NONE target: value --")
def pop_jump_if_none(machine: Any, frame: Frame, instr: Instr) -> int | None:
    return instr.target if frame.stack.pop() is None else None


@opcode("POP_JUMP_IF_NOT_NONE target: value --")
def pop_jump_if_not_none(machine: Any, frame: Frame, instr: Instr) -> int | None:
    return None if frame.stack.pop() is None else instr.target


@opcode("GET_ITER: iterable -- iterator")
def get_iter(machine: Any, frame: Frame, instr: Instr) -> None:
    frame.stack[-1] = machine.iter(frame.stack[-1])


@opcode("FOR_ITER target: iterator -- iterator value", jumping="")
def for_iter(machine: Any, frame: Frame, instr: Instr) -> int | None:
    try:
        value = machine.next_in_loop(frame.stack[-1])
    except StopIteration:
        frame.stack.pop()
        return instr.target
    frame.stack.append(value)
    return None


@opcode("RETURN_VALUE: any --", "ends", "stays")
def return_value(machine: Any, frame: Frame, instr: Instr) -> int:
    frame.result = frame.stack.pop()
    frame.release()
    return RETURN
