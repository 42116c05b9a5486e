"""Attributes, items, operators, comparisons, text."""

from __future__ import annotations

from typing import Any

from onegraph.capture.bytecode.frame import Frame
from onegraph.capture.bytecode.instruction import Instr
from onegraph.capture.bytecode.opcode import opcode, operation
from onegraph.capture.bytecode.ops.calls import null_pair
from onegraph.capture.bytecode.rows import read_super, write_super


def _super_attribute(machine: Any, arg: tuple[str, bool], function: Any, cls: Any, obj: Any) -> Any:
    """`explicit`: written with two arguments."""
    name, explicit = arg
    return machine.getattr(machine.call(function, (cls, obj) if explicit else (), {}), name)


operation("LOAD_ATTR name: object -- value", lambda machine, name, obj: machine.getattr(obj, name))
operation(
    "LOAD_METHOD name: object -- callable self",
    lambda machine, name, obj: null_pair(machine.getattr(obj, name)), "stays",
)  # fmt: skip
operation(
    "LOAD_SUPER_ATTR name explicit: super class object -- value", _super_attribute, "stays",
    read=read_super, write=write_super,
)  # fmt: skip
operation(
    "LOAD_SUPER_METHOD name explicit: super class object -- callable self",
    lambda machine, arg, *values: null_pair(_super_attribute(machine, arg, *values)), "stays",
    write=write_super,
)  # fmt: skip
operation("STORE_ATTR name: value object --", lambda machine, name, value, obj: machine.setattr(obj, name, value))
operation("DELETE_ATTR name: object --", lambda machine, name, obj: machine.delattr(obj, name))

operation("BINARY_SUBSCR: container key -- item", lambda machine, _, container, key: machine.getitem(container, key))
operation(
    "STORE_SUBSCR: value container key --",
    lambda machine, _, value, container, key: machine.setitem(container, key, value),
)
operation("DELETE_SUBSCR: container key --", lambda machine, _, container, key: machine.delitem(container, key))

operation("BINARY_OP operator: left right -- result", lambda machine, symbol, a, b: machine.binary(symbol, a, b))
operation("COMPARE_OP comparison: left right -- result", lambda machine, symbol, a, b: machine.compare(symbol, a, b))
operation("IS_OP flag: left right -- bool", lambda machine, negate, a, b: machine.is_op(a, b) is not negate)
operation(
    "CONTAINS_OP flag: item container -- bool",
    lambda machine, negate, item, container: machine.contains(item, container) is not negate,
)
operation("UNARY_NEGATIVE: operand -- result", lambda machine, _, value: machine.unary("-", value))
operation("UNARY_INVERT: operand -- result", lambda machine, _, value: machine.unary("~", value))
# TO_BOOL comes before UNARY_NOT and before every jump that depends on a bool.
operation("TO_BOOL: value -- bool", lambda machine, _, value: machine.truth(value))
operation("UNARY_NOT: condition -- bool", lambda machine, _, condition: not condition)

operation("CONVERT_VALUE conversion: value -- text", lambda machine, kind, value: machine.convert(value, kind))
operation(
    "FORMAT_SIMPLE: value -- text",
    lambda machine, _, value: value if type(value) is str else machine.format(value, ""),
)
operation("FORMAT_WITH_SPEC: value format -- text", lambda machine, _, value, spec: machine.format(value, spec))


@opcode("BUILD_INTERPOLATION conversion flag: value expression format*flag -- interpolation")
def build_interpolation(machine: Any, frame: Frame, instr: Instr) -> None:
    """A part of a template string (3.14); with the flag it has a format."""
    stack = frame.stack
    base = len(stack) - 2 - instr.arg[1]
    result = machine.native_instruction(instr, tuple(stack[base:]))
    stack[base:] = (result,)


operation(
    "BUILD_TEMPLATE: strings interpolations -- template",
    lambda machine, _, *values: machine.native_instruction(Instr("BUILD_TEMPLATE"), values),
)
