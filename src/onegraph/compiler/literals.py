"""Arithmetic on literals while a kernel is built: what every element would compute alike is computed once, here."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from typing import Any

from onegraph.base.constants import inf
from onegraph.ir.loop import Literal, Operand
from onegraph.ir.types import BF16, BOOL, F16, F32, DType

_ASK: dict[str, Callable[..., bool]] = {
    "eq": lambda a, b: a == b,
    "ne": lambda a, b: a != b,
    "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b,
    "gt": lambda a, b: a > b,
    "ge": lambda a, b: a >= b,
    "isnan": lambda a: a != a,
    "isinf": lambda a: abs(a) == inf,
    "signbit": lambda a: math.copysign(1, a) < 0,
}
_ARITHMETIC: dict[str, Callable[[Any, Any], Any]] = {
    "maximum": max,
    "minimum": min,
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
}
_LOGIC: dict[str, Callable[[Any, Any], bool]] = {
    "and": lambda a, b: a and b,
    "or": lambda a, b: a or b,
    "xor": lambda a, b: a is not b,
}


def fold(op: str, dtype: DType, args: tuple[Operand, ...]) -> Operand | None:
    """What the operation gives, where that is known without running it; None where it is not."""
    if op == "where":
        condition, a, b = args
        return a if condition is True else b if condition is False else None
    if dtype is BOOL and op in ("and", "or"):
        neutral = op == "and"
        rest = [arg for arg in args if arg is not neutral]
        if len(rest) < 2:
            return rest[0] if rest else neutral
        if (not neutral) in [arg for arg in args if not isinstance(arg, str)]:
            return not neutral
    if op in ("add", "sub") and dtype.is_integer and args[1] == 0:
        return args[0]
    if any(isinstance(arg, str) for arg in args):
        return None
    if op in _ASK:
        return _ASK[op](*args)
    if any(arg != arg for arg in args):
        return None
    if op == "not" and dtype is BOOL:
        return not args[0]
    if op in _LOGIC and dtype is BOOL:
        return _LOGIC[op](*args)
    if op in _ARITHMETIC and (dtype.is_float or dtype.is_integer):
        return convert(_ARITHMETIC[op](*args), dtype)
    return None


def convert(value: Literal, dtype: DType) -> Literal:
    """A literal as one of the type, as torch's conversion of that number would give it."""
    if dtype is BOOL:
        return bool(value)
    if dtype.is_float:
        return rounded(float(value), dtype)
    if isinstance(value, float) and not math.isfinite(value):
        return -(1 << dtype.bits - 1) if dtype.kind == "int" else 0
    number = int(value) & ((1 << dtype.bits) - 1)
    return number - (1 << dtype.bits) if dtype.kind == "int" and number >> (dtype.bits - 1) else number


def rounded(value: float, dtype: DType) -> float:
    """The nearest number of the type."""
    if not math.isfinite(value):
        return value
    if dtype is BF16:
        bits = struct.unpack("<I", struct.pack("<f", rounded(value, F32)))[0]
        nearest: float = struct.unpack("<f", struct.pack("<I", bits + 0x7FFF + (bits >> 16 & 1) & 0xFFFF0000))[0]
        return nearest
    if dtype in (F16, F32):
        try:
            form = "<e" if dtype is F16 else "<f"
            converted: float = struct.unpack(form, struct.pack(form, value))[0]
            return converted
        except OverflowError:
            return math.copysign(inf, value)
    return value
