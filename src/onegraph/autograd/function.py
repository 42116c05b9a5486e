"""A pair of graphs, forward and backward, as one function of eager's autograd.

The forward graph's results are ordinary results of a `torch.autograd.Function`; what it keeps goes through
`save_for_backward`, so that eager's engine counts writes, frees, keeps and hooks it as it does its own. What the
backward graph was not made for (higher derivatives, a gradient that is missing, a tangent of another kind) is computed
by eager: the captured graph is run again, on the inputs that the first run had, and differentiated.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, assert_never

import torch
from torch import Tensor

from onegraph import _C
from onegraph.autograd import GraphPair
from onegraph.autograd.joint import Gradient, GradSpec, Part, Tangent, Watched
from onegraph.autograd.runtime import Run, bind, laid_over, write
from onegraph.autograd.spec import Computed, Detached, Input, Mutation, Output, Replayed, Strided
from onegraph.torchlib.aten import is_random
from onegraph.torchlib.primals import (
    below_autograd,
    is_graph_kept,
    named_after,
    set_version,
    version_probe,
    written_since,
)
from onegraph.torchlib.state import GlobalState, saves_for_hooks, tracing_suspended, under


@dataclass(frozen=True, slots=True)
class Backward:
    """A backward graph, and what its results are: the gradient of each input."""

    run: Run
    gradients: tuple[Gradient, ...]


Pattern = tuple[bool, ...]


@dataclass(frozen=True, slots=True)
class Compiled:
    """What one call needs to know. `eager` runs the captured graph as it is; `state` is what it was captured in.

    `backwards` has a backward graph for each pattern of followed results that have a gradient, None where eager must do
    it; `specialize` makes what is missing there. Mutations are made, and writes to results counted, before autograd
    remembers versions. `written` are positions of inputs that the graph writes to. `random` tells whether it draws
    random numbers. `report` is told why a backward pass runs in eager. `node` is the function whose node stands for it.
    """

    forward: Run
    backwards: dict[Pattern, Backward | None]
    specialize: Callable[[Pattern], Backward | None]
    eager: Run
    grad: GradSpec
    saved: tuple[Input | Computed, ...]
    mutations: tuple[Mutation, ...]
    counts: tuple[tuple[int, int], ...]
    written: frozenset[int]
    watched: tuple[tuple[Watched, int], ...]
    random: bool
    report: Callable[[str], object]
    node: Any
    state: GlobalState = field(default_factory=GlobalState.snapshot)

    def __call__(self, *inputs: Any) -> Sequence[Any]:
        results: Sequence[Any] = self.node.apply(self, *inputs)
        return results

    def backward(self, pattern: Pattern) -> Backward | None:
        """The backward graph for this pattern, which is made when it is needed first."""
        if pattern not in self.backwards:
            with under(self.state), tracing_suspended():
                self.backwards[pattern] = self.specialize(pattern)
        return self.backwards[pattern]


#: Stands for what `save_for_backward` keeps, among the numbers that are kept.
SAVED = object()


class CompiledGraph(torch.autograd.Function):
    """The node in eager's history that stands for a whole graph."""

    @staticmethod
    def forward(ctx: Any, graph: Compiled, *inputs: Any) -> tuple[Any, ...]:
        ctx.graph = graph
        ctx.inputs = remembered(graph, inputs)
        ctx.random = torch.get_rng_state() if graph.random else None
        with below_autograd():
            values = graph.forward(*inputs)
        for mutation in graph.mutations:
            write(mutation, inputs[mutation.input], values)
        for index, count in graph.counts:
            set_version(values[index], count)
        found = [inputs[place.index] if isinstance(place, Input) else values[place.index] for place in graph.saved]
        ctx.others = [SAVED if isinstance(value, Tensor) else value for value in found]
        ctx.save_for_backward(*[value for value in found if isinstance(value, Tensor)])
        ctx.watched = [watch(item, writes, inputs, values) for item, writes in graph.watched]
        results = tuple(values[: graph.grad.results])
        ctx.layouts = [results[index].stride() for index in graph.grad.followed]
        ctx.set_materialize_grads(False)
        others = [value for i, value in enumerate(results) if i not in graph.grad.followed]
        ctx.mark_non_differentiable(*[value for value in others if isinstance(value, Tensor)])
        return results

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> tuple[Any, ...]:
        gradients_of: tuple[Any, ...] = DIFFERENTIATE(ctx, *gradients)
        return gradients_of


def differentiate(ctx: Any, *gradients: Any) -> tuple[Any, ...]:
    """The gradients of the inputs of a call: the backward pass of `CompiledGraph`."""
    graph: Compiled = ctx.graph
    tangents = [gradients[index] for index in graph.grad.followed]
    saved = iter(ctx.saved_tensors)
    for probe, version, shape, item in ctx.watched:
        if probe._version != version:
            raise RuntimeError(written_since(probe, version, shape, item.made_by))
    reason = unfit(tangents)
    half = None if reason else graph.backward(tuple([tangent is not None for tangent in tangents]))
    if half is None:
        graph.report(reason or "not all results have a gradient")
        found = through_eager(ctx, tangents)
    else:
        values = [next(saved) if value is SAVED else value for value in ctx.others]
        given = [as_laid_out(t, n) for t, n in zip(tangents, ctx.layouts, strict=True) if t is not None]
        results = half.run(*values, *given)
        found = [gradient(place, results, given) for place in half.gradients]
    if not is_graph_kept():
        ctx.inputs = None
    return None, *found


#: The backward pass may run inside of a compiled function, and is no part of it: no frame of it is looked at.
DIFFERENTIATE = _C.Graph(differentiate, lambda *_: False)


def compiled_pair(
    pair: GraphPair,
    halves: tuple[Run, Run],
    specialize: Callable[[Pattern], Backward | None],
    eager: Run,
    report: Callable[[str], object],
) -> Run:
    """The halves of a pair, forward and backward, as one function of the captured graph's inputs."""
    spec, grad, saved = pair.spec, pair.grad, pair.graphs.saved
    forward, backward = halves
    followed = frozenset(Computed(index) for index in grad.followed)
    recorded = tuple(mutation for mutation in spec.mutations if mutation.value in followed)
    counters = {position: counter_of(spec.outputs[position]) for position, _ in spec.written}
    counts = tuple((n, count) for p, count in spec.written if (n := counters[p]) is not None)
    writes = {Input(mutation.input): mutation.writes for mutation in recorded}
    seen = {Computed(n) for output in spec.outputs if (n := counter_of(output)) is not None}
    compiled = Compiled(
        forward,
        {(True,) * len(grad.followed): Backward(backward, grad.gradients)},
        specialize,
        eager,
        grad,
        saved,
        tuple(mutation for mutation in spec.mutations if mutation not in recorded),
        counts,
        frozenset(mutation.input for mutation in spec.mutations if mutation.value is not None),
        tuple(
            (item, writes.get(item.place, 0))
            for item in grad.watched
            if item.place not in saved and (isinstance(item.place, Input) or item.place in seen)
        ),
        any(is_random(node.target) for node in pair.graphs.forward.graph.nodes),
        report,
        named_after(CompiledGraph, grad.name),
    )
    late = tuple((position, count) for position, count in spec.written if counters[position] is None)
    call = bind(replace(spec, mutations=recorded, written=late), compiled)

    def run(*inputs: Any) -> Sequence[Any]:
        # Hooks would be shown other tensors than those that eager saves, and anomaly mode looks at each operator.
        return eager(*inputs) if saves_for_hooks() or torch.is_anomaly_enabled() else call(*inputs)

    return run


def counter_of(output: Output) -> int | None:
    """The result that counts the writes to an output; None if it has a counter of its own, or an input's."""
    match output:
        case Computed(index):
            return index
        case Strided(base) | Replayed(base) | Detached(base, True):
            return counter_of(base)
    return None


def watch(item: Watched, writes: int, inputs: Sequence[Any], values: Sequence[Any]) -> tuple[Any, ...]:
    """A probe of a tensor, and the version that it will have when the call is over: inputs may be written to yet."""
    tensor = (inputs if isinstance(item.place, Input) else values)[item.place.index]
    return version_probe(tensor), tensor._version + writes, tensor.shape, item


def gradient(place: Gradient, results: Sequence[Any], tangents: Sequence[Tensor]) -> Tensor | None:
    """The gradient of one input."""
    match place:
        case Computed(index):
            return results[index]
        case Tangent(position):
            return tangents[position]
        case Part(base, size, stride, offset):
            whole = gradient(base, results, tangents)
            assert whole is not None
            return laid_over(whole, size, stride, offset, results)
        case None:
            return None
        case _:
            assert_never(place)


def unfit(tangents: Sequence[Tensor | None]) -> str:
    """Why the backward graph cannot take these gradients; empty if it can."""
    if torch.is_grad_enabled():
        return "higher derivatives are eager's"
    given = [tangent for tangent in tangents if tangent is not None]
    if any(type(t) is not Tensor or t.layout is not torch.strided or t.is_conj() or t.is_neg() for t in given):
        return "a gradient is no plain tensor"
    if torch.is_autocast_enabled("cpu"):
        return "the backward pass is under autocast"
    if torch.is_anomaly_enabled():
        return "anomaly mode looks at each operator"
    return ""


def as_laid_out(tensor: Tensor, stride: tuple[int, ...]) -> Tensor:
    """The tensor with these strides; it is copied if it has others."""
    if tensor.stride() == stride:
        return tensor
    return torch.empty_strided(tensor.shape, stride, dtype=tensor.dtype, device=tensor.device).copy_(tensor)


# --- through eager ---------------------------------------------------------------------------------------------------


def remembered(graph: Compiled, inputs: Sequence[Any]) -> list[tuple[Any, int]]:
    """The inputs and how often they were written to, for a second run. What the graph writes to is copied."""
    copies = graph.written
    values = [value.clone() if index in copies else value for index, value in enumerate(inputs)]
    return [(value, value._version if isinstance(value, Tensor) else 0) for value in values]


def through_eager(ctx: Any, tangents: Sequence[Tensor | None]) -> list[Tensor | None]:
    """The gradients, by running the captured graph again as eager runs it. They can be differentiated if asked for."""
    graph: Compiled = ctx.graph
    again = torch.is_grad_enabled()
    given = [intact(value, version) for value, version in ctx.inputs]
    wanted = [index for index, value in enumerate(given) if isinstance(value, Tensor) and value.requires_grad]
    with torch.enable_grad(), same_numbers(ctx.random), under(graph.state):
        # Tensors of its own: gradients stop here, and go on from here when they are differentiated.
        inputs = [value.view_as(value) if index in wanted else value for index, value in enumerate(given)]
        for index in graph.written:
            inputs[index] = given[index].clone()
        leaves = [inputs[index] for index in wanted]
        outputs = graph.eager(*inputs)
    results = [inputs[o.index] if isinstance(o, Input) else outputs[o.index] for o in graph.grad.origins]
    pairs = [(r, t) for r, t in zip(results, tangents, strict=True) if t is not None]
    gradients: list[Tensor | None] = [None] * len(inputs)
    if pairs:
        starts, weights = zip(*pairs, strict=True)
        found = torch.autograd.grad(starts, leaves, weights, create_graph=again, allow_unused=True)
        for index, value in zip(wanted, found, strict=True):
            gradients[index] = value
    return gradients


def intact(value: Any, version: int) -> Any:
    if isinstance(value, Tensor) and value._version != version:
        raise RuntimeError(written_since(value, version, value.shape))
    return value


@contextlib.contextmanager
def same_numbers(state: Tensor | None) -> Iterator[None]:
    """Random numbers are drawn as from this state, and then as if none had been drawn."""
    if state is None:
        yield
        return
    now = torch.get_rng_state()
    torch.set_rng_state(state)
    try:
        yield
    finally:
        torch.set_rng_state(now)
