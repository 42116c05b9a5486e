"""The rules, by operator."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

import torch
from torch import Tensor

from onegraph.torchlib.private import OpOverload
from onegraph.torchlib.strides import contiguous, filled

Layout = tuple[Sequence[int], Sequence[int], torch.dtype]  # sizes, strides, type
Rule = Callable[..., "Layout | tuple[Layout | None, ...] | None"]
RULES: dict[OpOverload, Rule] = {}
#: Those whose rules serve symbolic sizes, too: torch's meta kernels ask for the numbers.
OF_SYMBOLS: set[OpOverload] = set()
#: Those whose rules serve sizes that may be 0 and 1: they ask what decides what the operator does, and nothing else.
GENERAL: set[OpOverload] = set()


F = TypeVar("F", bound=Rule)


def rule(*ops: OpOverload, of_symbols: bool = False, general: bool = False) -> Callable[[F], F]:
    def register(function: F) -> F:
        for op in ops:
            RULES[op] = function
        OF_SYMBOLS.update(ops if of_symbols else ())
        GENERAL.update(ops if general else ())
        return function

    return register


def laid_out(shape: Sequence[int], dtype: torch.dtype) -> Layout:
    """A contiguous result."""
    return shape, contiguous(shape), dtype


def in_format(shape: Sequence[int], form: torch.memory_format, dtype: torch.dtype) -> Layout:
    """A result in a memory format; dimensions of size 1 have the strides of their places, too."""
    if form is torch.contiguous_format or 0 in shape:
        return laid_out(shape, dtype)
    return shape, filled(shape, (1, *range(len(shape) - 1, 1, -1), 0)), dtype


def wrapped(dim: int, x: Tensor) -> int | None:
    """The dimension from the front, or None where the tensor has none such."""
    rank = max(x.dim(), 1)
    return dim % rank if -rank <= dim < rank else None


def each(value: Sequence[int], rank: int) -> Sequence[int] | None:
    """One number per dimension, of a list that may have a single one for all, or None for any other list."""
    return tuple(value) * rank if len(value) == 1 else value if len(value) == rank else None
