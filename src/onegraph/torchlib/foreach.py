"""Operators over lists of tensors are others over each: `_foreach_mul_.ScalarList` is `mul_.Scalar`, as schemas tell.

_foreach_addcdiv_([p, q], [a, b], [c, d], [2.0, 3.0])   ->   addcdiv_(p, a, c, value=2.0)
                                                             addcdiv_(q, b, d, value=3.0)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import torch
from torch import Tensor

from onegraph.torchlib.private import OpOverload

PREFIX = "aten::_foreach_"
#: What the kernels for lists call by another name than their own.
NAMES = {"maximum": "clamp_min", "minimum": "clamp_max", "norm": "linalg_vector_norm"}


@cache
def over_each(op: Any) -> Callable[..., Any] | None:
    """A function with the operator's signature that calls another one for each tensor; None if it is over no list."""
    if not isinstance(op, OpOverload) or not op._schema.name.startswith(PREFIX):
        return None
    single = single_form(op)
    if single is None:
        return None
    formals, names = op._schema.arguments, [argument.name for argument in single._schema.arguments]
    by_name = all(formal.name in names for formal in formals)
    positional = sum(not argument.kwarg_only for argument in single._schema.arguments)

    def run(*args: Any, **kwargs: Any) -> Any:
        given = [
            args[i] if i < len(args) else kwargs.get(formal.name, formal.default_value)
            for i, formal in enumerate(formals)
        ]
        results = []
        for values in each(op, given):
            named = dict(zip([formal.name for formal in formals] if by_name else names, values, strict=False))
            first = [named.pop(name) for name in names[:positional] if name in named] if not by_name else []
            results.append(single(*first, **named))
        return results if op._schema.returns else None

    return run


def each(op: OpOverload, given: list[Any]) -> Iterator[list[Any]]:
    """The arguments for each tensor. Numbers for all of them may come in one tensor."""
    listed: list[Any] = []
    for formal, value in zip(op._schema.arguments, given, strict=True):
        if formal.name == "scalars" and isinstance(value, Tensor):
            listed.append([number.item() for number in value.unbind()])
        else:
            listed.append(value if isinstance(formal.type, torch.ListType) else None)
    counts = {len(values) for values in listed if values is not None}
    if len(counts) != 1:
        raise RuntimeError(f"{op} expects lists of one length, got {sorted(counts)}")
    for index in range(counts.pop()):
        yield [value if values is None else values[index] for values, value in zip(listed, given, strict=True)]


def single_form(op: OpOverload) -> OpOverload | None:
    """The operator for one tensor whose arguments are of the types that lists of tensors and numbers hold."""
    stem = op._schema.name.removeprefix(PREFIX)
    name, tail = (stem[:-1], "_") if stem.endswith("_") else (stem, "")
    packet = getattr(torch.ops.aten, NAMES.get(name, name) + tail, None)
    wanted = {argument.name: element_type(argument) for argument in op._schema.arguments}
    for overload in packet.overloads() if packet is not None else ():
        found: OpOverload = getattr(packet, overload)
        theirs = [argument for argument in found._schema.arguments if not argument.is_out]
        if len(theirs) != len(found._schema.arguments):
            continue
        named = {argument.name: str(argument.type) for argument in theirs}
        needed = {argument.name for argument in theirs if not argument.has_default_value()}
        if wanted.items() <= named.items() and needed <= wanted.keys():
            return found
        ordered, rest = [str(argument.type) for argument in theirs], theirs[len(wanted) :]
        if ordered[: len(wanted)] == list(wanted.values()) and needed.isdisjoint(item.name for item in rest):
            return found
    return None


def element_type(argument: Any) -> str:
    if argument.name == "scalars":
        return "number"
    return str(argument.type.getElementType() if isinstance(argument.type, torch.ListType) else argument.type)
