"""The table of instruction handlers: an open set, one `@opcode` function per instruction in `op_*`.

A handler gets the machine, the frame and the instruction. It gives the index of the next instruction, None for the one
that follows, or one of the signals below.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from onegraph.capture.bytecode import Instr
from onegraph.capture.interp.frame import Frame

if TYPE_CHECKING:
    from onegraph.capture.interp.machine import Machine

RETURN, YIELD, GENERATOR = -1, -2, -3  # signals: the frame's `result` is returned, is yielded; a generator is made

Handler = Callable[["Machine", Frame, Instr], Any]

HANDLERS: dict[str, Handler] = {}


def opcode(*names: str) -> Callable[[Handler], Handler]:
    """Register the handler of the instructions `names`."""

    def register(handler: Handler) -> Handler:
        for name in names:
            HANDLERS[name] = handler
        return handler

    return register
