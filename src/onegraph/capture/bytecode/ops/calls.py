"""Calls."""

from __future__ import annotations

from typing import Any

from onegraph.capture.bytecode.frame import NULL, Frame
from onegraph.capture.bytecode.instruction import Instr
from onegraph.capture.bytecode.native import NULL_FIRST
from onegraph.capture.bytecode.opcode import opcode


def null_pair(function: Any) -> tuple[Any, Any]:
    """A callable pair without self, in the native order."""
    return (NULL, function) if NULL_FIRST else (function, NULL)


def split_pair(pair: list[Any], args: tuple[Any, ...]) -> tuple[Any, tuple[Any, ...]]:
    """The callable and its positional arguments: of the pair's slots one may be NULL, else they are (method, self)."""
    first, second = pair
    if first is NULL:
        return second, args
    if second is NULL:
        return first, args
    return first, (second, *args)


@opcode("CALL number: callable self argument*number -- result")
def call(machine: Any, frame: Frame, instr: Instr) -> None:
    stack = frame.stack
    base = len(stack) - instr.arg
    function, args = split_pair(stack[base - 2 : base], tuple(stack[base:]))
    result = machine.call_of_instruction(function, args, {})
    del stack[base - 2 :]
    stack.append(result)


@opcode("CALL_KW number names: callable self argument*number -- result")
def call_kw(machine: Any, frame: Frame, instr: Instr) -> None:
    """The last of the arguments are named."""
    stack = frame.stack
    count, names = instr.arg
    base = len(stack) - count
    named = len(stack) - len(names)
    function, args = split_pair(stack[base - 2 : base], tuple(stack[base:named]))
    result = machine.call_of_instruction(function, args, dict(zip(names, stack[named:], strict=True)))
    del stack[base - 2 :]
    stack.append(result)


@opcode("CALL_FUNCTION_EX flag: callable self arguments keywords*flag -- result")
def call_function_ex(machine: Any, frame: Frame, instr: Instr) -> None:
    stack = frame.stack
    base = len(stack) - 1 - instr.arg
    args = stack[base]
    kwargs = stack[base + 1] if instr.arg else {}
    first, second = stack[base - 2 : base]
    function = second if first is NULL else first
    if type(args) is not tuple:
        args = machine.star_arguments(function, args)
    result = machine.call_of_instruction(function, args, machine.star_keywords(kwargs))
    del stack[base - 2 :]
    stack.append(result)
