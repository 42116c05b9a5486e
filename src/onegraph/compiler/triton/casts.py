"""Conversions between element types in Triton's language, as torch's `.to` makes them on a GPU."""

from __future__ import annotations

from onegraph.compiler.triton.ops import triton_type
from onegraph.ir.types import BF16, BOOL, F16, F32, I32, I64, U8, U16, DType


def cast(text: str, source: DType, to: DType) -> str:
    """The expression, a name or a call, converted to another element type."""
    if source is to:
        return text
    if to is BOOL:
        return f"({text} != 0)"
    if F32 not in (source, to) and not {source, to}.isdisjoint((BF16, F16)):
        return cast(cast(text, source, F32), F32, to)
    if source.is_float and to.is_integer and to.size < 4:  # what does not fit wraps around
        wide = I64 if to in (U8, U16) else I32
        return f"{cast(text, source, wide)}.to({triton_type(to)})"
    return f"{text}.to({triton_type(to)})"
