"""Values that a resume function was handed and has not read: they are moved as they are, nothing is known of them.

A loop counter that is only printed, a list that only waits for the end of the loop: a guard on it would fail in the
next iteration. So instructions of a resume function that move values move a stand-in, and others admit the value.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from types import FunctionType
from typing import Any

from onegraph.capture.bytecode import Bytecode, Instr
from onegraph.capture.guards.source import Source
from onegraph.capture.interp.frame import Frame
from onegraph.capture.interp.ops.names import unbound
from onegraph.capture.interp.ops.table import Handler
from onegraph.capture.resume.resume_function import resumed_by

#: Instructions that look at no value of the stack.
MOVING = frozenset(
    """POP_TOP COPY SWAP PUSH_NULL NOP RESUME LOAD_CONST LOAD_GLOBAL LOAD_DEREF LOAD_CLOSURE LOAD_NAME LOAD_BUILD_CLASS
    LOAD_ASSERTION_ERROR LOAD_FAST_AND_CLEAR STORE_FAST DELETE_FAST JUMP JUMP_NO_INTERRUPT COPY_FREE_VARS RETURN_VALUE
    STORE_FAST_MAYBE_NULL POP_EXCEPT DELETE_DEREF DELETE_GLOBAL""".split()
)
#: At how many values from the top down the others look; all of them where none is given.
LOOKS_AT: dict[str, Callable[[Any], int]] = {
    "CALL": lambda n: n + 2,
    "BUILD_MAP": lambda n: 2 * n,
    **dict.fromkeys("BUILD_TUPLE BUILD_LIST BUILD_SET BUILD_STRING BUILD_SLICE".split(), lambda n: n),
    **dict.fromkeys(
        """LOAD_ATTR LOAD_METHOD TO_BOOL UNARY_NEGATIVE UNARY_INVERT UNARY_NOT FORMAT_SIMPLE CONVERT_VALUE GET_ITER
        FOR_ITER STORE_DEREF STORE_GLOBAL POP_JUMP_IF_TRUE POP_JUMP_IF_FALSE POP_JUMP_IF_NONE POP_JUMP_IF_NOT_NONE
        PUSH_EXC_INFO UNPACK_SEQUENCE UNPACK_EX BEFORE_WITH DELETE_ATTR GET_LEN""".split(),
        lambda _: 1,
    ),
    **dict.fromkeys(
        """BINARY_OP BINARY_SUBSCR COMPARE_OP IS_OP CONTAINS_OP STORE_ATTR DELETE_SUBSCR FORMAT_WITH_SPEC
        CHECK_EXC_MATCH""".split(),
        lambda _: 2,
    ),
    "CALL_KW": lambda arg: arg[0] + 2,
    "STORE_SUBSCR": lambda _: 3,
}  # fmt: skip


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


def lazy_program(bytecode: Bytecode, handlers: dict[str, Handler]) -> list[tuple[Handler, Instr]]:
    """The handlers of a resume function's instructions: they take unread values."""
    return [(lazily(handlers[instr.op], instr), instr) for instr in bytecode.instrs]


def lazily(handler: Handler, instr: Instr) -> Handler:
    if instr.op in ("LOAD_FAST", "LOAD_FAST_CHECK"):
        return load_fast
    if instr.op in MOVING:
        return handler
    looks_at = LOOKS_AT.get(instr.op)
    count = None if looks_at is None else looks_at(instr.arg)

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
