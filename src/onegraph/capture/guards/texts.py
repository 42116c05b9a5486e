"""How guards speak of values: types, tensors, and what a call has in the place of what was."""

from __future__ import annotations

from collections.abc import Sequence
from types import BuiltinFunctionType, FunctionType, MethodType
from typing import Any

import torch

from onegraph import _C
from onegraph.capture.pyobject.contents import ATOMS
from onegraph.capture.pyobject.exact_types import isinstance
from onegraph.capture.pyobject.value_text import short
from onegraph.capture.pyobject.weakly_known import Named

#: Types of objects that are told by their names.
NAMED = (type, FunctionType, MethodType)


def type_text(cls: type | Named) -> str:
    if isinstance(cls, Named):
        return cls.text
    return cls.__name__ if cls.__module__ == "builtins" else f"{cls.__module__}.{cls.__qualname__}"


def anything(numbers: Sequence[int | None]) -> str:
    return "[" + ", ".join("any" if number is None else str(number) for number in numbers) + "]"


def tensor_text(spec: _C.TensorSpec) -> str:
    """What a tensor has to be, in a line; None for a size or stride that may be any."""
    kind = "tensor" if spec.type is torch.Tensor else spec.type.__name__
    sizes, strides = (anything(numbers) for numbers in (spec.sizes, spec.strides or ()))
    grad = " that requires grad" if spec.requires_grad else ""
    layout = f" and strides {strides}" if spec.strides else ""
    return f"a {spec.dtype.removeprefix('torch.')} {kind} on {spec.device} of size {sizes}{layout}{grad}"


def tensor_differences(before: _C.TensorSpec, tensor: torch.Tensor) -> list[str]:
    """In what a tensor is not as it has to be; what matters most comes first."""
    try:
        now = _C.TensorSpec(tensor)
    except ValueError:  # nested, or with names
        return ["is of another layout"]
    found = []
    if before.type is not now.type:
        found.append(f"was a {type_text(before.type)}, is a {type_text(now.type)}")
    if before.dtype != now.dtype:
        found.append(f"was {before.dtype.removeprefix('torch.')}, is {now.dtype.removeprefix('torch.')}")
    if before.device != now.device:
        found.append(f"was on {before.device}, is on {now.device}")
    for name, wanted, has in (("size", before.sizes, now.sizes), ("strides", before.strides, now.strides)):
        wanted, has = wanted or (), has or ()
        if len(wanted) != len(has) or any(a is not None and a != b for a, b in zip(wanted, has, strict=True)):
            found.append(f"had {name} {anything(wanted)}, has {anything(has)}")
    if before.requires_grad != now.requires_grad:
        found.append("required grad, does not" if before.requires_grad else "did not require grad, does")
    return found or ["is of another layout"]


def shown(value: Any) -> str:
    """A value as it is, where that runs no code of the program, or else what it is."""
    if isinstance(value, BuiltinFunctionType):
        return value.__name__
    if isinstance(value, Named):
        return value.text
    if type(value) in ATOMS or type(value) in NAMED:
        return short(value)
    if isinstance(value, torch.Tensor):
        return "a tensor"
    return f"a {type_text(type(value))}"
