"""The control flow operators of torch, and what they mean, in Python: torch's own compiler refuses more."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch._higher_order_ops import associative_scan, scan
from torch._higher_order_ops import map as map_over
from torch.utils import _pytree as pytree


@dataclass(frozen=True)
class Operators:
    """The control flow operators."""

    cond: Callable[..., Any]
    while_loop: Callable[..., Any]
    scan: Callable[..., Any]
    map: Callable[..., Any]
    associative_scan: Callable[..., Any]


TORCH = Operators(torch.cond, torch.while_loop, scan, map_over, associative_scan)


def python_while(goes_on: Callable[..., Any], turn: Callable[..., Any], carried: Any) -> Any:
    while goes_on(*carried):
        carried = turn(*carried)
    return carried


def python_scan(turn: Callable[..., Any], carry: Any, xs: Any, reverse: bool = False) -> Any:
    items, count = [], pytree.tree_leaves(xs)[0].shape[0]
    for n in reversed(range(count)) if reverse else range(count):
        carry, item = turn(carry, pytree.tree_map(lambda x, n=n: x[n], xs))
        items.append(item)
    return carry, pytree.tree_map(lambda *each: torch.stack(each[::-1] if reverse else each), *items)


def python_map(function: Callable[..., Any], xs: Any, *args: Any) -> Any:
    return pytree.tree_map(lambda *each: torch.stack(each), *(function(x, *args) for x in xs))


def python_associative(function: Callable[..., Any], x: Tensor, dim: int, combine_mode: str) -> Any:
    """In the order of torch: pairs of neighbours first."""
    parts = list(x)
    return torch.stack(neighbours_first(function, parts))


def neighbours_first(function: Callable[..., Any], parts: list[Tensor]) -> list[Tensor]:
    if len(parts) < 2:
        return parts
    odd = neighbours_first(function, [function(a, b) for a, b in zip(parts[::2], parts[1::2], strict=False)])
    even = [parts[0], *(function(a, b) for a, b in zip(odd, parts[2::2], strict=False))]
    return [part for pair in itertools.zip_longest(even, odd) for part in pair if part is not None]


def own(operator: Callable[..., Any]) -> Callable[..., Any]:
    """The operator with results that share memory with nothing."""

    def call(*args: Any, **kwargs: Any) -> Any:
        return pytree.tree_map_only(Tensor, Tensor.clone, operator(*args, **kwargs))

    return call


#: What these mean, in Python: torch's own are compiled by its compiler, and refuse more.
PYTHON = Operators(
    own(lambda p, f, g, args=(): (f if p else g)(*args)), own(python_while), own(python_scan), own(python_map),
    own(python_associative),
)  # fmt: skip
