"""A pair of graphs, forward and backward, as one function of eager's autograd.

The forward graph's results are ordinary results of a `torch.autograd.Function`; what it keeps goes through
`save_for_backward`, so that eager's engine counts writes, frees, keeps and hooks it as it does its own. What the
backward graph was not made for (higher derivatives, a gradient that is missing, a tangent of another kind) is computed
by eager: the captured graph is run again, on the inputs that the first run had, and differentiated.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from onegraph.autograd import GraphPair
from onegraph.autograd.joint import Gradient, GradSpec, Tangent
from onegraph.autograd.spec import Computed, Input
from onegraph.torchlib.aten import is_random
from onegraph.torchlib.primals import below_autograd, is_graph_kept
from onegraph.torchlib.state import GlobalState, tracing_suspended, under

Run = Callable[..., Sequence[Any]]


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
    it; `specialize` makes what is missing there. `written` are positions of inputs that the graph writes to. `random`
    tells whether it draws random numbers. `report` is told why a backward pass runs in eager.
    """

    forward: Run
    backwards: dict[Pattern, Backward | None]
    specialize: Callable[[Pattern], Backward | None]
    eager: Run
    grad: GradSpec
    saved: tuple[Input | Computed, ...]
    written: frozenset[int]
    random: bool
    report: Callable[[str], object]
    state: GlobalState = field(default_factory=GlobalState.snapshot)

    def __call__(self, *inputs: Any) -> tuple[Any, ...]:
        results: tuple[Any, ...] = CompiledGraph.apply(self, *inputs)
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
        ctx.inputs = remembered(graph, inputs)
        ctx.random = torch.get_rng_state() if graph.random else None
        with below_autograd():
            values = graph.forward(*inputs)
        results = tuple(values[: graph.grad.results])
        ctx.graph = graph
        ctx.layouts = [results[index].stride() for index in graph.grad.followed]
        found = [inputs[place.index] if isinstance(place, Input) else values[place.index] for place in graph.saved]
        ctx.others = [SAVED if isinstance(value, Tensor) else value for value in found]
        ctx.save_for_backward(*[value for value in found if isinstance(value, Tensor)])
        ctx.set_materialize_grads(False)
        followed = frozenset(graph.grad.followed)
        others = [value for i, value in enumerate(results) if i not in followed and isinstance(value, Tensor)]
        ctx.mark_non_differentiable(*others)
        return results

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> tuple[Any, ...]:
        graph: Compiled = ctx.graph
        tangents = [gradients[index] for index in graph.grad.followed]
        saved = iter(ctx.saved_tensors)
        reason = unfit(tangents)
        half = None if reason else graph.backward(tuple([tangent is not None for tangent in tangents]))
        if half is None:
            graph.report(reason or "not all results have a gradient")
            found = through_eager(ctx, tangents)
        else:
            values = [next(saved) if value is SAVED else value for value in ctx.others]
            given = [t for t in tangents if t is not None]
            laid_out = [as_laid_out(t, n) for t, n in zip(tangents, ctx.layouts, strict=True) if t is not None]
            results = half.run(*values, *laid_out)
            found = [gradient(place, results, given) for place in half.gradients]
        if not is_graph_kept():
            ctx.inputs = None
        return None, *found


def compiled_pair(
    pair: GraphPair,
    halves: tuple[Run, Run],
    specialize: Callable[[Pattern], Backward | None],
    eager: Run,
    report: Callable[[str], object],
) -> Compiled:
    """The halves of a pair, forward and backward, as one function of the captured graph's inputs."""
    written = frozenset(mutation.input for mutation in pair.spec.mutations if mutation.value is not None)
    random = any(is_random(node.target) for node in pair.graphs.forward.graph.nodes)
    forward, backward = halves
    backwards: dict[Pattern, Backward | None] = {
        (True,) * len(pair.grad.followed): Backward(backward, pair.grad.gradients)
    }
    return Compiled(forward, backwards, specialize, eager, pair.grad, pair.graphs.saved, written, random, report)


def gradient(place: Gradient, results: Sequence[Tensor], tangents: Sequence[Tensor]) -> Tensor | None:
    """The gradient of one input."""
    match place:
        case Computed(index):
            return results[index]
        case Tangent(position):
            return tangents[position]
    return None


def unfit(tangents: Sequence[Tensor | None]) -> str:
    """Why the backward graph cannot take these gradients; empty if it can."""
    if torch.is_grad_enabled():
        return "higher derivatives are eager's"
    given = [tangent for tangent in tangents if tangent is not None]
    if any(type(t) is not Tensor or t.layout is not torch.strided or t.is_conj() or t.is_neg() for t in given):
        return "a gradient is no plain tensor"
    if torch.is_autocast_enabled("cpu"):
        return "the backward pass is under autocast"
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
        raise RuntimeError(
            "one of the variables needed for gradient computation has been modified by an inplace operation: "
            f"[{value.type()} {list(value.shape)}] is at version {value._version}; expected version {version} instead."
        )
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
