"""A backward graph in pieces, so that the gradients of one bucket of parameters travel while the next are computed.

    CompiledGraph ──► gradients of bucket 0          autograd's engine adds them to the parameters, which starts
         │ token                                     their way to other processes, before it goes on
         ▼
       Bucket ──────► gradients of bucket 1
         │ token
         ▼
       Bucket ──────► gradients of the rest, and of inputs that are no parameters

Each piece has what the gradients of its bucket need. Buckets are filled as torch's reducer fills them (Li et al.,
"PyTorch Distributed: Experiences on Accelerating Data Parallel Training", 2020, section 3.2.3): in the order in which
gradients can be there first, until one is full. A token is a tensor without elements that carries what is found.
"""

from __future__ import annotations

import operator
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.fx import Graph, GraphModule, Node

from onegraph import _C
from onegraph.autograd.results import is_number
from onegraph.autograd.runtime import Run, gradient
from onegraph.autograd.spec import Computed, Gradient, Half, Part, Piece, Pieces
from onegraph.base.dataclass import dataclass
from onegraph.torchlib.aten import has_effect
from onegraph.torchlib.graph import LazyGraphModule


@dataclass(frozen=True, slots=True)
class Cut:
    """A backward graph as several, and how they are called."""

    modules: tuple[GraphModule, ...]
    pieces: Pieces


def cut_at_buckets(module: GraphModule, half: Half, sizes: Mapping[int, int], limits: Sequence[int]) -> Cut | None:
    """The pieces of a backward graph; None if one bucket takes all, or it must run as a whole.

    Args:
        half: what the graph gives.
        sizes: the inputs whose gradients travel, with their bytes.
        limits: the bytes at which a bucket is full: of the first one and so on, the last of all that follow.
    """
    nodes = list(module.graph.nodes)
    (results,) = nodes[-1].args
    if half.cut is not None or any(node.op == "call_function" and has_effect(node.target) for node in nodes):
        return None
    work = work_before(nodes)
    needed = {index: [results[n] for n in results_of(place)] for index, place in enumerate(half.gradients)}
    ready = {index: max(work[node] for node in needed[index]) for index in sizes if needed.get(index)}
    buckets = list(filled(sorted(ready, key=ready.__getitem__), sizes, limits))
    reached = [index for index, place in enumerate(half.gradients) if place is not None]
    *first, last = buckets or [[]]
    travelling = {index for bucket in first for index in bucket}
    groups = [*first, [index for index in reached if index not in travelling]]
    if len(groups) < 2:
        return None
    return taken_apart(nodes, results, groups, needed)


def work_before(nodes: Sequence[Node]) -> dict[Node, int]:
    """How many operations each node needs, itself among them. (The graph has them in another order: by its results.)"""
    masks: dict[Node, int] = {}
    for number, node in enumerate(nodes):
        mask = int(node.op == "call_function") << number
        for each in node.all_input_nodes:
            mask |= masks[each]
        masks[node] = mask
    return {node: mask.bit_count() for node, mask in masks.items()}


def filled(indices: Iterable[int], sizes: Mapping[int, int], limits: Sequence[int]) -> Iterable[list[int]]:
    """Put what comes into buckets: the next one is begun where one has reached its limit."""
    bucket: list[int] = []
    number = held = 0
    for index in indices:
        bucket.append(index)
        held += sizes[index]
        if held >= limits[min(number, len(limits) - 1)]:
            yield bucket
            bucket, held, number = [], 0, number + 1
    if bucket:
        yield bucket


def taken_apart(
    nodes: Sequence[Node], results: Sequence[Any], groups: Sequence[Sequence[int]], needed: Mapping[int, Sequence[Node]]
) -> Cut:
    """A graph for each group of gradients, of what no earlier one computes.

    Sizes go to each of them: any may be in the shape of a tensor.
    """
    inputs = [node for node in nodes if node.op == "placeholder"]
    numbers = [node for node in inputs if is_number(node)]
    home: dict[Node, int] = dict.fromkeys(inputs, -1)
    for number, group in enumerate(groups):
        waiting = [node for index in group for node in needed[index]]
        while waiting:
            node = waiting.pop()
            if node not in home:
                home[node] = number
                waiting += node.all_input_nodes
    for node in nodes:
        if node.target is operator.getitem and node in home:  # a tuple is not handed on
            home[node] = home[node.all_input_nodes[0]]
    table = {node: position for position, node in enumerate(inputs)}
    modules, pieces = [], []
    given: set[int] = set()
    for number, group in enumerate(groups):
        own = [node for node in nodes if home.get(node) == number and node.op != "placeholder"]
        gives = sorted({n for index in group for n, node in enumerate(results) if node in needed[index]} - given)
        given.update(gives)
        taken = {node for each in own for node in each.all_input_nodes if home[node] != number}
        taken |= {results[n] for n in gives if home[results[n]] != number}
        taken |= set(numbers)
        takes = sorted(taken, key=table.__getitem__)
        later = {node for each in nodes if home.get(each, -1) > number for node in each.all_input_nodes}
        later |= {node for group in groups[number + 1 :] for index in group for node in needed[index]}
        handed = [node for node in own if node in later]
        pieces.append(Piece(tuple(table[node] for node in takes), tuple(gives), len(handed)))
        modules.append(graph_of(takes, own, [*(results[n] for n in gives), *handed]))
        table |= {node: len(table) + n for n, node in enumerate(handed)}
    return Cut(tuple(modules), Pieces(tuple(map(tuple, groups)), tuple(pieces), len(results)))


def graph_of(takes: Sequence[Node], own: Sequence[Node], outputs: Sequence[Node]) -> GraphModule:
    graph = Graph()
    copied: dict[Node, Node] = {}
    for node in takes:
        copied[node] = graph.placeholder(node.name)
        copied[node].meta = dict(node.meta)
    for node in own:
        copied[node] = graph.node_copy(node, copied.__getitem__)
    graph.output(tuple(copied[node] for node in outputs))
    return LazyGraphModule(torch.nn.Module(), graph)


def results_of(place: Gradient) -> set[int]:
    """The results of the backward graph that a gradient is made of."""
    match place:
        case Computed(index):
            return {index}
        case Part(base, size, stride, offset):
            numbers = {n.index for n in (*size, *stride, offset) if isinstance(n, Computed)}
            return numbers | results_of(base)
    return set()


# --- running ---------------------------------------------------------------------------------------------------------


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
    return dict(Counter(n for place in half.gradients if (n := base_result(place)) is not None))


def base_result(place: Gradient) -> int | None:
    while isinstance(place, Part):
        place = place.base
    return place.index if isinstance(place, Computed) else None


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
