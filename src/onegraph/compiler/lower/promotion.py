"""Element types of mixed operands, by torch's rules: tensors with dimensions count before 0-dim ones before numbers."""

from __future__ import annotations

from typing import Any

import torch

from onegraph.compiler.lower.arguments import Fraction, dtype_of, torch_dtype
from onegraph.compiler.lower.views import View
from onegraph.ir.index import Index
from onegraph.ir.types import BOOL, F32, I64, DType

_CATEGORY = {"bool": 0, "int": 1, "uint": 1, "float": 2, "opaque": 3}


def promoted(operands: list[Any]) -> DType:
    """The common element type of tensors and numbers."""
    levels: list[DType | None] = [None, None, None]  # tensors with dimensions, 0-dim tensors, numbers
    for operand in operands:
        if isinstance(operand, View):
            level = 0 if operand.rank else 1
            levels[level] = _join(levels[level], operand.dtype)
        else:
            levels[2] = _join(levels[2], number_type(operand))
    result: DType | None = None
    for dtype in levels:
        if dtype is None:
            continue
        if result is None or _CATEGORY[dtype.kind] > _CATEGORY[result.kind]:
            result = dtype
    assert result is not None
    return result


def number_type(value: Any) -> DType:
    """The element type that a Python number stands for."""
    if isinstance(value, bool):
        return BOOL
    if isinstance(value, int | Index):
        return I64
    return F32 if isinstance(value, float | Fraction) else dtype_of(torch.complex64)


def _join(a: DType | None, b: DType) -> DType:
    if a is None or a is b:
        return b
    return dtype_of(torch.promote_types(torch_dtype(a), torch_dtype(b)))
