"""Rows of the opcode tables: how one native instruction is read into normal form, and how normal form is written back.

A table for reading maps a native name to a function of an `Operand` that gives pieces of normal form; a table for
writing maps a normal name to a function of a `Writer` and an index that emits native units and tells how many
instructions they stand for. Each version has tables of what is its own. What is in none of them has one name in both
forms, and is spelled as its row in the table of instructions says: most by the kind of their argument.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from onegraph.capture.bytecode.instruction import Instr

Piece = tuple[str, object, int | None]  # operation, argument, label of the jump's target
Pieces = tuple[Piece, ...]


class Operand:
    """A native instruction's argument and what it may refer to. Labels are byte offsets, or `send_label` of them."""

    __slots__ = (
        "arg", "cells", "consts", "following", "keywords", "names", "next", "previous", "previous_arg", "saved",
        "slots",
    )  # fmt: skip

    arg: int
    next: int  # offset of the following instruction
    previous: str  # native name of the preceding instruction
    previous_arg: int
    following: str  # and of the following one
    keywords: tuple[str, ...] | None  # argument names that were read and belong to the next call
    names: tuple[str, ...]
    consts: tuple[Any, ...]
    slots: tuple[str, ...]  # names of the fast locals: variables, cells, free variables
    cells: frozenset[str]  # names of cells and free variables
    saved: frozenset[str]  # names that LOAD_FAST_AND_CLEAR saves

    def ahead(self) -> int:
        return self.next + 2 * self.arg

    def back(self) -> int:
        return self.next - 2 * self.arg


class Writer(Protocol):
    """What a row may ask of the encoder."""

    instrs: tuple[Instr, ...]

    def emit(self, op: str, arg: int = 0) -> None: ...
    def jump(self, op: str, target: int) -> None: ...
    def name(self, name: str) -> int: ...
    def const(self, value: object) -> int: ...
    def slot(self, name: str) -> int: ...
    def follows(self, index: int, *ops: str) -> bool: ...


Reader = Callable[[Operand], Pieces]
WriteRow = Callable[[Writer, int], int]


def send_label(offset: int) -> int:
    """The label of the END_SEND that stands before `offset` where the native code has none."""
    return -offset


# Reading ------------------------------------------------------------------------------------------------------------


def bare(*ops: str) -> Reader:
    pieces = tuple((op, None, None) for op in ops)
    return lambda x: pieces


def number(op: str) -> Reader:
    return lambda x: ((op, x.arg, None),)


def flag(op: str) -> Reader:
    return lambda x: ((op, bool(x.arg & 1), None),)


def named(op: str) -> Reader:
    return lambda x: ((op, x.names[x.arg], None),)


def slotted(op: str) -> Reader:
    return lambda x: ((op, x.slots[x.arg], None),)


def chosen(op: str, table: tuple[str, ...]) -> Reader:
    return lambda x: ((op, table[x.arg], None),)


def ahead(*ops: str) -> Reader:
    return lambda x: (*((op, None, None) for op in ops[:-1]), (ops[-1], None, x.ahead()))


def back(*ops: str) -> Reader:
    return lambda x: (*((op, None, None) for op in ops[:-1]), (ops[-1], None, x.back()))


def load_const(x: Operand) -> Pieces:
    return (("LOAD_CONST", x.consts[x.arg], None),)


def read_fast(op: str) -> Reader:
    def read(x: Operand) -> Pieces:
        name = x.slots[x.arg]
        return (("LOAD_CLOSURE" if name in x.cells else op, name, None),)

    return read


def read_store_fast(x: Operand) -> Pieces:
    name = x.slots[x.arg]
    return (("STORE_FAST_MAYBE_NULL" if name in x.saved else "STORE_FAST", name, None),)


def return_const(x: Operand) -> Pieces:
    return (("LOAD_CONST", x.consts[x.arg], None), ("RETURN_VALUE", None, None))


def call(x: Operand) -> Pieces:
    if x.keywords is None:
        return (("CALL", x.arg, None),)
    piece = ("CALL_KW", (x.arg, x.keywords), None)
    x.keywords = None
    return (piece,)


def keyword_names(x: Operand) -> Pieces:
    x.keywords = x.consts[x.arg]
    return ()


def nothing(x: Operand) -> Pieces:
    return ()


def make_function(x: Operand) -> Pieces:
    kinds = (kind for kind, bit in FUNCTION_ATTRIBUTES.items() if x.arg & bit)
    return (("MAKE_FUNCTION", None, None), *(("SET_FUNCTION_ATTRIBUTE", kind, None) for kind in kinds))


def format_value(x: Operand) -> Pieces:
    """The conversion comes after the evaluation of the format, as in the native instruction."""
    convert: Pieces = (("CONVERT_VALUE", CONVERSIONS[x.arg & 3], None),) if x.arg & 3 else ()
    if not x.arg & 4:
        return (*convert, ("FORMAT_SIMPLE", None, None))
    if convert:
        swap: Piece = ("SWAP", 2, None)
        convert = (swap, *convert, swap)
    return (*convert, ("FORMAT_WITH_SPEC", None, None))


def with_except_start(x: Operand) -> Pieces:
    """One slot holds what leaves the block, a bound method."""
    return (("WITH_EXCEPT_START", False, None),)


def read_unpack_ex(x: Operand) -> Pieces:
    return (("UNPACK_EX", (x.arg & 0xFF, x.arg >> 8), None),)


def read_super(x: Operand) -> Pieces:
    op = "LOAD_SUPER_METHOD" if x.arg & 1 else "LOAD_SUPER_ATTR"
    return ((op, (x.names[x.arg >> 2], bool(x.arg & 2)), None),)


# Writing ------------------------------------------------------------------------------------------------------------


def write_bare(w: Writer, i: int) -> int:
    w.emit(w.instrs[i].op)
    return 1


def write_number(w: Writer, i: int) -> int:
    w.emit(w.instrs[i].op, int(w.instrs[i].arg))
    return 1


def write_named(w: Writer, i: int) -> int:
    w.emit(w.instrs[i].op, w.name(w.instrs[i].arg))
    return 1


def write_slotted(op: str | None = None) -> WriteRow:
    def write(w: Writer, i: int) -> int:
        instr = w.instrs[i]
        w.emit(op or instr.op, w.slot(instr.arg))
        return 1

    return write


def write_chosen(table: tuple[str, ...]) -> WriteRow:
    indices = {name: index for index, name in enumerate(table)}

    def write(w: Writer, i: int) -> int:
        instr = w.instrs[i]
        w.emit(instr.op, indices[instr.arg])
        return 1

    return write


def write_const(w: Writer, i: int) -> int:
    w.emit("LOAD_CONST", w.const(w.instrs[i].arg))
    return 1


def write_jump(w: Writer, i: int) -> int:
    target = w.instrs[i].target
    assert target is not None
    w.jump(w.instrs[i].op, target)
    return 1


def write_unpack_ex(w: Writer, i: int) -> int:
    before, after = w.instrs[i].arg
    w.emit("UNPACK_EX", before | after << 8)
    return 1


def write_super(w: Writer, i: int) -> int:
    instr = w.instrs[i]
    name, explicit = instr.arg
    w.emit("LOAD_SUPER_ATTR", w.name(name) << 2 | explicit << 1 | (instr.op == "LOAD_SUPER_METHOD"))
    return 1


def write_to_bool(w: Writer, i: int) -> int:
    """Versions without TO_BOOL convert where the bool is used."""
    if not any(w.follows(i + 1, op) for op in ("POP_JUMP_IF_TRUE", "POP_JUMP_IF_FALSE", "UNARY_NOT")):
        w.emit("UNARY_NOT")
        w.emit("UNARY_NOT")
    return 1


def write_global(w: Writer, i: int) -> int:
    w.emit("LOAD_GLOBAL", w.name(w.instrs[i].arg) << 1)
    return 1


def write_null_first(w: Writer, i: int) -> int:
    if not w.follows(i + 1, "LOAD_GLOBAL"):
        return write_bare(w, i)
    w.emit("LOAD_GLOBAL", w.name(w.instrs[i + 1].arg) << 1 | 1)
    return 2


def write_make_function(w: Writer, i: int) -> int:
    """Gathers the attributes that follow into flags: the native instruction takes them in this order only."""
    flags, n = 0, 1
    for kind, bit in FUNCTION_ATTRIBUTES.items():
        if w.follows(i + n, "SET_FUNCTION_ATTRIBUTE") and w.instrs[i + n].arg == kind:
            flags, n = flags | bit, n + 1
    w.emit("MAKE_FUNCTION", flags)
    return n


def write_format(w: Writer, i: int) -> int:
    """CONVERT_VALUE, FORMAT_SIMPLE, FORMAT_WITH_SPEC and their combinations as FORMAT_VALUE."""
    instr = w.instrs[i]
    match instr.op:
        case "FORMAT_WITH_SPEC":
            w.emit("FORMAT_VALUE", 4)
            return 1
        case "FORMAT_SIMPLE":
            w.emit("FORMAT_VALUE", 0)
            return 1
        case _:  # the text that a conversion gives is its own format
            w.emit("FORMAT_VALUE", CONVERSIONS.index(instr.arg))
            return 2 if w.follows(i + 1, "FORMAT_SIMPLE") else 1


def write_swap(w: Writer, i: int) -> int:
    if w.instrs[i].arg == 2 and w.follows(i + 1, "CONVERT_VALUE", "SWAP", "FORMAT_WITH_SPEC"):
        w.emit("FORMAT_VALUE", 4 | CONVERSIONS.index(w.instrs[i + 1].arg))
        return 4
    return write_number(w, i)


# What versions share -------------------------------------------------------------------------------------------------

BINARY = ("+", "&", "//", "<<", "@", "*", "%", "|", "**", ">>", "-", "/", "^",
          "+=", "&=", "//=", "<<=", "@=", "*=", "%=", "|=", "**=", ">>=", "-=", "/=", "^=")  # fmt: skip
COMPARE = ("<", "<=", "==", "!=", ">", ">=")
CONVERSIONS = ("", "str", "repr", "ascii")
FUNCTION_ATTRIBUTES = {"closure": 8, "annotate": 16, "annotations": 4, "kwdefaults": 2, "defaults": 1}  # as set

#: How instructions are read and written that have an argument of this kind.
ARGUMENTS: dict[str, tuple[Callable[[str], Reader], WriteRow]] = {
    "": (bare, write_bare),
    "number": (number, write_number),
    "flag": (flag, write_number),
    "name": (named, write_named),
    "variable": (slotted, write_slotted()),
    "constant": (lambda op: load_const, write_const),
    "target": (ahead, write_jump),
    "operator": (lambda op: chosen(op, BINARY), write_chosen(BINARY)),
    "comparison": (lambda op: chosen(op, COMPARE), write_chosen(COMPARE)),
    "conversion": (lambda op: chosen(op, CONVERSIONS), write_chosen(CONVERSIONS)),
}

#: Of JUMP and JUMP_NO_INTERRUPT, which are written by the `jump` of a version.
JUMPS: dict[str, Reader] = {
    "JUMP_FORWARD": ahead("JUMP"),
    "JUMP_BACKWARD": back("JUMP"),
    "JUMP_BACKWARD_NO_INTERRUPT": back("JUMP_NO_INTERRUPT"),
}
