"""Random numbers of a CUDA graph: they are drawn before each launch, one call after the other, as without a graph.

That holds for draws that take no tensors: what they give depends on nothing that the graph computes. Their results are
copied to places that the graph reads.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor

from onegraph.base.dataclass import dataclass
from onegraph.ir.plan import ExternCall
from onegraph.torchlib.aten import is_random, operator_named
from onegraph.torchlib.fake import DispatchMode


@dataclass(frozen=True, slots=True)
class DrawCall:
    """A call that draws, and how its result lies."""

    call: Callable[[], Tensor]
    shape: tuple[int, ...]
    stride: tuple[int, ...]
    dtype: torch.dtype
    device: torch.device


Draws = tuple[tuple[DrawCall, Tensor], ...]


def takes_tensors(operator: Any) -> bool:
    return any("Tensor" in str(argument.type) for argument in operator._schema.arguments)


def draws_nothing(operator: Any, call: ExternCall | None) -> bool:
    """Whether this call of an operator that may draw does not: attention without dropout. Without the call, whether it
    may be one that does not."""
    arguments = operator._schema.arguments
    place = next((n for n, argument in enumerate(arguments) if argument.name == "dropout_p"), None)
    if place is None or call is None:
        return place is not None
    given = call.args[place] if place < len(call.args) else arguments[place].default_value
    return bool(dict(call.kwargs).get("dropout_p", given) == 0)


def is_draw(name: str) -> bool:
    """Whether a call of the operator of this name is one that can be made before the launches."""
    namespace, _, packet = name.rpartition(".")[0].partition(".")
    if not packet or not hasattr(getattr(torch.ops, namespace), packet):
        return False  # what is made of a graph runs in Python
    operator = operator_named(name)
    return is_random(operator) and not takes_tensors(operator)


class RecordedDraws(DispatchMode):
    """Remembers the draws that are made meanwhile."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.draws: list[DrawCall] = []

    def __torch_dispatch__(self, operator: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        call = partial(operator, *args, **(kwargs or {}))
        result = call()
        if is_random(operator) and not takes_tensors(operator):
            self.draws.append(DrawCall(call, tuple(result.shape), result.stride(), result.dtype, result.device))
        return result


class PlacedDraws(DispatchMode):
    """Gives the places of these draws in the place of making them."""

    def __init__(self, draws: Draws) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.places = iter([place for _, place in draws])

    def __torch_dispatch__(self, operator: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if is_random(operator) and not takes_tensors(operator):
            return next(self.places)
        return operator(*args, **(kwargs or {}))


def placed(draws: Sequence[DrawCall]) -> Draws:
    """The same draws with places of their own."""
    return tuple(
        (each, torch.empty_strided(each.shape, each.stride, dtype=each.dtype, device=each.device)) for each in draws
    )


def draw(draws: Draws) -> None:
    for each, place in draws:
        place.copy_(each.call())
