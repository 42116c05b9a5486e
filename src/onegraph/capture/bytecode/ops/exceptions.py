"""Raising, catching and `with`."""

from __future__ import annotations

from typing import Any

from onegraph.capture.bytecode.frame import Frame
from onegraph.capture.bytecode.instruction import Instr
from onegraph.capture.bytecode.opcode import opcode, operation
from onegraph.capture.bytecode.ops.calls import null_pair, split_pair


@opcode("RAISE_VARARGS number: operand*number --", "ends")
def raise_varargs(machine: Any, frame: Frame, instr: Instr) -> None:
    base = len(frame.stack) - instr.arg
    operands = frame.stack[base:]
    del frame.stack[base:]
    machine.raise_exception(*operands)


@opcode("RERAISE number: exception --", "ends")
def reraise(machine: Any, frame: Frame, instr: Instr) -> None:
    """With an argument, the n-th below the exception is the instruction to blame."""
    machine.raise_again(frame.stack.pop())


@opcode("PUSH_EXC_INFO: exception -- previous exception", "stays")
def push_exc_info(machine: Any, frame: Frame, instr: Instr) -> None:
    exception = frame.stack[-1]
    frame.stack[-1] = frame.handled
    frame.stack.append(exception)
    frame.handled = exception


@opcode("POP_EXCEPT: previous --", "silent")
def pop_except(machine: Any, frame: Frame, instr: Instr) -> None:
    frame.handled = frame.stack.pop()


operation(
    "CHECK_EXC_MATCH: exception type -- exception bool",
    lambda machine, _, exception, wanted: machine.exception_matches(exception, wanted),
)


@opcode("CHECK_EG_MATCH: group type -- rest match")
def check_eg_match(machine: Any, frame: Frame, instr: Instr) -> None:
    rest, match = machine.match_group(*frame.stack[-2:])
    frame.stack[-2:] = rest, match
    if match is not None:
        frame.handled = match


operation("BEFORE_WITH: manager -- exit entered", lambda machine, _, manager: machine.enter_context(manager))
operation(
    "LOAD_SPECIAL special: object -- callable self",
    lambda machine, name, obj: null_pair(machine.special_method(obj, name)),
    "stays",
)


@opcode(
    "WITH_EXCEPT_START flag: exit self*flag lasti previous exception -- exit self*flag lasti previous exception result"
)
def with_except_start(machine: Any, frame: Frame, instr: Instr) -> None:
    """With the flag, what leaves the block is a callable pair."""
    stack = frame.stack
    leave, args = split_pair(stack[-5:-3], ()) if instr.arg else (stack[-4], ())
    stack.append(machine.leave_context(leave, args, stack[-1]))
