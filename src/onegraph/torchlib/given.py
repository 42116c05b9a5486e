"""Numbers that the program was given, as arguments of operators."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import torch

from onegraph.torchlib.aten import OpOverload, map_leaves
from onegraph.torchlib.size_expression import Whole


@dataclass(frozen=True, slots=True)
class Within:
    """Whether all operators take a number where `limit` is the largest one: some refuse finite ones beyond it."""

    limit: float

    def __str__(self) -> str:
        return f"is_within({self.limit:.2g})"

    def __call__(self, number: float) -> bool:
        return not self.limit < abs(number) < math.inf


def indexed(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments of a function of torch, where integers are index expressions, or what they are in this trace."""
    wholes = [whole for arg in (*args, *kwargs.values()) for whole in wholes_in(arg)]
    if not any([whole.node.index.constant is not None for whole in wholes]):
        return args, kwargs
    return map_leaves(plain, args), map_leaves(plain, kwargs)


def wholes_in(value: Any) -> Iterator[torch.SymInt]:
    """The known integers that are no index expressions yet, of those that a function is given."""
    match value:
        case torch.SymInt() if isinstance(value.node.value, Whole) and value.node.is_known:
            yield value
        case list() | tuple():
            for item in value:
                yield from wholes_in(item)
        case slice():
            yield from wholes_in((value.start, value.stop, value.step))


def plain(value: Any) -> Any:
    """A symbolic integer that has become a constant as that, anything else as it is."""
    constant = value.node.constant if isinstance(value, torch.SymInt) and value.node.is_known else None
    return value if constant is None else constant


def bounded_arguments(
    func: OpOverload, args: Any, kwargs: Any, tensors: Iterable[torch.Tensor]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments of an operator, where those that it takes as numbers are within the limit.

    A number in the place of a tensor is converted as tensors are, without being refused.
    """
    numbers = [not isinstance(argument.type, torch.TensorType) for argument in func._schema.arguments]
    positional = tuple(bounded(a, tensors) if number else a for a, number in zip(args, numbers, strict=False))
    return positional, {name: bounded(value, tensors) for name, value in kwargs.items()}


def bounded(arguments: Any, tensors: Iterable[torch.Tensor]) -> Any:
    """The arguments of an operator: numbers that every type of the tensors holds, which is guarded, stay symbols."""
    types = {tensor.dtype for tensor in tensors if tensor.dtype.is_floating_point} or {torch.get_default_dtype()}
    within = Within(min(torch.finfo(dtype).max for dtype in types))

    def number(value: Any) -> Any:
        if not isinstance(value, torch.SymFloat) or not value.node.is_given:
            return value
        return value if value.node.sizes.ask(within, (value.node.value,)) else value.node.guard_float()

    return map_leaves(number, arguments)
