"""What one running function consists of, and how the interpreter is left."""

from __future__ import annotations

from collections.abc import Callable, MutableMapping
from types import CellType, FunctionType
from typing import Any, cast

from onegraph.capture.bytecode.instruction import Bytecode, Position


class _Null:
    """An empty slot of the operand stack."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "NULL"


NULL = _Null()

#: The variable of a class body that holds its namespace.
NAMESPACE = ".namespace"


class Frame:
    """The state of a running function.

    A name is bound in `locals` or, once it has a cell, in `cells`. `ip` is the index of the instruction that runs and
    `steps` the number of instructions that are done. The loop stops in front of step `stop_at`.
    What a subclass of the machine counts: `steps` as far as it has counted them, and its count when the frame started.
    """

    __slots__ = (
        "began", "builtins", "bytecode", "cells", "counted", "function", "generator", "globals", "handled", "ip",
        "locals", "namespace", "program", "rest", "result", "serial", "stack", "steps", "stop_at",
    )  # fmt: skip

    def __init__(
        self,
        bytecode: Bytecode,
        function: FunctionType,
        local_values: dict[str, Any],
        cells: dict[str, CellType],
        program: list[tuple[Any, Any]],
    ) -> None:
        self.bytecode = bytecode
        self.function = function
        self.globals: dict[str, Any] = function.__globals__
        self.builtins: dict[str, Any] = cast(Any, function).__builtins__
        self.namespace: MutableMapping[str, Any] | None = None  # of a class body or a module
        self.locals = local_values
        self.cells = cells
        self.stack: list[Any] = []
        self.ip = 0
        self.steps = 0
        self.stop_at = -1
        self.counted = 0
        self.began = 0
        self.handled: BaseException | None = None  # by an except clause of this frame
        self.result: Any = None  # returned or yielded
        self.rest: Any = None  # of the instruction of the frame around it, if it is known: a `Rest`
        self.serial = 0  # its number among the frames of the run
        self.program = program  # (handler, instruction) by index
        self.generator: Callable[[], Any] = lambda: None  # of a generator's frame: it, as long as it lives

    def __repr__(self) -> str:
        return f"<frame of {self.bytecode.code.co_qualname} at {self.ip}>"

    @property
    def position(self) -> Position | None:
        """Line, end line, column and end column of the instruction that runs."""
        return self.bytecode.instrs[self.ip].position

    def release(self) -> None:
        """Let go of the values of a frame that has ended."""
        self.locals.clear()
        self.cells.clear()
        self.stack.clear()


class Abort(BaseException):
    """Leaves the interpreter at once: no handler of the interpreted program sees it.

    `frames` are the frames that were running, outermost first.
    """

    frames: tuple[Frame, ...] = ()


class Stopped(Abort):
    """A frame has come to the step at which it was told to stop."""

    def __init__(self, frame: Frame) -> None:
        super().__init__()
        self.frame = frame


class Unsupported(Abort):
    """The program does what the interpreter does not know how to do."""
