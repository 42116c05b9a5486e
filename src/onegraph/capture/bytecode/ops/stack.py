"""Stack manipulation and constants."""

from __future__ import annotations

from typing import Any

from onegraph.capture.bytecode.frame import NULL, Frame
from onegraph.capture.bytecode.instruction import Instr
from onegraph.capture.bytecode.opcode import opcode


@opcode("NOP: --", "silent")
@opcode("RESUME number: --")
@opcode("COPY_FREE_VARS number: --")
def nop(machine: Any, frame: Frame, instr: Instr) -> None:
    """Does nothing: a frame is made with its closure in place.

    RESUME n: n & 3 is 0 at the start, then behind yield, yield from, await. The encoder computes COPY_FREE_VARS's n.
    """


@opcode("POP_TOP: any --", "silent")
def pop_top(machine: Any, frame: Frame, instr: Instr) -> None:
    frame.stack.pop()


@opcode("PUSH_NULL: -- NULL")
def push_null(machine: Any, frame: Frame, instr: Instr) -> None:
    frame.stack.append(NULL)


@opcode("LOAD_CONST constant: -- constant")
def load_const(machine: Any, frame: Frame, instr: Instr) -> None:
    frame.stack.append(instr.arg)


@opcode("COPY number: any between*number-1 -- any between*number-1 any")
def copy(machine: Any, frame: Frame, instr: Instr) -> None:
    frame.stack.append(frame.stack[-instr.arg])


@opcode("SWAP number: any between*number-2 other -- other between*number-2 any")
def swap(machine: Any, frame: Frame, instr: Instr) -> None:
    stack = frame.stack
    stack[-1], stack[-instr.arg] = stack[-instr.arg], stack[-1]
