"""A backward graph in pieces, so that the gradients of one bucket of parameters travel while the next are computed.

    CompiledGraph ──► gradients of bucket 0          autograd's engine adds them to the parameters, which starts
         │ token                                     their way to other processes, before it goes on
         ▼
       Bucket ──────► gradients of bucket 1
         │ token
         ▼
       Bucket ──────► gradients of the rest, and of inputs that are no parameters

A token is a tensor without elements that carries what is found.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from onegraph import _C
from onegraph.autograd.runtime import Run, gradient
from onegraph.autograd.spec import Half, Pieces, tensors_of
from onegraph.base.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Stepwise:
    """What runs the pieces of a backward graph, each when one of its results is asked for. `uses` counts the gradients
    that a result is, or has a view of."""

    runs: tuple[Run, ...]
    pieces: Pieces
    uses: Mapping[int, int]

    def __call__(self, values: list[Any]) -> Results:
        found = Results(self, [*values])
        values.clear()
        found.advance()
        return found


def uses(half: Half) -> dict[int, int]:
    """Of the results that are tensors, how many gradients take them."""
    return dict(Counter(index for place in half.gradients for index in tensors_of(place)))


class Results(Sequence[Any]):
    """The results of a backward graph, as far as its pieces have run. One that is taken for the last time is forgotten:
    the engine keeps a gradient that nobody else holds as it is."""

    def __init__(self, graph: Stepwise, values: list[Any]) -> None:
        self._graph = graph
        self._values = values
        self._found: dict[int, Any] = {}
        self._left = dict(graph.uses)
        self._done = 0

    def advance(self) -> None:
        """Run the next piece. What no later one takes is let go of."""
        steps = self._graph.pieces.steps
        piece = steps[self._done]
        later = {place for each in steps[self._done + 1 :] for place in each.takes}
        taken = [self._values[place] for place in piece.takes]
        for place in piece.takes:
            if place not in later:
                self._values[place] = None
        found = self._graph.runs[self._done](taken)
        self._done += 1
        self._found.update(zip(piece.gives, found, strict=False))
        self._values += found[len(piece.gives) :]

    def __len__(self) -> int:
        return self._graph.pieces.results

    def __getitem__(self, index: Any) -> Any:
        while index not in self._found:
            self.advance()
        if index not in self._left:  # a number
            return self._found[index]
        self._left[index] -= 1
        return self._found[index] if self._left[index] else self._found.pop(index)


class Gradients(Sequence[Tensor | None]):
    """What a node gives, made of results as it is asked for. Tangents are `laid` out as the graph takes them, `given`
    as they came."""

    def __init__(self, half: Half, results: Results, laid: Sequence[Tensor], given: Sequence[Tensor]) -> None:
        self._half, self._results, self._laid, self._given = half, results, laid, given

    def __len__(self) -> int:
        return len(self._half.gradients)

    def __getitem__(self, index: Any) -> Any:
        return gradient(self._half.gradients[index], self._results, self._laid, self._given)


def several(found: Sequence[Tensor | None], indices: Sequence[int]) -> list[Tensor | None]:
    return [found[index] for index in indices]


#: As the backward pass that it is a part of: no frame of it is looked at.
GO_ON = _C.Graph(several, lambda *_: False, whole=True)


def token(found: Sequence[Tensor | None]) -> Tensor:
    """The gradient of a link, which carries what is found."""
    made = torch.empty(0)
    made.found = found  # type: ignore[attr-defined]
    return made


class Bucket(torch.autograd.Function):
    """The node of the parameters of one bucket, behind the one before it, to which its result is given as an input."""

    @staticmethod
    def forward(ctx: Any, indices: Sequence[int], link: Tensor | None, *parameters: Tensor) -> Tensor:
        ctx.indices = indices
        ctx.set_materialize_grads(False)
        return torch.empty(0)

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> tuple[Any, ...]:
        if gradient is None:
            return None, None, *[None] * len(ctx.indices)
        found = gradient.found
        gradients = GO_ON(found, ctx.indices)
        return None, token(found) if ctx.needs_input_grad[1] else None, *gradients


def linked(
    groups: Sequence[Sequence[int]], record: Callable[..., Any], bucket: Callable[..., Any], reached: Sequence[int]
) -> Callable[..., Any]:
    """Records a node, behind it those of the other groups of inputs: `reached` are the inputs that it is given."""
    places = {index: place for place, index in enumerate(reached)}

    def recorded(call: Any, node: Any, *inputs: Tensor) -> Any:
        link = None
        for group in reversed(groups[1:]):
            link = bucket(group, link, *[inputs[places[index]] for index in group])
        return record(call, node, link, *[inputs[places[index]] for index in groups[0]])

    return recorded
