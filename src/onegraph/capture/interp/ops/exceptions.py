"""Raising, catching and `with`."""

from __future__ import annotations

from typing import Any, NoReturn

from onegraph.capture.bytecode import Instr
from onegraph.capture.interp.frame import Frame
from onegraph.capture.interp.ops.table import opcode
from onegraph.capture.interp.rests import LEFT


@opcode("RAISE_VARARGS")
def raise_varargs(machine: Any, frame: Frame, instr: Instr) -> NoReturn:
    base = len(frame.stack) - instr.arg
    operands = frame.stack[base:]
    del frame.stack[base:]
    machine.raise_exception(*operands)


@opcode("RERAISE")
def reraise(machine: Any, frame: Frame, instr: Instr) -> NoReturn:
    machine.raise_again(frame.stack.pop())


@opcode("PUSH_EXC_INFO")
def push_exc_info(machine: Any, frame: Frame, instr: Instr) -> None:
    exception = frame.stack[-1]
    frame.stack[-1] = frame.handled
    frame.stack.append(exception)
    frame.handled = exception


@opcode("POP_EXCEPT")
def pop_except(machine: Any, frame: Frame, instr: Instr) -> None:
    frame.handled = frame.stack.pop()


@opcode("CHECK_EXC_MATCH")
def check_exc_match(machine: Any, frame: Frame, instr: Instr) -> None:
    frame.stack[-1] = machine.exception_matches(frame.stack[-2], frame.stack[-1])


@opcode("CHECK_EG_MATCH")
def check_eg_match(machine: Any, frame: Frame, instr: Instr) -> None:
    rest, match = machine.match_group(*frame.stack[-2:])
    frame.stack[-2:] = rest, match
    if match is not None:
        frame.handled = match


@opcode("BEFORE_WITH")
def before_with(machine: Any, frame: Frame, instr: Instr) -> None:
    leave, entered = machine.enter_context(frame.stack[-1])
    frame.stack[-1] = leave
    frame.stack.append(entered)


@opcode("WITH_EXCEPT_START")
def with_except_start(machine: Any, frame: Frame, instr: Instr) -> None:
    exception = frame.stack[-1]
    leave = frame.stack[-4]
    raised = type(exception), exception, machine.traceback_of(exception)
    frame.stack.append(machine.call_before(LEFT, leave, raised, {}))
