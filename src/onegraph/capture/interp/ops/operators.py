"""Attributes, items, operators, comparisons, text."""

from __future__ import annotations

from typing import Any

from onegraph.capture.bytecode import NULL_FIRST, Instr
from onegraph.capture.interp.frame import NULL, Frame
from onegraph.capture.interp.ops.table import opcode


def push_callable(frame: Frame, value: Any) -> None:
    """A callable pair without self, in the native order."""
    frame.stack += (NULL, value) if NULL_FIRST else (value, NULL)


@opcode("LOAD_ATTR")
def load_attr(machine: Any, frame: Frame, instr: Instr) -> None:
    frame.stack[-1] = machine.getattr(frame.stack[-1], instr.arg)


@opcode("LOAD_METHOD")
def load_method(machine: Any, frame: Frame, instr: Instr) -> None:
    value = machine.getattr(frame.stack[-1], instr.arg)
    frame.stack.pop()
    push_callable(frame, value)


def _super_attribute(machine: Any, frame: Frame, instr: Instr) -> Any:
    cls, obj = frame.stack[-2:]
    name, explicit = instr.arg
    found = machine.call(frame.stack[-3], (cls, obj) if explicit else (), {})
    value = machine.getattr(found, name)
    del frame.stack[-3:]
    return value


@opcode("LOAD_SUPER_ATTR")
def load_super_attr(machine: Any, frame: Frame, instr: Instr) -> None:
    frame.stack.append(_super_attribute(machine, frame, instr))


@opcode("LOAD_SUPER_METHOD")
def load_super_method(machine: Any, frame: Frame, instr: Instr) -> None:
    push_callable(frame, _super_attribute(machine, frame, instr))


@opcode("STORE_ATTR")
def store_attr(machine: Any, frame: Frame, instr: Instr) -> None:
    value, obj = frame.stack[-2:]
    machine.setattr(obj, instr.arg, value)
    del frame.stack[-2:]


@opcode("DELETE_ATTR")
def delete_attr(machine: Any, frame: Frame, instr: Instr) -> None:
    machine.delattr(frame.stack[-1], instr.arg)
    frame.stack.pop()


@opcode("BINARY_SUBSCR")
def binary_subscr(machine: Any, frame: Frame, instr: Instr) -> None:
    stack = frame.stack
    value = machine.getitem(stack[-2], stack[-1])
    stack.pop()
    stack[-1] = value


@opcode("STORE_SUBSCR")
def store_subscr(machine: Any, frame: Frame, instr: Instr) -> None:
    value, container, key = frame.stack[-3:]
    machine.setitem(container, key, value)
    del frame.stack[-3:]


@opcode("DELETE_SUBSCR")
def delete_subscr(machine: Any, frame: Frame, instr: Instr) -> None:
    container, key = frame.stack[-2:]
    machine.delitem(container, key)
    del frame.stack[-2:]


@opcode("BINARY_OP")
def binary_op(machine: Any, frame: Frame, instr: Instr) -> None:
    stack = frame.stack
    value = machine.binary(instr.arg, stack[-2], stack[-1])
    stack.pop()
    stack[-1] = value


@opcode("UNARY_NEGATIVE")
def unary_negative(machine: Any, frame: Frame, instr: Instr) -> None:
    frame.stack[-1] = machine.unary("-", frame.stack[-1])


@opcode("UNARY_INVERT")
def unary_invert(machine: Any, frame: Frame, instr: Instr) -> None:
    frame.stack[-1] = machine.unary("~", frame.stack[-1])


@opcode("UNARY_NOT")
def unary_not(machine: Any, frame: Frame, instr: Instr) -> None:
    frame.stack[-1] = not frame.stack[-1]


@opcode("TO_BOOL")
def to_bool(machine: Any, frame: Frame, instr: Instr) -> None:
    frame.stack[-1] = machine.truth(frame.stack[-1])


@opcode("COMPARE_OP")
def compare_op(machine: Any, frame: Frame, instr: Instr) -> None:
    stack = frame.stack
    value = machine.compare(instr.arg, stack[-2], stack[-1])
    stack.pop()
    stack[-1] = value


@opcode("IS_OP")
def is_op(machine: Any, frame: Frame, instr: Instr) -> None:
    stack = frame.stack
    value = machine.is_op(stack[-2], stack[-1])
    stack.pop()
    stack[-1] = value is not instr.arg


@opcode("CONTAINS_OP")
def contains_op(machine: Any, frame: Frame, instr: Instr) -> None:
    stack = frame.stack
    value = machine.contains(stack[-2], stack[-1])
    stack.pop()
    stack[-1] = value is not instr.arg


@opcode("CONVERT_VALUE")
def convert_value(machine: Any, frame: Frame, instr: Instr) -> None:
    frame.stack[-1] = machine.convert(frame.stack[-1], instr.arg)


@opcode("FORMAT_SIMPLE")
def format_simple(machine: Any, frame: Frame, instr: Instr) -> None:
    if type(frame.stack[-1]) is not str:
        frame.stack[-1] = machine.format(frame.stack[-1], "")


@opcode("FORMAT_WITH_SPEC")
def format_with_spec(machine: Any, frame: Frame, instr: Instr) -> None:
    stack = frame.stack
    value = machine.format(stack[-2], stack[-1])
    stack.pop()
    stack[-1] = value
