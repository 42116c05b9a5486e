"""Bytecode in the making: instructions whose jumps and handlers refer to labels."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from types import CodeType
from typing import Any

from onegraph.capture.bytecode.instruction import Bytecode, Handler, Instr, Position

#: A handler: its label, how deep it leaves the stack, and whether the instruction to blame is pushed.
Caught = tuple[Hashable, int, bool]


def caught_at(bytecode: Bytecode, index: int) -> Caught | None:
    """The handler that protects an instruction; indices are labels."""
    handler = bytecode.handler_at(index)
    return None if handler is None else (handler.target, handler.depth, handler.lasti)


class Assembler:
    """Instructions in the making. What is put gets this position and, if nothing is said, this handler."""

    def __init__(self) -> None:
        self._rows: list[tuple[Instr, Hashable, Caught | None]] = []
        self.labels: dict[Hashable, int] = {}
        self.position: Position | None = None
        self.caught: Caught | None = None

    def __len__(self) -> int:
        return len(self._rows)

    def mark(self, label: Hashable) -> None:
        """The next instruction is here."""
        self.labels[label] = len(self._rows)

    def put(self, op: str, arg: Any = None, to: Hashable = None, caught: Caught | None = None) -> int:
        """Append an instruction; its index."""
        self._rows.append((Instr(op, arg, None, -1, self.position), to, caught or self.caught))
        return len(self._rows) - 1

    def put_all(self, instrs: Iterable[Instr]) -> None:
        for instr in instrs:
            self.put(instr.op, instr.arg)

    def copy(self, bytecode: Bytecode, index: int, op: str | None = None) -> int:
        """Append an instruction of the original, where indices are labels, or `op` in its place; its index."""
        instr, caught = bytecode.instrs[index], caught_at(bytecode, index)
        arg = None if op else instr.arg
        self._rows.append((Instr(op or instr.op, arg, None, instr.offset, instr.position), instr.target, caught))
        return len(self._rows) - 1

    def finish(self, code: CodeType) -> Bytecode:
        """The bytecode of `code` with these instructions."""
        at = self.labels
        instrs = tuple(
            Instr(i.op, i.arg, None if to is None else at[to], i.offset, i.position) for i, to, _ in self._rows
        )
        handlers: list[Handler] = []
        for index, (_, _, caught) in enumerate(self._rows):
            if caught is not None:
                last = handlers[-1] if handlers else None
                found = at[caught[0]], caught[1], caught[2]
                if last is not None and last.end == index and (last.target, last.depth, last.lasti) == found:
                    handlers[-1] = Handler(last.start, index + 1, *found)
                else:
                    handlers.append(Handler(index, index + 1, *found))
        known = (*code.co_varnames, *code.co_cellvars, *code.co_freevars)
        used = dict.fromkeys(i.arg for i in instrs if "FAST" in i.op and str(i.arg).startswith("."))
        names = (*code.co_varnames, *(name for name in used if name not in known))
        return Bytecode(code.replace(co_varnames=names, co_nlocals=len(names)), instrs, tuple(handlers))
