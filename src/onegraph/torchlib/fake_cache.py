"""Remembers what an operator's results look like, so that the layers of a model run their meta kernels once.

A result is known by the operator and the properties of its arguments. Only results in memory of their own are kept:
views are made by C++ kernels, which are quick. Symbolic sizes are part of the properties as index expressions; what was
asked of them is remembered by the same trace, so its results are kept for that trace alone.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from onegraph.base.dataclass import dataclass
from onegraph.torchlib.aten import is_mutable, leaves, may_view
from onegraph.torchlib.private import FakeTensor, OpOverload

Key = tuple[Hashable, ...]

LIMIT = 20_000  # results: then all are forgotten
_PLAIN = (int, float, bool, str, type(None), torch.dtype, torch.device, torch.layout, torch.memory_format)
STATIC: dict[Key, Result] = {}


@dataclass(frozen=True, slots=True)
class Described:
    """The properties of a result that is a tensor."""

    size: tuple[Any, ...]
    stride: tuple[Any, ...]
    dtype: torch.dtype
    device: torch.device


@dataclass(frozen=True, slots=True)
class Several:
    """Results in a tuple or list: `kind` makes the one or the other."""

    kind: type
    items: tuple[Described | int | float | bool | None, ...]


Result = Described | Several


class Unkept(Exception):
    """This call, or its result, cannot be kept."""


def call_key(func: OpOverload, args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[Key, bool] | None:
    """What the result depends on, and whether symbolic sizes are among it; None if this call is not kept."""
    if func.namespace != "aten" or is_mutable(func) or may_view(func):
        return None
    # Where warnings are looked for, the result of a call that has given its warning elsewhere would hide it.
    found: list[Any] = [func, torch.get_default_dtype(), torch.is_warn_always_enabled()]
    try:
        symbolic = _describe_arguments(args, found)
        if kwargs:
            found.append(tuple(kwargs))
            symbolic |= _describe_arguments(tuple(kwargs.values()), found)
    except Unkept:
        return None
    return tuple(found), symbolic


def _describe_arguments(values: Sequence[Any], found: list[Any]) -> bool:
    symbolic = False
    for value in values:
        if isinstance(value, FakeTensor):
            if value.constant is not None or value.layout is not torch.strided or value.dtype.is_complex:
                raise Unkept
            found.append((value.dtype, value.fake_device))
            if value._has_symbolic_sizes_strides:
                symbolic = True
                found.append(tuple([_size(n) for n in value.shape]))
                found.append(tuple([_size(n) for n in value.stride()]))
            else:
                found.append(value.shape)
                found.append(value.stride())
        elif isinstance(value, (list, tuple)):
            found.append((type(value), len(value)))
            symbolic |= _describe_arguments(value, found)
        elif isinstance(value, _PLAIN):
            found.append(type(value))
            found.append(value)
        elif isinstance(value, torch.SymInt):
            symbolic = True
            found.append(value.node.index)
        else:
            raise Unkept
    return symbolic


def _size(value: int | torch.SymInt) -> Hashable:
    return value.node.index if isinstance(value, torch.SymInt) else value


def describe(result: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Result | None:
    """The properties of an operator's results; None if they cannot be kept."""
    taken = {leaf.untyped_storage()._cdata for leaf in leaves(args, kwargs) if isinstance(leaf, Tensor)}
    try:
        if isinstance(result, (tuple, list)):
            items = tuple([_describe(item, taken) for item in result])
            return Several(tuple if isinstance(result, tuple) else list, items)
        described = _describe(result, taken)
    except Unkept:
        return None
    return described if isinstance(described, Described) else None


def _describe(value: Any, taken: set[int]) -> Any:
    if not isinstance(value, FakeTensor):
        if value is None or isinstance(value, (int, float, bool)):
            return value
        raise Unkept
    storage = value.untyped_storage()._cdata
    if storage in taken or value.constant is not None or value.layout is not torch.strided or value.dtype.is_complex:
        raise Unkept
    if value.storage_offset():
        raise Unkept
    taken.add(storage)
    return Described(tuple(value.shape), tuple(value.stride()), value.dtype, value.fake_device)
