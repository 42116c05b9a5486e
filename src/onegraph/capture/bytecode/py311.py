"""CPython 3.11: its spelling of the normal form."""

from __future__ import annotations

from onegraph.capture.bytecode import rows
from onegraph.capture.bytecode.rows import JUMPS, Operand, Pieces, Reader, Writer, WriteRow

NULL_FIRST = True
LIVE_LOCALS = False
LANDING: tuple[str, ...] = ()  # what stands before the target of FOR_ITER
CACHES = {
    "BINARY_SUBSCR": 4, "STORE_SUBSCR": 1, "UNPACK_SEQUENCE": 1, "STORE_ATTR": 4, "LOAD_ATTR": 4, "COMPARE_OP": 2,
    "LOAD_GLOBAL": 5, "BINARY_OP": 1, "LOAD_METHOD": 10, "PRECALL": 1, "CALL": 4,
}  # fmt: skip


def _load_global(x: Operand) -> Pieces:
    load = ("LOAD_GLOBAL", x.names[x.arg >> 1], None)
    return (("PUSH_NULL", None, None), load) if x.arg & 1 else (load,)


def _jump_or_pop(op: str) -> Reader:
    return lambda x: (
        ("COPY", 1, None), ("TO_BOOL", None, None), (op, None, x.ahead()), ("POP_TOP", None, None),
    )  # fmt: skip


def _send(x: Operand) -> Pieces:
    return (("SEND", None, rows.send_label(x.ahead())),)


def _class_deref(x: Operand) -> Pieces:
    return (("LOAD_LOCALS", None, None), ("LOAD_FROM_DICT_OR_DEREF", x.slots[x.arg], None))


def _intrinsic(op: str, name: str, *after: str) -> Reader:
    pieces = ((op, name, None), *((op, None, None) for op in after))
    return lambda x: pieces


READ: dict[str, Reader] = JUMPS | {
    "LOAD_GLOBAL": _load_global,
    "LOAD_CLASSDEREF": _class_deref,
    "PRECALL": rows.nothing,
    "KW_NAMES": rows.keyword_names,
    "CALL": rows.call,
    "MAKE_FUNCTION": rows.make_function,
    "FORMAT_VALUE": rows.format_value,
    "UNARY_NOT": rows.bare("TO_BOOL", "UNARY_NOT"),
    "UNARY_POSITIVE": _intrinsic("CALL_INTRINSIC_1", "UNARY_POSITIVE"),
    "LIST_TO_TUPLE": _intrinsic("CALL_INTRINSIC_1", "LIST_TO_TUPLE"),
    "ASYNC_GEN_WRAP": _intrinsic("CALL_INTRINSIC_1", "ASYNC_GEN_WRAP"),
    "IMPORT_STAR": _intrinsic("CALL_INTRINSIC_1", "IMPORT_STAR", "POP_TOP"),
    "PRINT_EXPR": _intrinsic("CALL_INTRINSIC_1", "PRINT", "POP_TOP"),
    "PREP_RERAISE_STAR": _intrinsic("CALL_INTRINSIC_2", "PREP_RERAISE_STAR"),
    "SEND": _send,
    "WITH_EXCEPT_START": rows.with_except_start,
    "JUMP_IF_TRUE_OR_POP": _jump_or_pop("POP_JUMP_IF_TRUE"),
    "JUMP_IF_FALSE_OR_POP": _jump_or_pop("POP_JUMP_IF_FALSE"),
    "POP_JUMP_FORWARD_IF_TRUE": rows.ahead("TO_BOOL", "POP_JUMP_IF_TRUE"),
    "POP_JUMP_FORWARD_IF_FALSE": rows.ahead("TO_BOOL", "POP_JUMP_IF_FALSE"),
    "POP_JUMP_FORWARD_IF_NONE": rows.ahead("POP_JUMP_IF_NONE"),
    "POP_JUMP_FORWARD_IF_NOT_NONE": rows.ahead("POP_JUMP_IF_NOT_NONE"),
    "POP_JUMP_BACKWARD_IF_TRUE": rows.back("TO_BOOL", "POP_JUMP_IF_TRUE"),
    "POP_JUMP_BACKWARD_IF_FALSE": rows.back("TO_BOOL", "POP_JUMP_IF_FALSE"),
    "POP_JUMP_BACKWARD_IF_NONE": rows.back("POP_JUMP_IF_NONE"),
    "POP_JUMP_BACKWARD_IF_NOT_NONE": rows.back("POP_JUMP_IF_NOT_NONE"),
}


def jump(op: str, forward: bool) -> tuple[str, ...]:
    """The native spelling of a jump."""
    match op:
        case "JUMP" | "JUMP_NO_INTERRUPT":
            suffix = "" if op == "JUMP" or forward else "_NO_INTERRUPT"
            return (("JUMP_FORWARD" if forward else "JUMP_BACKWARD") + suffix,)
        case "SEND" | "FOR_ITER":
            return (op,)
        case _:
            return (op.replace("POP_JUMP", "POP_JUMP_FORWARD" if forward else "POP_JUMP_BACKWARD"),)


def _write_call(w: Writer, i: int) -> int:
    arg = w.instrs[i].arg
    if w.instrs[i].op == "CALL_KW":
        arg, names = arg
        w.emit("KW_NAMES", w.const(names))
    w.emit("PRECALL", arg)
    w.emit("CALL", arg)
    return 1


def _write_intrinsic(w: Writer, i: int) -> int:
    match w.instrs[i].arg:
        case "IMPORT_STAR" if w.follows(i + 1, "POP_TOP"):
            w.emit("IMPORT_STAR")
            return 2
        case "PRINT" if w.follows(i + 1, "POP_TOP"):
            w.emit("PRINT_EXPR")
            return 2
        case "UNARY_POSITIVE" | "LIST_TO_TUPLE" | "ASYNC_GEN_WRAP" | "PREP_RERAISE_STAR" as native:
            w.emit(native)
            return 1
        case other:
            raise ValueError(f"CPython 3.11 has no instruction for {other}")


def _write_locals(w: Writer, i: int) -> int:
    if not w.follows(i + 1, "LOAD_FROM_DICT_OR_DEREF"):
        raise ValueError("CPython 3.11 has LOAD_LOCALS only as a part of LOAD_CLASSDEREF")
    w.emit("LOAD_CLASSDEREF", w.slot(w.instrs[i + 1].arg))
    return 2


def _write_nothing(w: Writer, i: int) -> int:
    return 1


WRITE: dict[str, WriteRow] = {
    "PUSH_NULL": rows.write_null_first,
    "LOAD_GLOBAL": rows.write_global,
    "LOAD_FAST_CHECK": rows.write_slotted("LOAD_FAST"),
    "LOAD_LOCALS": _write_locals,
    "CALL": _write_call,
    "CALL_KW": _write_call,
    "CALL_INTRINSIC_1": _write_intrinsic,
    "CALL_INTRINSIC_2": _write_intrinsic,
    "MAKE_FUNCTION": rows.write_make_function,
    "TO_BOOL": rows.write_to_bool,
    "SWAP": rows.write_swap,
    "CONVERT_VALUE": rows.write_format,
    "FORMAT_SIMPLE": rows.write_format,
    "FORMAT_WITH_SPEC": rows.write_format,
    "END_SEND": _write_nothing,
    "WITH_EXCEPT_START": rows.write_bare,
}
