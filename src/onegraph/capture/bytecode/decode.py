"""Code object to normal form."""

from __future__ import annotations

import dis
import sys
from collections.abc import Iterator
from types import CodeType
from typing import Any

from onegraph.capture.bytecode.instruction import FREE_MARK, Bytecode, Handler, Instr, Position
from onegraph.capture.bytecode.native import native
from onegraph.capture.bytecode.ops import OPCODES
from onegraph.capture.bytecode.rows import Operand, Piece, Reader, send_label

_NAMES = tuple(dis.opname)
_CACHES = tuple(native.CACHES.get(name, 0) for name in _NAMES)
_EXTENDED = dis.opmap["EXTENDED_ARG"]
_AND_CLEAR = dis.opmap.get("LOAD_FAST_AND_CLEAR")

_CACHE_LIMIT = 1 << 14


def _counted_local() -> int:
    made = object()
    return sys.getrefcount(made)


#: How many references are counted to what one local variable holds: from 3.14 on, the call that counts borrows it.
COUNTED_LOCAL = _counted_local()
#: Those to a code object, and to its normal form, that are from here.
_CODE = _DECODED = COUNTED_LOCAL + 1
_decoded: dict[int, Bytecode] = {}  # by the identity of a code object that the value keeps alive
_encoded: dict[int, Bytecode] = {}  # likewise; these cannot be had again from their code, and are kept while it can run


def decode(code: CodeType) -> Bytecode:
    """The normal form of `code`. It is kept, so the result for one code object is one object."""
    found = _encoded.get(id(code)) or _decoded.get(id(code))
    if found is None:
        if len(_decoded) >= _CACHE_LIMIT:
            _decoded.clear()
        found = _decoded[id(code)] = decode_once(code)
    return found


def remember(bytecode: Bytecode) -> Bytecode:
    """Make this the normal form of its code, which was encoded from it: the indices of its instructions are known."""
    _encoded[id(bytecode.code)] = bytecode
    return bytecode


def forget(bytecode: Bytecode) -> None:
    """Nobody can run the code of this any more."""
    _encoded.pop(id(bytecode.code), None)


def forget_dead_code() -> None:
    """Forget the normal forms of code objects that nobody else holds."""
    found = True
    while found:  # the constants of one are others
        found = False
        for identity in list(_decoded):
            bytecode = _decoded[identity]
            code = bytecode.code
            if sys.getrefcount(code) == _CODE and sys.getrefcount(bytecode) == _DECODED:
                _decoded.pop(identity, None)
                found = True
        bytecode = code = None  # type: ignore[assignment]


def free_names(code: CodeType) -> tuple[str, ...]:
    """Names of the free variables; one that is the name of a cell too (only `__class__` can be) is marked."""
    return tuple(name + FREE_MARK if name in code.co_cellvars else name for name in code.co_freevars)


def slot_names(code: CodeType) -> tuple[str, ...]:
    """Names of the fast locals in frame order: variables, cells that are no variables, free variables."""
    variables = code.co_varnames
    cells = tuple(name for name in code.co_cellvars if name not in variables)
    return variables + cells + free_names(code)


def _units(code: CodeType) -> list[tuple[int, int, int, int]]:
    """Native instructions as (offset of its first byte with prefixes, offset, opcode, argument), without caches."""
    raw = code.co_code
    units = []
    offset, start, extended = 0, 0, 0
    while offset < len(raw):
        opcode = raw[offset]
        arg = raw[offset + 1] | extended
        if opcode == _EXTENDED:
            extended = arg << 8
            offset += 2
            continue
        units.append((start, offset, opcode, arg))
        extended = 0
        offset += 2 + 2 * _CACHES[opcode]
        start = offset
    return units


def reader_of(name: str) -> Reader | None:
    """How the native instruction of this name is read."""
    own: Reader | None = native.READ.get(name)
    row = None if own else OPCODES.get(name)
    return own if row is None else row.read


def _pieces(code: CodeType, units: list[tuple[int, int, int, int]]) -> Iterator[tuple[int, int, tuple[Piece, ...]]]:
    x = Operand()
    x.names, x.consts, x.slots = code.co_names, code.co_consts, slot_names(code)
    x.cells = frozenset(code.co_cellvars + free_names(code))
    x.saved = frozenset(x.slots[arg] for _, _, opcode, arg in units if opcode == _AND_CLEAR)
    x.keywords, x.previous, x.previous_arg = None, "", 0
    last = len(units) - 1
    for index, (start, offset, opcode, arg) in enumerate(units):
        reader = reader_of(_NAMES[opcode])
        if reader is None:
            raise ValueError(f"unknown instruction {_NAMES[opcode]} in {code.co_qualname}")
        x.arg = arg
        x.next = offset + 2 + 2 * _CACHES[opcode]
        x.following = _NAMES[units[index + 1][2]] if index < last else ""
        yield start, offset, reader(x)
        x.previous, x.previous_arg = _NAMES[opcode], arg


def decode_once(code: CodeType) -> Bytecode:
    """The normal form of `code`, not kept: of code that is not seen again, and may hold much."""
    positions = list(code.co_positions())
    read = list(_pieces(code, _units(code)))
    targets = {label for _, _, pieces in read for _, _, label in pieces if label is not None}
    rows: list[tuple[str, object, int | None, int, Position | None]] = []
    labels: dict[int, int] = {}
    previous = ""
    for start, offset, pieces in read:
        if send_label(start) in targets:
            labels[send_label(start)] = len(rows)
            rows.append(("END_SEND", None, None, offset, _position(positions[offset >> 1])))
            previous = "END_SEND"
        labels[start] = len(rows)
        if start in targets:
            previous = ""
        for op, arg, label in pieces:
            if op != "TO_BOOL" or not (previous and OPCODES[previous].gives_bool):
                rows.append((op, arg, label, offset, _position(positions[offset >> 1])))
            previous = op
    labels[len(code.co_code)] = len(rows)
    instrs = tuple(
        Instr(op, arg, None if label is None else labels[label], offset, position)
        for op, arg, label, offset, position in rows
    )
    return Bytecode(code, instrs, tuple(_handlers(code, labels)))


def _position(position: Any) -> Position | None:
    return None if position[0] is None else position


def _handlers(code: CodeType, labels: dict[int, int]) -> Iterator[Handler]:
    """The exception table, neighbours with the same handler joined."""
    last: Handler | None = None
    for start, end, target, depth, lasti in _table_entries(code.co_exceptiontable):
        handler = Handler(labels[start], labels[end], labels[target], depth, lasti)
        if handler.start == handler.end:
            continue
        if last is not None and last.end == handler.start and _catches_alike(last, handler):
            last = Handler(last.start, handler.end, handler.target, depth, lasti)
            continue
        if last is not None:
            yield last
        last = handler
    if last is not None:
        yield last


def _catches_alike(a: Handler, b: Handler) -> bool:
    return (a.target, a.depth, a.lasti) == (b.target, b.depth, b.lasti)


def _table_entries(table: bytes) -> Iterator[tuple[int, int, int, int, bool]]:
    """Entries of four numbers in base 64, most significant digit first; the first byte of an entry has bit 7 set."""
    numbers = []
    value = 0
    for byte in table:
        value = value << 6 | byte & 63
        if not byte & 64:
            numbers.append(value)
            value = 0
            if len(numbers) == 4:
                start, size, target, depth = numbers
                yield 2 * start, 2 * (start + size), 2 * target, depth >> 1, bool(depth & 1)
                numbers.clear()
