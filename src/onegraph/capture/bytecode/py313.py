"""CPython 3.13: its spelling of the normal form."""

from __future__ import annotations

from onegraph.capture.bytecode import py312, rows
from onegraph.capture.bytecode.rows import COMPARE, FUNCTION_ATTRIBUTES, Operand, Pieces, Reader, Writer, WriteRow

NULL_FIRST = False
LIVE_LOCALS = True
LANDING: tuple[str, ...] = ("END_FOR", "POP_TOP")  # what stands before the target of FOR_ITER
CACHES = {
    "LOAD_GLOBAL": 4, "BINARY_OP": 1, "UNPACK_SEQUENCE": 1, "COMPARE_OP": 1, "CONTAINS_OP": 1, "BINARY_SUBSCR": 1,
    "FOR_ITER": 1, "LOAD_SUPER_ATTR": 1, "LOAD_ATTR": 9, "STORE_ATTR": 4, "CALL": 3, "STORE_SUBSCR": 1, "SEND": 1,
    "JUMP_BACKWARD": 1, "TO_BOOL": 3, "POP_JUMP_IF_TRUE": 1, "POP_JUMP_IF_FALSE": 1, "POP_JUMP_IF_NONE": 1,
    "POP_JUMP_IF_NOT_NONE": 1,
}  # fmt: skip
INTRINSICS_2 = (*py312.INTRINSICS_2, "SET_TYPEPARAM_DEFAULT")

_load = rows.read_fast("LOAD_FAST")


def _load_global(x: Operand) -> Pieces:
    load = ("LOAD_GLOBAL", x.names[x.arg >> 1], None)
    return (load, ("PUSH_NULL", None, None)) if x.arg & 1 else (load,)


def _load_const(x: Operand) -> Pieces:
    return rows.keyword_names(x) if x.following == "CALL_KW" else rows.load_const(x)


def _pop_top(x: Operand) -> Pieces:
    return () if x.previous == "END_FOR" else (("POP_TOP", None, None),)


def pair(first: Reader, second: Reader) -> Reader:
    def read(x: Operand) -> Pieces:
        both = x.arg
        x.arg = both >> 4
        pieces = first(x)
        x.arg = both & 15
        return (*pieces, *second(x))

    return read


def _compare(x: Operand) -> Pieces:
    compare = ("COMPARE_OP", COMPARE[x.arg >> 5], None)
    return (compare, ("TO_BOOL", None, None)) if x.arg & 16 else (compare,)


def _for_iter(x: Operand) -> Pieces:
    return (("FOR_ITER", None, x.ahead() + 4),)


def _function_attribute(x: Operand) -> Pieces:
    return tuple(("SET_FUNCTION_ATTRIBUTE", kind, None) for kind, bit in FUNCTION_ATTRIBUTES.items() if x.arg == bit)


READ: dict[str, Reader] = py312.SHARED_READ | {
    "LOAD_CONST": _load_const,
    "POP_TOP": _pop_top,
    "LOAD_GLOBAL": _load_global,
    "LOAD_FAST_LOAD_FAST": pair(_load, _load),
    "STORE_FAST_LOAD_FAST": pair(rows.read_store_fast, _load),
    "STORE_FAST_STORE_FAST": pair(rows.read_store_fast, rows.read_store_fast),
    "CALL_KW": rows.call,
    "SET_FUNCTION_ATTRIBUTE": _function_attribute,
    "COMPARE_OP": _compare,
    "CALL_INTRINSIC_2": rows.chosen("CALL_INTRINSIC_2", INTRINSICS_2),
    "FOR_ITER": _for_iter,
}

jump = py312.jump


def _write_global(w: Writer, i: int) -> int:
    pair = w.follows(i + 1, "PUSH_NULL")
    w.emit("LOAD_GLOBAL", w.name(w.instrs[i].arg) << 1 | pair)
    return 1 + pair


def _write_call_kw(w: Writer, i: int) -> int:
    arg, names = w.instrs[i].arg
    w.emit("LOAD_CONST", w.const(names))
    w.emit("CALL_KW", arg)
    return 1


def _write_compare(w: Writer, i: int) -> int:
    which = COMPARE.index(w.instrs[i].arg)
    to_bool = w.follows(i + 1, "TO_BOOL")
    w.emit("COMPARE_OP", which << 5 | to_bool << 4 | py312.COMPARE_MASKS[which])
    return 1 + to_bool


def _write_function_attribute(w: Writer, i: int) -> int:
    w.emit("SET_FUNCTION_ATTRIBUTE", FUNCTION_ATTRIBUTES[w.instrs[i].arg])
    return 1


WRITE: dict[str, WriteRow] = py312.SHARED_WRITE | {
    "LOAD_CLOSURE": rows.write_slotted("LOAD_FAST_CHECK"),
    "LOAD_GLOBAL": _write_global,
    "CALL_KW": _write_call_kw,
    "CALL_INTRINSIC_2": rows.write_chosen(INTRINSICS_2),
    "SET_FUNCTION_ATTRIBUTE": _write_function_attribute,
    "COMPARE_OP": _write_compare,
}
