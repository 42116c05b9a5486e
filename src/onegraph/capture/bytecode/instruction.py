"""The normal form of bytecode: one instruction set for CPython 3.11 to 3.14.

Names and meanings are CPython 3.13's; `decode` and `encode` translate from and to the running version. Arguments are
resolved (a name instead of an index, the constant itself, an operator's symbol) and jumps hold the index of their
target instruction. Caches, EXTENDED_ARG, PRECALL and END_FOR do not exist. Superinstructions are split.

Names are those of the source; a free variable that shares its name with a cell of the same code (only `__class__` in a
class body can) carries FREE_MARK behind its name.

The instructions are declared in `ops`, a row each: `help(onegraph.capture.bytecode.ops)` lists them.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from types import CodeType
from typing import Any, TypeVar

from onegraph.base.dataclass import dataclass

#: Behind the name of a free variable that is the name of a cell too.
FREE_MARK = "'"

Position = tuple[int, int | None, int | None, int | None]  # line, end line, column, end column


@dataclass(frozen=True, slots=True)
class Instr:
    """One instruction in normal form. `offset` is the byte offset of the native instruction that it came from."""

    op: str
    arg: Any = None
    target: int | None = None
    offset: int = -1
    position: Position | None = None

    def __str__(self) -> str:
        text = self.op
        if self.arg is not None:
            text += f" {self.arg!r}"
        return text if self.target is None else f"{text} -> {self.target}"


@dataclass(frozen=True, slots=True)
class Handler:
    """Instructions `start` to `end` (exclusive) are protected.

    An exception cuts the stack to `depth` and goes to `target`.
    With `lasti` the index of the raising instruction is pushed below the exception.
    """

    start: int
    end: int
    target: int
    depth: int
    lasti: bool


@dataclass(frozen=True, slots=True, eq=False)
class Bytecode:
    """A code object in normal form. Handlers do not overlap and are sorted."""

    code: CodeType
    instrs: tuple[Instr, ...]
    handlers: tuple[Handler, ...]

    def handler_at(self, index: int) -> Handler | None:
        """The handler that protects the instruction at `index`."""
        for handler in self.handlers:
            if handler.start <= index < handler.end:
                return handler
        return None

    def __str__(self) -> str:
        lines = [f"{index:4} {instr}" for index, instr in enumerate(self.instrs)]
        lines += [f"{h.start} to {h.end} -> {h.target} [{h.depth}]{' lasti' if h.lasti else ''}" for h in self.handlers]
        return "\n".join(lines)


F = TypeVar("F", bound=Callable[..., Any])
_derived: list[Callable[[], None]] = []


def derived(function: F) -> F:
    """Remember what a function says of the last code objects it was asked about, until `forget_derived`."""
    remembered = lru_cache(maxsize=256)(function)
    _derived.append(remembered.cache_clear)
    return remembered  # type: ignore[return-value]


def forget_derived() -> None:
    for clear in _derived:
        clear()
