"""CPython 3.12: its spelling of the normal form."""

from __future__ import annotations

from onegraph.capture.bytecode import rows
from onegraph.capture.bytecode.rows import COMPARE, JUMPS, Operand, Pieces, Reader, Writer, WriteRow

NULL_FIRST = True
LIVE_LOCALS = False
LANDING: tuple[str, ...] = ("END_FOR",)  # what stands before the target of FOR_ITER
CACHES = {
    "BINARY_SUBSCR": 1, "STORE_SUBSCR": 1, "UNPACK_SEQUENCE": 1, "FOR_ITER": 1, "STORE_ATTR": 4, "LOAD_ATTR": 9,
    "COMPARE_OP": 1, "LOAD_GLOBAL": 4, "BINARY_OP": 1, "SEND": 1, "LOAD_SUPER_ATTR": 1, "CALL": 3,
}  # fmt: skip
INTRINSICS_1 = (
    "INVALID", "PRINT", "IMPORT_STAR", "STOPITERATION_ERROR", "ASYNC_GEN_WRAP", "UNARY_POSITIVE", "LIST_TO_TUPLE",
    "TYPEVAR", "PARAMSPEC", "TYPEVARTUPLE", "SUBSCRIPT_GENERIC", "TYPEALIAS",
)  # fmt: skip
INTRINSICS_2 = (
    "INVALID", "PREP_RERAISE_STAR", "TYPEVAR_WITH_BOUND", "TYPEVAR_WITH_CONSTRAINTS", "SET_FUNCTION_TYPE_PARAMS",
)  # fmt: skip
COMPARE_MASKS = (2, 10, 8, 7, 4, 12)  # of the outcomes unordered 1, less 2, greater 4, equal 8: read by specialisation


def _load_global(x: Operand) -> Pieces:
    load = ("LOAD_GLOBAL", x.names[x.arg >> 1], None)
    return (("PUSH_NULL", None, None), load) if x.arg & 1 else (load,)


def _load_attr(x: Operand) -> Pieces:
    return (("LOAD_METHOD" if x.arg & 1 else "LOAD_ATTR", x.names[x.arg >> 1], None),)


def _compare(x: Operand) -> Pieces:
    return (("COMPARE_OP", COMPARE[x.arg >> 4], None),)


def _for_iter(x: Operand) -> Pieces:
    return (("FOR_ITER", None, x.ahead() + 2),)


def _slice(op: str) -> Reader:
    return lambda x: (("BUILD_SLICE", 2, None), (op, None, None))


SHARED_READ: dict[str, Reader] = JUMPS | {
    "LOAD_ATTR": _load_attr,
    "CALL_INTRINSIC_1": rows.chosen("CALL_INTRINSIC_1", INTRINSICS_1),
    "BINARY_SLICE": _slice("BINARY_SUBSCR"),
    "STORE_SLICE": _slice("STORE_SUBSCR"),
    "RETURN_CONST": rows.return_const,
    "END_FOR": rows.nothing,
    "WITH_EXCEPT_START": rows.with_except_start,
}

READ: dict[str, Reader] = SHARED_READ | {
    "LOAD_GLOBAL": _load_global,
    "KW_NAMES": rows.keyword_names,
    "CALL": rows.call,
    "MAKE_FUNCTION": rows.make_function,
    "FORMAT_VALUE": rows.format_value,
    "COMPARE_OP": _compare,
    "UNARY_NOT": rows.bare("TO_BOOL", "UNARY_NOT"),
    "CALL_INTRINSIC_2": rows.chosen("CALL_INTRINSIC_2", INTRINSICS_2),
    "FOR_ITER": _for_iter,
    "POP_JUMP_IF_TRUE": rows.ahead("TO_BOOL", "POP_JUMP_IF_TRUE"),
    "POP_JUMP_IF_FALSE": rows.ahead("TO_BOOL", "POP_JUMP_IF_FALSE"),
}


_OPPOSITE = {
    "POP_JUMP_IF_TRUE": "POP_JUMP_IF_FALSE", "POP_JUMP_IF_FALSE": "POP_JUMP_IF_TRUE",
    "POP_JUMP_IF_NONE": "POP_JUMP_IF_NOT_NONE", "POP_JUMP_IF_NOT_NONE": "POP_JUMP_IF_NONE",
}  # fmt: skip


def jump(op: str, forward: bool) -> tuple[str, ...]:
    """The native spelling of a jump: a conditional one cannot go back, so the opposite one skips a backward jump."""
    match op:
        case "JUMP" | "JUMP_NO_INTERRUPT":
            suffix = "" if op == "JUMP" or forward else "_NO_INTERRUPT"
            return (("JUMP_FORWARD" if forward else "JUMP_BACKWARD") + suffix,)
        case _ if forward:
            return (op,)
        case _:
            return (_OPPOSITE[op], "JUMP_BACKWARD")


def _write_attr(w: Writer, i: int) -> int:
    instr = w.instrs[i]
    w.emit("LOAD_ATTR", w.name(instr.arg) << 1 | (instr.op == "LOAD_METHOD"))
    return 1


def _write_call_kw(w: Writer, i: int) -> int:
    arg, names = w.instrs[i].arg
    w.emit("KW_NAMES", w.const(names))
    w.emit("CALL", arg)
    return 1


def _write_compare(w: Writer, i: int) -> int:
    which = COMPARE.index(w.instrs[i].arg)
    w.emit("COMPARE_OP", which << 4 | COMPARE_MASKS[which])
    return 1


SHARED_WRITE: dict[str, WriteRow] = {
    "LOAD_ATTR": _write_attr,
    "LOAD_METHOD": _write_attr,
    "CALL_INTRINSIC_1": rows.write_chosen(INTRINSICS_1),
    "WITH_EXCEPT_START": rows.write_bare,
}

WRITE: dict[str, WriteRow] = SHARED_WRITE | {
    "PUSH_NULL": rows.write_null_first,
    "LOAD_GLOBAL": rows.write_global,
    "CALL_KW": _write_call_kw,
    "CALL_INTRINSIC_2": rows.write_chosen(INTRINSICS_2),
    "MAKE_FUNCTION": rows.write_make_function,
    "COMPARE_OP": _write_compare,
    "TO_BOOL": rows.write_to_bool,
    "SWAP": rows.write_swap,
    "CONVERT_VALUE": rows.write_format,
    "FORMAT_SIMPLE": rows.write_format,
    "FORMAT_WITH_SPEC": rows.write_format,
}
