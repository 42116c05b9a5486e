"""Why no compiled version of a frame fits a call, in the terms of the program."""

from __future__ import annotations

from collections.abc import Iterable
from types import FunctionType, GetSetDescriptorType, MappingProxyType, MemberDescriptorType
from typing import Any

import torch

from onegraph import _C
from onegraph.base.events import Location
from onegraph.capture.guards.guard import Guard, ShapeCondition
from onegraph.capture.guards.program import GuardProgram, Reason
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
    base_of,
    written,
)
from onegraph.capture.guards.texts import tensor_differences
from onegraph.capture.pyobject.exact_types import defined, isinstance
from onegraph.capture.pyobject.weakly_known import referred

MISSING = object()
#: What native types, and slots, have for what their instances hold.
FIELDS = (GetSetDescriptorType, MemberDescriptorType)
#: More than a tensor can have in common with another one, and differ in.
MANY = 100


def explain_failure(
    versions: Iterable[GuardProgram], function: FunctionType, values: tuple[Any, ...]
) -> tuple[str, Location | None]:
    """Why the closest of these versions does not fit a call: its guard that fails, in words, with what the call has
    instead, and the user's line that needed it.

    The closest is that of which most holds; of a tensor, that with the fewest differences; else the newest.
    """
    found = [version.failing_at(function, values) for version in versions]
    *_, failed = max((passed, -differences(why, function, values), age, why) for age, (passed, why) in enumerate(found))
    match failed:
        case Guard():
            return difference(failed, value_at(failed.source, function, values)), failed.location
        case ShapeCondition():
            return f"`{failed.text}` holds no longer", failed.location
        case None:
            return "the state of the process changed", None
        case _:
            return f"the state of the process changed: {', '.join(changed(failed))}", None


def differences(failed: Reason | None, function: FunctionType, values: tuple[Any, ...]) -> int:
    """In how many things the value of a call is not as a guard wants it."""
    if not isinstance(failed, Guard) or failed.kind not in ("tensor", "equal", "is", "type"):
        return 1
    value = value_at(failed.source, function, values)
    if failed.kind == "tensor" and isinstance(value, torch.Tensor):
        return len(tensor_differences(failed.arg, value))
    return 1 if type(value) is type(failed.arg) else MANY


def changed(state: _C.GlobalState) -> tuple[str, ...]:
    """The names of what is different now, as far as Python can tell."""
    now = _C.GlobalState().values
    return tuple(name for name, value in state.values.items() if now[name] != value)


def value_at(source: Source, function: FunctionType, values: tuple[Any, ...]) -> Any:
    """The value that a call has at a source, read without code of the program; `MISSING` where that cannot be done."""
    base = base_of(source)
    return value_in(None if base is None else value_at(base, function, values), source, function, values)


def value_in(owner: Any, source: Source, function: FunctionType, values: tuple[Any, ...]) -> Any:
    """The same, read from what is at the base of the source."""
    if owner is MISSING:
        return MISSING
    try:
        match source:
            case Arg(index, _):
                return values[index]
            case FreeCell(index, _):
                return (function.__closure__ or ())[index]
            case Globals(_, _, value) | Const(_, _, value):
                return value
            case Item(_, key) if isinstance(owner, dict):
                return dict.get(owner, referred(key), MISSING)
            case Item(_, str(key)) if type(owner) is MappingProxyType:  # the names of a class
                return owner.get(key, MISSING)
            case Item(_, key) if isinstance(owner, tuple):
                return tuple.__getitem__(owner, key)
            case Item(_, key) if isinstance(owner, list):
                return list.__getitem__(owner, key)
            case Attr(_, name) if type(found := defined(type(owner), name)) in FIELDS:
                return found.__get__(owner)
            case DictOf():
                return object.__getattribute__(owner, "__dict__")
            case CellOf():
                return owner.cell_contents
            case TypeOf():
                return type(owner)
            case Through(_, derive):
                return derive(owner)
    except (LookupError, AttributeError, TypeError, ValueError):
        pass
    return MISSING


def difference(guard: Guard, value: Any) -> str:
    """What a guard wants, and what the call has in its place."""
    told = None if value is MISSING else guard.rule.difference(guard, written(guard.source), value)
    return told or f"`{guard}` holds no longer"
