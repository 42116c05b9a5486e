"""CPython 3.14: its spelling of the normal form."""

from __future__ import annotations

import builtins

from onegraph.capture.bytecode import py312, py313, rows
from onegraph.capture.bytecode.rows import BINARY, CONVERSIONS, Operand, Pieces, Reader, Writer, WriteRow

NULL_FIRST = False
LIVE_LOCALS = True
LANDING: tuple[str, ...] = ("END_FOR", "POP_ITER")  # what stands before the target of FOR_ITER
CACHES = py313.CACHES | {"BINARY_OP": 5, "CALL_KW": 3}
SPECIAL = ("__enter__", "__exit__", "__aenter__", "__aexit__")
COMMON_CONSTANTS = (AssertionError, NotImplementedError, tuple, builtins.all, builtins.any)

_SUBSCRIPT = len(BINARY)  # among the operators
_HAS_FORMAT, _INTERPOLATION = 1, 2  # the second is always set
_load = rows.read_fast("LOAD_FAST")
_load_two = py313.pair(_load, _load)


def _binary(x: Operand) -> Pieces:
    return (("BINARY_SUBSCR", None, None) if x.arg == _SUBSCRIPT else ("BINARY_OP", BINARY[x.arg], None),)


def _load_small_int(x: Operand) -> Pieces:
    return (("LOAD_CONST", x.arg, None),)


def _load_common_constant(x: Operand) -> Pieces:
    if COMMON_CONSTANTS[x.arg] is AssertionError:
        return (("LOAD_ASSERTION_ERROR", None, None),)
    return (("LOAD_CONST", COMMON_CONSTANTS[x.arg], None),)


def _push_null(x: Operand) -> Pieces:
    """In the place of keyword arguments there is a NULL if there are none."""
    return () if x.following == "CALL_FUNCTION_EX" else (("PUSH_NULL", None, None),)


def _load_global(x: Operand) -> Pieces:
    """One that also pushes a NULL is the function of a call, or the positional arguments of one without others."""
    load = ("LOAD_GLOBAL", x.names[x.arg >> 1], None)
    return (load, ("PUSH_NULL", None, None)) if x.arg & 1 and x.following != "CALL_FUNCTION_EX" else (load,)


def _call_function_ex(x: Operand) -> Pieces:
    has_null = x.previous == "PUSH_NULL" or x.previous == "LOAD_GLOBAL" and x.previous_arg & 1
    return (("CALL_FUNCTION_EX", not has_null, None),)


def _pop_iter(x: Operand) -> Pieces:
    return () if x.previous == "END_FOR" else (("POP_TOP", None, None),)


def _interpolation(x: Operand) -> Pieces:
    return (("BUILD_INTERPOLATION", (CONVERSIONS[x.arg >> 2], bool(x.arg & _HAS_FORMAT)), None),)


def _with_except_start(x: Operand) -> Pieces:
    return (("WITH_EXCEPT_START", True, None),)


READ: dict[str, Reader] = py313.READ | {
    "BINARY_OP": _binary,
    "LOAD_SMALL_INT": _load_small_int,
    "LOAD_COMMON_CONSTANT": _load_common_constant,
    "LOAD_SPECIAL": rows.chosen("LOAD_SPECIAL", SPECIAL),
    "LOAD_FAST_BORROW": _load,
    "LOAD_FAST_BORROW_LOAD_FAST_BORROW": _load_two,
    "POP_TOP": rows.bare("POP_TOP"),
    "POP_ITER": _pop_iter,
    "NOT_TAKEN": rows.nothing,
    "PUSH_NULL": _push_null,
    "LOAD_GLOBAL": _load_global,
    "CALL_FUNCTION_EX": _call_function_ex,
    "BUILD_INTERPOLATION": _interpolation,
    "WITH_EXCEPT_START": _with_except_start,
}

jump = py312.jump


def _write_subscript(w: Writer, i: int) -> int:
    w.emit("BINARY_OP", _SUBSCRIPT)
    return 1


def _write_assertion_error(w: Writer, i: int) -> int:
    w.emit("LOAD_COMMON_CONSTANT", COMMON_CONSTANTS.index(AssertionError))
    return 1


def _write_call_function_ex(w: Writer, i: int) -> int:
    if not w.instrs[i].arg:
        w.emit("PUSH_NULL")
    w.emit("CALL_FUNCTION_EX")
    return 1


def _write_interpolation(w: Writer, i: int) -> int:
    conversion, has_format = w.instrs[i].arg
    w.emit("BUILD_INTERPOLATION", CONVERSIONS.index(conversion) << 2 | _INTERPOLATION | has_format)
    return 1


WRITE: dict[str, WriteRow] = py313.WRITE | {
    "BINARY_SUBSCR": _write_subscript,
    "LOAD_ASSERTION_ERROR": _write_assertion_error,
    "LOAD_SPECIAL": rows.write_chosen(SPECIAL),
    "CALL_FUNCTION_EX": _write_call_function_ex,
    "BUILD_INTERPOLATION": _write_interpolation,
}
