"""Jumps, loops and returning."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from onegraph.capture.bytecode.frame import Frame
from onegraph.capture.bytecode.instruction import Instr
from onegraph.capture.bytecode.opcode import RETURN, opcode, operation


@opcode("JUMP target: --", "ends", "stays")
@opcode("JUMP_NO_INTERRUPT target: --", "ends", "stays")
def jump(machine: Any, frame: Frame, instr: Instr) -> int | None:
    return instr.target


def _jumps_if(text: str, holds: Callable[[Any], bool]) -> None:
    @opcode(text)
    def jump_if(machine: Any, frame: Frame, instr: Instr) -> int | None:
        return instr.target if holds(frame.stack.pop()) else None


_jumps_if("POP_JUMP_IF_TRUE target: condition --", lambda condition: condition)
_jumps_if("POP_JUMP_IF_FALSE target: condition --", lambda condition: not condition)
_jumps_if("POP_JUMP_IF_NONE target: value --", lambda value: value is None)
_jumps_if("POP_JUMP_IF_NOT_NONE target: value --", lambda value: value is not None)

operation("GET_ITER: iterable -- iterator", lambda machine, _, iterable: machine.iter(iterable))


@opcode("FOR_ITER target: iterator -- iterator value", jumping="")
def for_iter(machine: Any, frame: Frame, instr: Instr) -> int | None:
    try:
        value = machine.next_in_loop(frame.stack[-1])
    except StopIteration:
        frame.stack.pop()
        return instr.target
    frame.stack.append(value)
    return None


@opcode("RETURN_VALUE: any --", "ends", "stays")
def return_value(machine: Any, frame: Frame, instr: Instr) -> int:
    frame.result = frame.stack.pop()
    frame.release()
    return RETURN
