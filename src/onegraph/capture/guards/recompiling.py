"""Why no compiled version of a frame fits a call, in the terms of the program."""

from __future__ import annotations

from collections import deque
from types import BuiltinFunctionType, FunctionType, MappingProxyType, MemberDescriptorType, MethodType
from typing import Any, assert_never

import torch

from onegraph import _C
from onegraph.base.events import Location
from onegraph.capture.guards.guard import Guard, ShapeCondition, anything, guard_text, type_text
from onegraph.capture.guards.program import Reason
from onegraph.capture.guards.source import (
    Arg,
    Attr,
    CellOf,
    Const,
    DictOf,
    FreeCell,
    Globals,
    Item,
    Source,
    Through,
    TypeOf,
    written,
)
from onegraph.capture.pyobject.contents import ATOMS
from onegraph.capture.pyobject.exact_types import defined, isinstance
from onegraph.capture.pyobject.value_text import short
from onegraph.capture.pyobject.weakly_known import Named, referred

_MISSING = object()
#: Types of objects that are told by their names.
NAMED = (type, FunctionType, MethodType)


def explain_failure(
    failed: Reason | None, function: FunctionType, values: tuple[Any, ...]
) -> tuple[str, Location | None]:
    """A guard that fails for a call in words, with what the call has instead, and the user's line that needed it."""
    match failed:
        case Guard():
            return difference(failed, value_at(failed.source, function, values)), failed.location
        case ShapeCondition():
            return f"`{failed.text}` holds no longer", failed.location
        case None:
            return "the state of the process changed", None
        case _:
            return f"the state of the process changed: {', '.join(failed.changed())}", None


def value_at(source: Source, function: FunctionType, values: tuple[Any, ...]) -> Any:
    """The value that a call has at a source, read without code of the program; `_MISSING` where that cannot be done."""
    match source:
        case Arg(index, _):
            return values[index]
        case FreeCell(index, _):
            return (function.__closure__ or ())[index]
        case Globals(_, _, namespace):
            return namespace
        case Const(_, _, value):
            return value
        case Attr(base, _) | Item(base, _) | DictOf(base) | CellOf(base) | TypeOf(base) | Through(base, _):
            owner = value_at(base, function, values)
        case _:
            assert_never(source)
    try:
        match source:
            case Item(_, key) if isinstance(owner, dict):
                return dict.get(owner, referred(key), _MISSING)
            case Item(_, str(key)) if type(owner) is MappingProxyType:  # the names of a class
                return owner.get(key, _MISSING)
            case Item(_, key) if type(owner) in (list, tuple, deque):
                return owner[key]
            case Attr(_, name) if type(found := defined(type(owner), name)) is MemberDescriptorType:
                return found.__get__(owner)
            case DictOf() if owner is not _MISSING:
                return object.__getattribute__(owner, "__dict__")
            case CellOf() if owner is not _MISSING:
                return owner.cell_contents
            case TypeOf() if owner is not _MISSING:
                return type(owner)
            case Through(_, function) if owner is not _MISSING:
                return function(owner)
    except (LookupError, AttributeError, TypeError, ValueError):
        pass
    return _MISSING


def difference(guard: Guard, value: Any) -> str:
    """What a guard wants, and what the call has in its place."""
    what = written(guard.source)
    if value is _MISSING:
        return f"`{guard_text(guard)}` holds no longer"
    match guard.kind:
        case "tensor" if isinstance(value, torch.Tensor):
            return f"`{what}` {tensor_difference(guard.arg, _C.TensorSpec(value))}"
        case "tensor":
            return f"`{what}` was a tensor, is {shown(value)}"
        case "is" | "equal":
            return f"`{what}` was {shown(guard.arg)}, is {shown(value)}"
        case "type":
            return f"`type({what})` was {type_text(guard.arg)}, is {type_text(type(value))}"
        case "length":
            return f"`len({what})` was {guard.arg}, is {len(value)}"
        case "keys":
            return f"`list({what})` was {short(list(guard.arg))}, is {short(list(value))}"
        case "class" if isinstance(value, type):
            return f"the class `{what}` has changed: {guard.arg.difference(value)}"
        case _:
            return f"`{guard_text(guard)}` holds no longer"


def tensor_difference(before: _C.TensorSpec, now: _C.TensorSpec) -> str:
    """The first thing in which a tensor is not as it has to be."""
    if before.type is not now.type:
        return f"was a {type_text(before.type)}, is a {type_text(now.type)}"
    if before.dtype != now.dtype:
        return f"was {before.dtype.removeprefix('torch.')}, is {now.dtype.removeprefix('torch.')}"
    if before.device != now.device:
        return f"was on {before.device}, is on {now.device}"
    for name, wanted, found in (("size", before.sizes, now.sizes), ("strides", before.strides, now.strides)):
        wanted, found = wanted or (), found or ()
        if len(wanted) != len(found) or any(a is not None and a != b for a, b in zip(wanted, found, strict=True)):
            return f"had {name} {anything(wanted)}, has {anything(found)}"
    if before.requires_grad != now.requires_grad:
        return "required grad, does not" if before.requires_grad else "did not require grad, does"
    return "is of another layout"


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
