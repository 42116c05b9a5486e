"""Facts about aten operators, read from their schemas: what they write, what they view, what they are called in functional form."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any

import torch
from torch._ops import OpOverload


def leaves(args: Sequence[Any], kwargs: Mapping[str, Any]) -> Iterator[Any]:
    """Every argument of an operator call, lists opened one level deep (aten's schemas nest no further)."""
    for value in (*args, *kwargs.values()) if kwargs else args:
        if isinstance(value, (list, tuple)):
            yield from value
        else:
            yield value


def map_leaves(f: Callable[[Any], Any], value: Any) -> Any:
    """`value` with `f` applied to everything that is not a list, tuple or dict."""
    if isinstance(value, (list, tuple)):
        return type(value)([map_leaves(f, item) for item in value])
    if isinstance(value, dict):
        return {key: map_leaves(f, item) for key, item in value.items()}
    return f(value)


@cache
def is_mutable(op: Any) -> bool:
    """Does this operator write to one of its arguments?"""
    return isinstance(op, OpOverload) and op._schema.is_mutable


@cache
def has_device_argument(op: OpOverload) -> bool:
    """Is `device` one of its keyword arguments?"""
    return any(argument.name == "device" and argument.kwarg_only for argument in op._schema.arguments)


@cache
def is_random(op: Any) -> bool:
    """Does this operator draw from a random number generator?"""
    return isinstance(op, OpOverload) and torch.Tag.nondeterministic_seeded in op.tags
