"""Making functions; intrinsics."""

from __future__ import annotations

from typing import Any

from onegraph.capture.bytecode.frame import Frame, Unsupported
from onegraph.capture.bytecode.instruction import Instr
from onegraph.capture.bytecode.opcode import opcode, operation
from onegraph.capture.pyobject.exact_types import isinstance


@opcode("MAKE_FUNCTION: ... code -- function")
def make_function(machine: Any, frame: Frame, instr: Instr) -> None:
    """A function's closure must be there when it is made, so the attributes that follow are taken with it."""
    attributes = {}
    index = frame.ip + 1
    below = -2
    while (following := frame.bytecode.instrs[index]).op == "SET_FUNCTION_ATTRIBUTE":
        attributes[following.arg] = frame.stack[below]
        index += 1
        below -= 1
    frame.stack[-1] = machine.make_function(frame, frame.stack[-1], attributes)


# 'closure', 'annotate', 'annotations', 'kwdefaults' or 'defaults', in this order; MAKE_FUNCTION has taken it.
operation("SET_FUNCTION_ATTRIBUTE attribute: value function -- function", lambda machine, _, value, function: function)


@opcode("CALL_INTRINSIC_1 intrinsic: value -- result")
def call_intrinsic_1(machine: Any, frame: Frame, instr: Instr) -> None:
    """The argument is the name without the prefix INTRINSIC_."""
    value = frame.stack[-1]
    match instr.arg:
        case "LIST_TO_TUPLE":
            result = machine.list_to_tuple(value)
        case "UNARY_POSITIVE":
            result = machine.unary("+", value)
        case "IMPORT_STAR":
            result = machine.import_star(frame, value)
        case "STOPITERATION_ERROR":
            result = _stop_iteration_error(frame, value)
        case "ASYNC_GEN_WRAP":
            raise Unsupported("an asynchronous generator")
        case _:
            result = machine.native_instruction(instr, (value,))
    frame.stack[-1] = result


def _stop_iteration_error(frame: Frame, raised: BaseException) -> BaseException:
    if not isinstance(raised, StopIteration):
        return raised
    error = RuntimeError("generator raised StopIteration")
    error.__cause__ = error.__context__ = raised
    return error


operation(
    "CALL_INTRINSIC_2 intrinsic: first second -- result",
    lambda machine, name, *values: machine.native_instruction(Instr("CALL_INTRINSIC_2", name), values),
)
