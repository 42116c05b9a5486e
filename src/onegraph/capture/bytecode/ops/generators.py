"""Generators."""

from __future__ import annotations

import types
from typing import Any, NoReturn

from onegraph.capture.bytecode.frame import Frame, Unsupported
from onegraph.capture.bytecode.instruction import Instr
from onegraph.capture.bytecode.opcode import GENERATOR, YIELD, opcode, operation
from onegraph.capture.pyobject.exact_types import isinstance

_ITERABLE_COROUTINE = 0x100
_COROUTINE = 0x80


@opcode("RETURN_GENERATOR: -- none")
def return_generator(machine: Any, frame: Frame, instr: Instr) -> int:
    """The generator goes on behind this instruction, whose value it drops."""
    frame.stack.append(None)
    frame.ip += 1
    return GENERATOR


@opcode("YIELD_VALUE number: value -- sent", "stays")
def yield_value(machine: Any, frame: Frame, instr: Instr) -> int:
    """What is sent, or thrown, is handled when the frame goes on. The argument is a hint of the compiler's own."""
    frame.result = frame.stack.pop()
    return YIELD


@opcode("GET_YIELD_FROM_ITER: iterable -- iterator")
def get_yield_from_iter(machine: Any, frame: Frame, instr: Instr) -> None:
    value = frame.stack[-1]
    if isinstance(value, types.CoroutineType):
        if not frame.bytecode.code.co_flags & (_COROUTINE | _ITERABLE_COROUTINE):
            raise TypeError("cannot 'yield from' a coroutine object in a non-coroutine generator")
    elif not isinstance(value, types.GeneratorType):
        frame.stack[-1] = machine.iter(value)


@opcode("SEND target: receiver value -- receiver yielded", "stays")
def send(machine: Any, frame: Frame, instr: Instr) -> int | None:
    stack = frame.stack
    done, value = machine.send(stack[-2], stack[-1])
    stack[-1] = value
    return instr.target if done else None


operation("END_SEND: receiver value -- value", lambda machine, _, receiver, value: value)


def _clean_up_throw(machine: Any, _: None, receiver: Any, value: Any, exception: Any) -> tuple[None, Any]:
    if not isinstance(exception, StopIteration):
        machine.raise_again(exception)
    return None, exception.value


operation("CLEANUP_THROW: receiver value exception -- none result", _clean_up_throw)


@opcode("GET_AWAITABLE number: value -- awaitable")
@opcode("GET_AITER: iterable -- iterator")
@opcode("GET_ANEXT: iterator -- iterator awaitable")
@opcode("END_ASYNC_FOR: iterator exception --")
@opcode("BEFORE_ASYNC_WITH: manager -- exit awaitable")
def asynchronous(machine: Any, frame: Frame, instr: Instr) -> NoReturn:
    raise Unsupported(f"asynchronous code: {frame.bytecode.code.co_qualname}")
