"""Normal form to code object."""

from __future__ import annotations

import dis
from collections.abc import Iterator
from itertools import groupby
from types import CodeType
from typing import Any

from onegraph.capture.bytecode.decode import slot_names
from onegraph.capture.bytecode.flow import falls_through, stack_size
from onegraph.capture.bytecode.instruction import Bytecode, Position
from onegraph.capture.bytecode.native import native
from onegraph.capture.bytecode.ops import OPCODES
from onegraph.capture.bytecode.rows import WriteRow


def encode(bytecode: Bytecode, **fields: Any) -> CodeType:
    """A code object that runs `bytecode`: `bytecode.code` with these instructions and with `fields` replaced.

    `fields` are those of `CodeType.replace`. Names of variables, cells and free variables give the slots.
    """
    if "co_varnames" in fields:
        fields["co_nlocals"] = len(fields["co_varnames"])
    code = bytecode.code.replace(**fields) if fields else bytecode.code
    writer = _Writer(code, bytecode)
    writer.write()
    sizes = writer.measure()
    starts = _starts(sizes)
    return code.replace(
        co_code=writer.assemble(sizes, starts),
        co_linetable=_line_table(code.co_firstlineno, writer.positions(sizes)),
        co_exceptiontable=_exception_table(writer.ranges(starts)),
        co_stacksize=max(stack_size(bytecode), 1),
        co_consts=tuple(writer.consts),
        co_names=tuple(writer.names),
    )


class _Writer:
    """Native units of a code object being built. The label of an instruction is its index; ~index is its landing."""

    def __init__(self, code: CodeType, bytecode: Bytecode) -> None:
        self.instrs = bytecode.instrs
        self.handlers = bytecode.handlers
        self.consts: list[object] = list(code.co_consts)
        self.names: list[str] = list(code.co_names)
        self._const_index = {id(value): index for index, value in enumerate(self.consts)}
        self._name_index = {name: index for index, name in enumerate(self.names)}
        self._slot_index = {name: index for index, name in enumerate(slot_names(code))}
        self._free = len(code.co_freevars)
        self._entries = {i.target for i in self.instrs} | {h.target for h in self.handlers}
        self._units: list[tuple[str, int, int | None, int]] = []  # name, argument, label of the target, owner
        self._labels: dict[int, int] = {}  # to the index of a unit
        self._owner = 0

    # What the rows of the tables use.

    def emit(self, op: str, arg: int = 0) -> None:
        self._units.append((op, arg, None, self._owner))

    def jump(self, op: str, target: int) -> None:
        forward = target > self._owner
        spelling = native.jump(op, forward)
        label = ~target if op == "FOR_ITER" and native.LANDING else target
        if len(spelling) == 2:  # the opposite jump skips the second
            skip = ~len(self.instrs) - 1 - len(self._units)
            self._units.append((spelling[0], 0, skip, self._owner))
            self._units.append((spelling[1], 0, label, self._owner))
            self._labels[skip] = len(self._units)
        else:
            self._units.append((spelling[0], 0, label, self._owner))

    def name(self, name: str) -> int:
        if name not in self._name_index:
            self._name_index[name] = len(self.names)
            self.names.append(name)
        return self._name_index[name]

    def const(self, value: object) -> int:
        if id(value) not in self._const_index:
            self._const_index[id(value)] = len(self.consts)
            self.consts.append(value)
        return self._const_index[id(value)]

    def slot(self, name: str) -> int:
        return self._slot_index[name]

    def follows(self, index: int, *ops: str) -> bool:
        """Whether instructions with these names stand at `index` and are reached only through their predecessor."""
        found = self.instrs[index : index + len(ops)]
        return [instr.op for instr in found] == list(ops) and self._entries.isdisjoint(range(index, index + len(ops)))

    # Layout.

    def write(self) -> None:
        loops = {instr.target: at for at, instr in enumerate(self.instrs) if instr.op == "FOR_ITER" and native.LANDING}
        index = 0
        while index < len(self.instrs):
            if index in loops:
                self._write_landing(index, loops[index])
            self._owner = index
            self._labels[index] = len(self._units)
            instr = self.instrs[index]
            if instr.op == "COPY_FREE_VARS":
                self.emit("COPY_FREE_VARS", self._free)
                consumed = 1
            else:
                consumed = _write_row(instr.op)(self, index)
            for part in range(index + 1, index + consumed):
                self._labels[part] = self._labels[index]
            index += consumed
        self._labels[index] = len(self._units)

    def _write_landing(self, index: int, loop: int) -> None:
        """The end of a loop stands before the instruction that an exhausted FOR_ITER goes to; others pass it by."""
        self._owner = loop
        if index == 0 or falls_through(self.instrs[index - 1]):
            self._units.append(("JUMP_FORWARD", 0, index, self._owner))
        self._labels[~index] = len(self._units)
        for op in native.LANDING:
            self.emit(op)

    def _argument(self, unit: int, starts: list[int]) -> int:
        op, arg, label, _ = self._units[unit]
        if label is None:
            return arg
        return abs(starts[self._labels[label]] - starts[unit + 1])

    def measure(self) -> list[int]:
        """Sizes of the units in code units of two bytes: prefixes, instruction, caches."""
        caches = [native.CACHES.get(op, 0) for op, _, _, _ in self._units]
        sizes = [1 + n for n in caches]
        while True:
            starts = _starts(sizes)
            grown = [
                max(size, 1 + n + _prefixes(self._argument(unit, starts)))
                for unit, (size, n) in enumerate(zip(sizes, caches, strict=True))
            ]
            if grown == sizes:
                return sizes
            sizes = grown

    def assemble(self, sizes: list[int], starts: list[int]) -> bytes:
        out = bytearray()
        for unit, (op, _, _, _) in enumerate(self._units):
            arg = self._argument(unit, starts)
            caches = native.CACHES.get(op, 0)
            for prefix in range(sizes[unit] - 1 - caches, 0, -1):
                out += bytes((_EXTENDED, arg >> 8 * prefix & 0xFF))
            out += bytes((dis.opmap[op], arg & 0xFF))
            out += bytes(2 * caches)
        return bytes(out)

    def positions(self, sizes: list[int]) -> Iterator[tuple[Position | None, int]]:
        """The position of each unit and its size."""
        for (_, _, _, owner), size in zip(self._units, sizes, strict=True):
            yield self.instrs[owner].position, size

    def ranges(self, starts: list[int]) -> Iterator[tuple[int, int, int, int]]:
        """Entries of the exception table in code units."""
        for handler in self.handlers:
            start, end = starts[self._labels[handler.start]], starts[self._labels[handler.end]]
            if start < end:
                yield start, end - start, starts[self._labels[handler.target]], handler.depth << 1 | handler.lasti


_EXTENDED = dis.opmap["EXTENDED_ARG"]


def _write_row(op: str) -> WriteRow:
    """How the instruction of this name is written."""
    row = native.WRITE.get(op) or OPCODES[op].write
    if row is None:
        raise KeyError(f"this version of Python has no instruction {op}")
    return row


def _starts(sizes: list[int]) -> list[int]:
    starts = [0]
    for size in sizes:
        starts.append(starts[-1] + size)
    return starts


def _prefixes(arg: int) -> int:
    return (arg > 0xFF) + (arg > 0xFFFF) + (arg > 0xFFFFFF)


def _exception_table(entries: Iterator[tuple[int, int, int, int]]) -> bytes:
    out = bytearray()
    for entry in entries:
        first = len(out)
        for number in entry:
            shift = 6 * max((number.bit_length() - 1) // 6, 0)
            while shift:
                out.append(number >> shift & 63 | 64)
                shift -= 6
            out.append(number & 63)
        out[first] |= 128
    return bytes(out)


# Forms of an entry of the line table; smaller numbers are two-byte forms for short columns.
_ONE_LINE, _NO_COLUMNS, _LONG, _NONE = 10, 13, 14, 15


def _line_table(first_line: int, runs: Iterator[tuple[Position | None, int]]) -> bytes:
    out = bytearray()
    line = first_line
    for position, group in groupby(runs, key=lambda run: run[0]):
        length = sum(size for _, size in group)
        while length > 0:
            line = _line_entry(out, position, line, min(length, 8))
            length -= 8
    return bytes(out)


def _line_entry(out: bytearray, position: Position | None, line: int, length: int) -> int:
    def head(form: int) -> None:
        out.append(0x80 | form << 3 | length - 1)

    if position is None:
        head(_NONE)
        return line
    start, end, column, end_column = position
    delta = start - line
    if column is None or end_column is None or end is None:
        head(_NO_COLUMNS)
        _signed(out, delta)
    elif start == end and delta == 0 and column < 80 and 0 <= end_column - column < 16:
        head(column >> 3)
        out.append((column & 7) << 4 | end_column - column)
    elif start == end and 0 <= delta < 3 and column < 128 and end_column < 128:
        head(_ONE_LINE + delta)
        out += bytes((column, end_column))
    else:
        head(_LONG)
        _signed(out, delta)
        _unsigned(out, end - start)
        _unsigned(out, column + 1)
        _unsigned(out, end_column + 1)
    return start


def _unsigned(out: bytearray, number: int) -> None:
    while number > 63:
        out.append(number & 63 | 64)
        number >>= 6
    out.append(number)


def _signed(out: bytearray, number: int) -> None:
    _unsigned(out, -number << 1 | 1 if number < 0 else number << 1)
