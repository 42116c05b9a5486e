"""Conversions between element types, as torch's `.to` makes them."""

from __future__ import annotations

from onegraph.compiler.codegen.emitter import Emitter, Val
from onegraph.ir.types import BF16, BOOL, F16, F32, F64, I8, I16, I32, I64, U8, U16, DType


def cast(e: Emitter, x: Val, to: DType, *, short_nan: bool = False) -> Val:
    """The value converted to another element type.

    `short_nan` says that no NaN has bits in its lower half: then rounding the bits to bfloat16 gives a NaN.
    """
    source = x.dtype
    if source is to:
        return x
    if to is BOOL:
        return _is_not_zero(e, x)
    if source is BOOL:
        return _from_integer(e, e.convert("zext", x, I32 if to.is_float else to), to)
    if source.is_float:
        if source is F32 and to is BF16:
            return _f32_to_bf16(e, x, short_nan)
        return _between_floats(e, x, to) if to.is_float else _float_to_integer(e, x, to)
    if to.is_float:
        return _from_integer(e, x, to)
    if to.size < source.size:
        return e.convert("trunc", x, to)
    if to.size > source.size:
        return e.convert("sext" if source.kind == "int" else "zext", x, to)
    return Val(x.text, to, x.lanes, x.depth)


def _is_not_zero(e: Emitter, x: Val) -> Val:
    if x.dtype in (F16, BF16):
        x = cast(e, x, F32)
    return e.inst("fcmp une" if x.dtype.is_float else "icmp ne", x, e.constant(0, x.dtype), dtype=BOOL)


def _from_integer(e: Emitter, x: Val, to: DType) -> Val:
    if not to.is_float:
        return x
    if to in (F16, BF16):
        return cast(e, _from_integer(e, x, F32), to)
    return e.convert("uitofp" if x.dtype.kind == "uint" else "sitofp", x, to)


def _between_floats(e: Emitter, x: Val, to: DType) -> Val:
    if x.dtype is BF16:
        return cast(e, _bf16_to_f32(e, x), to)
    if to is BF16:
        return cast(e, cast(e, x, F32), BF16)
    if {x.dtype, to} == {F16, F64}:  # torch goes through f32
        return cast(e, cast(e, x, F32), to)
    if not e.instructions and F16 in (x.dtype, to):
        if x.dtype is F16:
            return cast(e, _f16_to_f32(e, x), to)
        return _f32_to_f16(e, x)
    return e.convert("fpext" if to.size > x.dtype.size else "fptrunc", x, to)


def _f16_to_f32(e: Emitter, x: Val) -> Val:
    """On the bits, for machines that may have no instruction for it. The exponents' biases differ by 112."""
    bits = e.convert("zext", e.convert("bitcast", x, I16), I32)
    size = e.inst("and", bits, e.constant(0x7FFF, I32))
    bias = e.constant(112 << 23, I32)
    number = e.inst("add", e.inst("shl", size, e.constant(13, I32)), bias)
    infinite = e.inst("icmp uge", size, e.constant(0x7C00, I32), dtype=BOOL)
    number = e.select(infinite, e.inst("add", number, bias), number)
    tiny = e.inst("fmul", e.convert("sitofp", size, F32), e.constant(2.0**-24, F32))
    is_tiny = e.inst("icmp ult", size, e.constant(0x0400, I32), dtype=BOOL)
    number = e.select(is_tiny, e.convert("bitcast", tiny, I32), number)
    sign = e.inst("shl", e.inst("and", bits, e.constant(0x8000, I32)), e.constant(16, I32))
    return e.convert("bitcast", e.inst("or", number, sign), F32)


def _f32_to_f16(e: Emitter, x: Val) -> Val:
    """Round to nearest even on the bits. Adding 0.5 rounds what is below float16's normal numbers where it should."""
    bits = e.convert("bitcast", x, I32)
    size = e.inst("and", bits, e.constant(0x7FFFFFFF, I32))
    odd = e.inst("and", e.inst("lshr", size, e.constant(13, I32)), e.constant(1, I32))
    rounded = e.inst("add", e.inst("add", size, e.constant(0xFFF - (112 << 23), I32)), odd)
    number = e.inst("lshr", rounded, e.constant(13, I32))
    shifted = e.inst("fadd", e.convert("bitcast", size, F32), e.constant(0.5, F32))
    tiny = e.inst("sub", e.convert("bitcast", shifted, I32), e.constant(0x3F000000, I32))
    number = e.select(e.inst("icmp ult", size, e.constant(113 << 23, I32), dtype=BOOL), tiny, number)
    too_large = e.inst("icmp uge", size, e.constant(0x477FF000, I32), dtype=BOOL)
    number = e.select(too_large, e.constant(0x7C00, I32), number)
    number = e.select(e.inst("fcmp ord", x, x, dtype=BOOL), number, e.constant(0x7E00, I32))
    sign = e.inst("and", e.inst("lshr", bits, e.constant(16, I32)), e.constant(0x8000, I32))
    return e.convert("bitcast", e.convert("trunc", e.inst("or", number, sign), I16), F16)


def _bf16_to_f32(e: Emitter, x: Val) -> Val:
    bits = e.convert("zext", x, I32)
    return e.convert("bitcast", e.inst("shl", bits, e.constant(16, I32)), F32)


def _f32_to_bf16(e: Emitter, x: Val, short_nan: bool) -> Val:
    """Round to nearest even on the bits: the machine's own instruction flushes denormals."""
    bits = e.convert("bitcast", x, I32)
    odd = e.inst("and", e.inst("lshr", bits, e.constant(16, I32)), e.constant(1, I32))
    rounded = e.inst("add", e.inst("add", bits, e.constant(0x7FFF, I32)), odd)
    if not short_nan:
        number = e.inst("fcmp ord", x, x, dtype=BOOL)
        rounded = e.select(number, rounded, e.constant(0x7FC00000, I32))
    return e.convert("trunc", e.inst("lshr", rounded, e.constant(16, I32)), BF16)


def _float_to_integer(e: Emitter, x: Val, to: DType) -> Val:
    """Towards zero. What does not fit becomes what the machine makes of it, as in eager."""
    if x.dtype in (F16, BF16):
        x = cast(e, x, F32)
    if to in (I8, I16):
        return cast(e, e.convert("fptosi", x, I32), to)
    if to in (U8, U16):
        return cast(e, e.convert("fptosi", x, I64), to)
    return e.convert("fptosi" if to.kind == "int" else "fptoui", x, to)


def from_memory(e: Emitter, x: Val, dtype: DType) -> Val:
    """A value as it stands in memory, in its register form."""
    return e.inst("icmp ne", x, e.constant(0, I8), dtype=BOOL) if dtype is BOOL else x


def to_memory(e: Emitter, x: Val, dtype: DType) -> Val:
    """A register's value in the form in which it is stored."""
    return e.convert("zext", x, I8) if dtype is BOOL else x
