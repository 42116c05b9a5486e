"""Attributes, items, operators, comparisons, text."""

from __future__ import annotations

from typing import Any

from onegraph.capture.bytecode.frame import NULL, Frame
from onegraph.capture.bytecode.instruction import Instr
from onegraph.capture.bytecode.native import NULL_FIRST
from onegraph.capture.bytecode.opcode import opcode
from onegraph.capture.bytecode.rows import read_super, write_super


def push_callable(frame: Frame, value: Any) -> None:
    """A callable pair without self, in the native order."""
    frame.stack += (NULL, value) if NULL_FIRST else (value, NULL)


@opcode("LOAD_ATTR name: object -- value")
def load_attr(machine: Any, frame: Frame, instr: Instr) -> None:
    frame.stack[-1] = machine.getattr(frame.stack[-1], instr.arg)


@opcode("LOAD_METHOD name: object -- callable self", "stays")
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


@opcode("LOAD_SUPER_ATTR name explicit: super class object -- value", "stays", read=read_super, write=write_super)
def load_super_attr(machine: Any, frame: Frame, instr: Instr) -> None:
    """`explicit`: written with two arguments."""
    frame.stack.append(_super_attribute(machine, frame, instr))


@opcode("LOAD_SUPER_METHOD name explicit: super class object -- callable self", "stays", write=write_super)
def load_super_method(machine: Any, frame: Frame, instr: Instr) -> None:
    push_callable(frame, _super_attribute(machine, frame, instr))


@opcode("STORE_ATTR name: value object --")
def store_attr(machine: Any, frame: Frame, instr: Instr) -> None:
    value, obj = frame.stack[-2:]
    machine.setattr(obj, instr.arg, value)
    del frame.stack[-2:]


@opcode("DELETE_ATTR name: object --")
def delete_attr(machine: Any, frame: Frame, instr: Instr) -> None:
    machine.delattr(frame.stack[-1], instr.arg)
    frame.stack.pop()


@opcode("BINARY_SUBSCR: container key -- item")
def binary_subscr(machine: Any, frame: Frame, instr: Instr) -> None:
    stack = frame.stack
    value = machine.getitem(stack[-2], stack[-1])
    stack.pop()
    stack[-1] = value


@opcode("STORE_SUBSCR: value container key --")
def store_subscr(machine: Any, frame: Frame, instr: Instr) -> None:
    value, container, key = frame.stack[-3:]
    machine.setitem(container, key, value)
    del frame.stack[-3:]


@opcode("DELETE_SUBSCR: container key --")
def delete_subscr(machine: Any, frame: Frame, instr: Instr) -> None:
    container, key = frame.stack[-2:]
    machine.delitem(container, key)
    del frame.stack[-2:]


@opcode("BINARY_OP operator: left right -- result")
def binary_op(machine: Any, frame: Frame, instr: Instr) -> None:
    stack = frame.stack
    value = machine.binary(instr.arg, stack[-2], stack[-1])
    stack.pop()
    stack[-1] = value


@opcode("UNARY_NEGATIVE: operand -- result")
def unary_negative(machine: Any, frame: Frame, instr: Instr) -> None:
    frame.stack[-1] = machine.unary("-", frame.stack[-1])


@opcode("UNARY_INVERT: operand -- result")
def unary_invert(machine: Any, frame: Frame, instr: Instr) -> None:
    frame.stack[-1] = machine.unary("~", frame.stack[-1])


@opcode("UNARY_NOT: condition -- bool")
def unary_not(machine: Any, frame: Frame, instr: Instr) -> None:
    frame.stack[-1] = not frame.stack[-1]


@opcode("TO_BOOL: value -- bool")
def to_bool(machine: Any, frame: Frame, instr: Instr) -> None:
    """Comes before every jump that depends on a bool, and before UNARY_NOT."""
    frame.stack[-1] = machine.truth(frame.stack[-1])


@opcode("COMPARE_OP comparison: left right -- result")
def compare_op(machine: Any, frame: Frame, instr: Instr) -> None:
    stack = frame.stack
    value = machine.compare(instr.arg, stack[-2], stack[-1])
    stack.pop()
    stack[-1] = value


@opcode("IS_OP flag: left right -- bool")
def is_op(machine: Any, frame: Frame, instr: Instr) -> None:
    stack = frame.stack
    value = machine.is_op(stack[-2], stack[-1])
    stack.pop()
    stack[-1] = value is not instr.arg


@opcode("CONTAINS_OP flag: item container -- bool")
def contains_op(machine: Any, frame: Frame, instr: Instr) -> None:
    stack = frame.stack
    value = machine.contains(stack[-2], stack[-1])
    stack.pop()
    stack[-1] = value is not instr.arg


@opcode("CONVERT_VALUE conversion: value -- text")
def convert_value(machine: Any, frame: Frame, instr: Instr) -> None:
    frame.stack[-1] = machine.convert(frame.stack[-1], instr.arg)


@opcode("FORMAT_SIMPLE: value -- text")
def format_simple(machine: Any, frame: Frame, instr: Instr) -> None:
    if type(frame.stack[-1]) is not str:
        frame.stack[-1] = machine.format(frame.stack[-1], "")


@opcode("FORMAT_WITH_SPEC: value format -- text")
def format_with_spec(machine: Any, frame: Frame, instr: Instr) -> None:
    stack = frame.stack
    value = machine.format(stack[-2], stack[-1])
    stack.pop()
    stack[-1] = value
