"""Values that a resume function was handed and has not read: they are moved as they are, nothing is known of them.

A loop counter that is only printed, a list that only waits for the end of the loop: a guard on it would fail in the
next iteration. So instructions of a resume function that move values move a stand-in, and others admit the value.
"""

from __future__ import annotations

from collections.abc import Callable
from types import FunctionType
from typing import Any

from onegraph.base.dataclass import dataclass
from onegraph.capture.bytecode import Bytecode, Instr
from onegraph.capture.bytecode.frame import Frame
from onegraph.capture.bytecode.opcode import Handler
from onegraph.capture.bytecode.ops import OPCODES
from onegraph.capture.bytecode.ops.names import unbound
from onegraph.capture.guards.source import Source
from onegraph.capture.resume.resumed import resumed_by


@dataclass(frozen=True, slots=True, eq=False)
class Unread:
    """A value from outside that the trace has not read."""

    value: Any
    source: Source


class LazyLocals(dict[str, Any]):
    """The variables of a frame, some of which are unread: whoever asks for one by name reads it."""

    def __init__(self, values: dict[str, Any], admit: Callable[[Any, Source], Any]) -> None:
        super().__init__(values)
        self._admit = admit

    def __getitem__(self, name: str) -> Any:
        value = super().__getitem__(name)
        if type(value) is Unread:
            value = self[name] = self._admit(value.value, value.source)
        return value

    def get(self, name: str, default: Any = None) -> Any:
        return self[name] if name in self else default

    def pop(self, name: str, *default: Any) -> Any:
        value = self[name] if name in self or not default else default[0]
        super().pop(name, None)
        return value


def as_it_is(variables: dict[str, Any], name: str) -> Any:
    """The value of a variable, or what stands for it until it is read."""
    return dict.__getitem__(variables, name)


def lazy_program(bytecode: Bytecode) -> list[tuple[Handler, Instr]]:
    """The handlers of a resume function's instructions: they take unread values."""
    return [(lazily(instr), instr) for instr in bytecode.instrs]


def lazily(instr: Instr) -> Handler:
    if instr.op in ("LOAD_FAST", "LOAD_FAST_CHECK"):
        return load_fast
    row = OPCODES[instr.op]
    handler, count = row.handler, row.looks_at(instr.arg)
    if count == 0:
        return handler

    def look_and_handle(machine: Any, frame: Frame, instr: Instr) -> Any:
        read(machine, frame.stack, count)
        return handler(machine, frame, instr)

    return look_and_handle


def load_fast(machine: Any, frame: Frame, instr: Instr) -> None:
    if instr.arg not in frame.locals:
        raise unbound(str(instr.arg))
    frame.stack.append(as_it_is(frame.locals, str(instr.arg)))


def read(machine: Any, stack: list[Any], count: int | None) -> None:
    """Admit the values at the top of the stack; what a resume function is called with is only handed on."""
    looked_at = range(0 if count is None else max(len(stack) - count, 0), len(stack))
    for index in [index for index in looked_at if is_resume_function(stack[index])] or looked_at:
        if type(stack[index]) is Unread:
            stack[index] = machine.world.admit(stack[index].value, stack[index].source)


def is_resume_function(value: Any) -> bool:
    return type(value) is Unread and type(value.value) is FunctionType and resumed_by(value.value.__code__) is not None
