"""Stack manipulation and constants."""

from __future__ import annotations

from typing import Any

from onegraph.capture.bytecode import Instr
from onegraph.capture.interp.frame import NULL, Frame
from onegraph.capture.interp.ops.table import opcode


@opcode("NOP", "RESUME", "COPY_FREE_VARS")
def nop(machine: Any, frame: Frame, instr: Instr) -> None:
    """Does nothing: a frame is made with its closure in place."""


@opcode("POP_TOP")
def pop_top(machine: Any, frame: Frame, instr: Instr) -> None:
    frame.stack.pop()


@opcode("PUSH_NULL")
def push_null(machine: Any, frame: Frame, instr: Instr) -> None:
    frame.stack.append(NULL)


@opcode("LOAD_CONST")
def load_const(machine: Any, frame: Frame, instr: Instr) -> None:
    frame.stack.append(instr.arg)


@opcode("COPY")
def copy(machine: Any, frame: Frame, instr: Instr) -> None:
    frame.stack.append(frame.stack[-instr.arg])


@opcode("SWAP")
def swap(machine: Any, frame: Frame, instr: Instr) -> None:
    stack = frame.stack
    stack[-1], stack[-instr.arg] = stack[-instr.arg], stack[-1]
