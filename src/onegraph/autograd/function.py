"""The graphs of a pair, forward and backward, as one function of eager's autograd.

The forward graph's results are ordinary results of a `torch.autograd.Function`. What it keeps is freed as eager frees
it: by the pass that looks at it, while what another pass may ask for is kept. Results that others are computed from
have nodes of their own: behind such a node, the engine has the whole gradient of the result. So have results that have
nothing in common but parameters: a pass from one must not go on behind inputs of another.

     x ──► graph ──► logits ──────────────► logits        gradient of x, from that of logits
               │            └─► stage        (its part of) the gradient of logits, from that of loss
               └───► loss ─────► │ ──────► loss

What the backward graphs were not made for (higher derivatives, a gradient that is missing, a tangent of another kind,
modes that are to see each operator) is computed by eager: the captured graph is run again, on the inputs that the first
run had, seen by nobody, and differentiated.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, replace
from functools import partial
from typing import Any

import torch
from torch import Tensor

from onegraph import _C
from onegraph.autograd.pieces import Gradients, Results, several, token
from onegraph.autograd.runtime import Run, add_views, as_laid_out, gradient, write
from onegraph.autograd.second_run import Again, Hooked, intact, second_run
from onegraph.autograd.spec import (
    Computed,
    GradSpec,
    Half,
    Input,
    Mutation,
    Output,
    Saved,
)
from onegraph.base.dataclass import dataclass
from onegraph.base.errors import EntryRefused
from onegraph.base.work import work
from onegraph.torchlib.announced import explained
from onegraph.torchlib.around import has_dispatch_modes, has_forward_level
from onegraph.torchlib.custom_function import CustomFunction
from onegraph.torchlib.primals import (
    FREED,
    below_autograd,
    given_instead,
    has_elements,
    is_graph_kept,
    own_hooks,
    set_version,
    version_probe,
    written_since,
)
from onegraph.torchlib.state import AUTOCAST_DEVICES, GlobalState, saves_through_hooks, tracing_suspended, under
from onegraph.torchlib.wrappers import plain_gradient

Pattern = tuple[bool, ...]


@dataclass(frozen=True, slots=True)
class Backward:
    """A backward graph, None where eager must do it; what its results are, and what it takes: positions among what the
    node keeps, and inputs. It is called with a list, out of which it takes them, to let go of each when it can.
    `untried`: it was read from disk, and has not run yet. What eager needs is kept till it has."""

    run: Run | None
    half: Half
    taken: Sequence[int | Input]
    untried: bool = False


@dataclass(frozen=True, slots=True)
class Node:
    """What one node of autograd needs to know: `results` are those of which it takes gradients, and the cut.

    `reached` are the inputs that get gradients: what made the others is no part of a backward pass; `shown` are the
    positions of results among what it keeps. With `groups` of the inputs, it gives the gradients of the first one only,
    and nodes behind it those of the others. `backwards` has a backward graph for each pattern of results that have a
    gradient; `specialize` makes those that are missing. `record` makes the node in eager's history.
    """

    half: Half
    results: tuple[int, ...]
    reached: tuple[int, ...]
    cut: int
    saved: Saved
    backwards: dict[Pattern, Backward | None]
    specialize: Callable[[Pattern], Backward | None]
    record: Callable[..., Any]
    shown: tuple[int, ...]
    groups: tuple[tuple[int, ...], ...] = ()

    def backward(self, pattern: Pattern, state: GlobalState) -> Backward | None:
        """The backward graph for this pattern, which is made when it is needed first."""
        if pattern not in self.backwards:
            with work() as is_free:
                if not is_free:
                    return None
                with under(state), tracing_suspended():
                    self.backwards[pattern] = self.specialize(pattern)
        return self.backwards[pattern]


@dataclass(frozen=True, slots=True)
class Compiled:
    """What the calls of a pair have in common. `eager` runs the captured graph; `state` is what it was captured in.

    Mutations are made, and writes to results counted, before autograd remembers versions. `written` are positions of
    inputs that the graph writes to. `watched` are results that backward passes take and the caller may write to, and
    such inputs that the graph writes to, with how often. `random` tells whether it draws random numbers. `report` is
    told why a backward pass runs in eager, and of an error of onegraph's own, which it may raise. `functions` are those
    of the program whose backward is a part of it. `views` are counted behind the results. `passed` are inputs with a
    new value, by the result that it is, from which other results are computed.
    """

    forward: Run
    nodes: tuple[Node, ...]
    eager: Run
    grad: GradSpec
    mutations: tuple[Mutation, ...]
    counts: tuple[tuple[int, int], ...]
    written: frozenset[int]
    watched: tuple[tuple[Input | Computed, int], ...]
    random: bool
    report: Callable[[str, Exception | None], object]
    functions: Sequence[CustomFunction]
    views: tuple[Output, ...]
    passed: Mapping[int, Mutation]
    state: GlobalState = field(default_factory=GlobalState.snapshot)

    @property
    def cuts(self) -> frozenset[int]:
        return frozenset(node.half.cut for node in self.nodes if node.half.cut is not None)

    def __call__(self, *inputs: Any) -> Sequence[Any]:
        call = Call(self, inputs)
        call.run()
        results = [*call.values[: self.grad.results]]
        for node in self.nodes:
            if node.half.cut is None:
                passed = node.record(call, node, *[inputs[index] for index in node.reached])
            else:
                self.show(node.cut, inputs, results)
                cut = results[node.cut]
                if node.cut in self.passed:
                    mutation = self.passed[node.cut]
                    cut = inputs[mutation.input]
                    write(mutation, cut, results)
                    call.hooks.of[node.cut] = own_hooks(cut)
                passed = node.record(call, node, cut, *[results[index] for index in node.results])
            for index, result in zip(node.results, passed, strict=True):
                results[index] = result
        self.show(self.grad.results + len(self.views) - 1, inputs, results)
        call.given = call.values = ()
        return results

    def show(self, last: int, inputs: Sequence[Any], results: list[Any]) -> None:
        """Let the results go on with the views up to this one, if it is one."""
        made = len(results) - self.grad.results
        add_views(self.views[made : last + 1 - self.grad.results], inputs, results)


class Call:
    """One call. `inputs` are what it was given, each with its version, as long as somebody can ask for a second run.

    While the call runs, `given` are its inputs, and `values` what the forward graph gave. `probes` have the versions
    of those that are watched, and of watched inputs that the graph writes to. `left` counts the nodes over which passes
    may still come. `hooks` are those of results; `again` is the second run, if it can be differentiated.
    """

    __slots__ = ("again", "given", "graph", "hooks", "inputs", "left", "probes", "random", "values", "versions")

    def __init__(self, graph: Compiled, inputs: Sequence[Any]) -> None:
        self.graph, self.given = graph, inputs
        # What the graph writes to is copied.
        kept = [value.clone() if index in graph.written else value for index, value in enumerate(inputs)]
        self.inputs: list[Any] | None = kept
        self.versions = [getattr(value, "_version", 0) for value in kept]
        self.random = torch.get_rng_state() if graph.random else None
        self.left = len(graph.nodes)
        self.values: Sequence[Any] = ()
        self.probes: dict[Input | Computed, tuple[Tensor, int, torch.Size]] = {}
        self.hooks = Hooked()
        self.again: Again | None = None

    def run(self) -> None:
        graph, inputs = self.graph, self.given
        with below_autograd():
            self.values = graph.forward(*inputs)
        if graph.mutations:
            with torch.no_grad():
                for mutation in graph.mutations:
                    write(mutation, inputs[mutation.input], self.values)
        for index, count in graph.counts:
            set_version(self.values[index], count)
        for place, writes in graph.watched:
            tensor = (inputs if isinstance(place, Input) else self.values)[place.index]
            self.probes[place] = version_probe(tensor), tensor._version + writes, tensor.shape

    def keep(self, ctx: Any, node: Node) -> None:
        """Let a node of autograd keep what its backward graph takes."""
        ctx.call, ctx.node = self, node
        ctx.passed = ctx.freed = frozenset()
        ctx.hooked = saves_through_hooks()
        ctx.kept = self.kept(node)
        if ctx.hooked:
            ctx.save_for_backward(*[value.data for value in ctx.kept if isinstance(value, Tensor)])
            ctx.kept = [SAVED if isinstance(value, Tensor) else value for value in ctx.kept]
        ctx.layouts = [self.values[index].stride() for index in node.results]
        ctx.set_materialize_grads(False)

    def kept(self, node: Node) -> list[Any]:
        """What a node keeps. Results have a history, in which the node would keep itself."""
        inputs, values = self.inputs, self.values
        assert inputs is not None
        kept = [(inputs if type(place) is Input else values)[place.index] for place in node.saved.places]
        for position in node.shown:
            if isinstance(kept[position], Tensor):
                kept[position] = kept[position].data
        return kept

    def is_untouched(self) -> bool:
        """Whether nothing was written to since the call: of no value need one ask then."""
        if self.inputs is None or [getattr(value, "_version", 0) for value in self.inputs] != self.versions:
            return False
        return all(tensor._version == version for tensor, version, _ in self.probes.values())


#: Stands for what `save_for_backward` keeps, for hooks of torch's own: to check, or to move what is saved.
SAVED = object()


class CompiledGraph(torch.autograd.Function):
    """The node in eager's history that stands for what results are computed by."""

    @staticmethod
    def forward(ctx: Any, call: Call, node: Node, *reached: Tensor) -> tuple[Tensor, ...]:
        call.keep(ctx, node)
        return tuple([call.values[index] for index in node.results])

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> tuple[Any, ...]:
        found = DIFFERENTIATE(ctx, gradients)
        return None, None, *[found[index] for index in ctx.node.reached]


class FirstBucket(CompiledGraph):
    """The same, of which other nodes are given what they pass on: see `pieces`."""

    @staticmethod
    def forward(ctx: Any, call: Call, node: Node, *link_and_reached: Tensor) -> tuple[Tensor, ...]:
        return CompiledGraph.forward(ctx, call, node, *link_and_reached[1:])

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> tuple[Any, ...]:
        found = DIFFERENTIATE(ctx, gradients)
        return None, None, token(found), *several(found, ctx.node.groups[0])


class Stage(torch.autograd.Function):
    """The node between a result and those that are computed from it, which it passes on."""

    @staticmethod
    def forward(ctx: Any, call: Call, node: Node, cut: Tensor, *results: Tensor) -> tuple[Tensor, ...]:
        call.keep(ctx, node)
        return tuple([result.detach() for result in results])

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> tuple[Any, ...]:
        return None, None, *DIFFERENTIATE(ctx, gradients), *gradients


class Refused(Exception):
    """Eager refuses the pass as well, with this message."""


class Unfit(Exception):
    """The backward graph cannot make this pass, which ends what `half` says."""

    def __init__(self, reason: str, half: Half) -> None:
        super().__init__(reason)
        self.half = half


def differentiate(ctx: Any, tangents: Sequence[Tensor | None]) -> Sequence[Tensor | None]:
    """The gradients that a node gives: eager's, where the backward graph cannot make them, or fails."""
    failure = None
    try:
        return by_graph(ctx, tangents)
    except Refused as refused:
        message = str(refused)
    except Unfit as why:
        message, reason, half = "", str(why), why.half
    except Exception as error:
        if ctx.call.inputs is None or explained(error):  # they were let go of; others would not communicate again
            raise
        message, reason, half, failure = "", f"{type(error).__name__}: {error}", ctx.node.half, error
    if message:
        raise RuntimeError(message)
    ctx.call.graph.report(reason, failure)
    found = through_eager(ctx.call, ctx.node, tangents)
    if half.frees and not is_graph_kept():
        release(ctx, half, tuple([tangent is not None for tangent in tangents]))
    return found


def by_graph(ctx: Any, tangents: Sequence[Tensor | None]) -> Sequence[Tensor | None]:
    node: Node = ctx.node
    call: Call = ctx.call
    graph = call.graph
    pattern = tuple([tangent is not None for tangent in tangents])
    if not any(pattern):
        return [None] * len(node.half.gradients)
    tangents = [t if t is None or type(t) is Tensor else plain_gradient(t) for t in tangents]
    reason = unfit(tangents)
    if graph.functions and not graph.functions[0].unchanged():  # they know the same of the world
        reason = "what a custom function reads has changed"
    backward = None if reason else node.backward(pattern, graph.state)
    half = node.half if backward is None else backward.half
    if not ctx.freed.isdisjoint(half.frees):
        raise Refused(FREED)
    if not (untouched := call.is_untouched()):
        for item in half.watched:
            if (written := written_to(call, item.place)) is not None:
                raise Refused(written_since(*written, item.made_by))
    values = None if backward is None else taken(ctx, backward.taken, untouched)
    if backward is None or backward.run is None or values is None:
        raise Unfit(reason or "not all results have a gradient, or one was written to", half)
    laid = [as_laid_out(t, n) for t, n in zip(tangents, ctx.layouts, strict=True) if t is not None]
    values += laid
    given = [tangent for tangent in tangents if tangent is not None]
    if backward.untried:
        found = first_gradients(ctx, backward, values, laid, given)
        node.backwards[pattern] = replace(backward, untried=False)
    if half.frees and not is_graph_kept():
        release(ctx, half, pattern)
    if backward.untried:
        return found
    results = backward.run(values)
    return (
        Gradients(half, results, laid, given)
        if isinstance(results, Results)
        else gradients_of(half, results, laid, given)
    )


def gradients_of(half: Half, results: Sequence[Any], laid: Sequence[Tensor], given: Sequence[Tensor]) -> list[Any]:
    return [
        results[place.index] if type(place) is Computed else gradient(place, results, laid, given)
        for place in half.gradients
    ]


def first_gradients(
    ctx: Any, backward: Backward, values: list[Any], laid: Sequence[Tensor], given: Sequence[Tensor]
) -> list[Any]:
    """What a graph that was read gives in its first run.

    Raises:
        EntryRefused: it fails, or gives what are no gradients of what it was made for.
    """
    node, inputs = ctx.node, ctx.call.inputs
    assert backward.run is not None
    try:
        found = gradients_of(backward.half, backward.run(values), laid, given)
        of_inputs = node.reached if node.half.cut is None else ()
        fits = all(found[n] is None or found[n].shape == inputs[n].shape for n in of_inputs)
    except Exception as error:
        if explained(error):
            raise
        raise EntryRefused(f"{type(error).__name__}: {error}") from error
    if not fits:
        raise EntryRefused("the gradients have other sizes than what they are of")
    return found


def taken(ctx: Any, places: Sequence[int | Input], untouched: bool) -> list[Any] | None:
    """What a backward graph takes; None if an earlier pass has freed some of it, or somebody has written to it.

    That is no error if eager keeps something else in its place.
    """
    if not untouched:
        sources = [place if isinstance(place, Input) else ctx.node.saved.places[place] for place in places]
        if any(written_to(ctx.call, source) is not None for source in sources):
            return None
    saved = iter(ctx.saved_tensors if ctx.hooked else ())
    kept = [next(saved) if value is SAVED else value for value in ctx.kept]
    inputs = ctx.call.inputs
    if inputs is None and any(isinstance(place, Input) for place in places):
        return None
    values = [inputs[place.index] if isinstance(place, Input) else kept[place] for place in places]
    return None if any(value is GONE for value in values) else values


#: Stands for what was kept.
GONE = object()


def release(ctx: Any, half: Half, pattern: Pattern) -> None:
    """Free what a pass was the last to look at: what is kept for gradients that come alone, later, is still there."""
    node, call = ctx.node, ctx.call
    before, ctx.freed = len(ctx.passed), ctx.freed | half.frees
    ctx.passed |= frozenset(n for n, given in enumerate(pattern) if given)
    if len(ctx.passed) == len(pattern):
        ctx.kept = [GONE] * len(ctx.kept)
        call.left -= before < len(pattern)
    else:
        wanted = [any(ctx.passed.isdisjoint(group) for group in groups) for groups in node.saved.takers]
        ctx.kept = [value if keep else GONE for value, keep in zip(ctx.kept, wanted, strict=True)]
    if not call.left:
        call.inputs = call.again = None


#: The backward pass may run inside of a compiled function, and is no part of it: no frame of it is looked at.
DIFFERENTIATE = _C.Graph(differentiate, lambda *_: False, whole=True)


def written_to(call: Call, place: Input | Computed) -> tuple[Tensor, int, torch.Size] | None:
    """What was written to since the call, the version that it had, and its shape; None if it was not."""
    if isinstance(place, Input) and place.index not in call.graph.written:
        if call.inputs is None or not isinstance(call.inputs[place.index], Tensor):
            return None
        tensor, version = call.inputs[place.index], call.versions[place.index]
        shape = tensor.shape
    elif place in call.probes:
        tensor, version, shape = call.probes[place]
    else:
        return None
    return None if tensor._version == version else (tensor, version, shape)


def unfit(tangents: Sequence[Tensor | None]) -> str:
    """Why the backward graph cannot take these gradients; empty if it can."""
    if torch.is_grad_enabled():
        return "higher derivatives are eager's"
    given = [tangent for tangent in tangents if tangent is not None]
    if not all(map(has_elements, given)):
        return "a gradient is no plain tensor"
    if has_dispatch_modes():
        return "a mode sees each operator"
    if has_forward_level():
        return "it takes tangents along"
    if any(map(torch.is_autocast_enabled, AUTOCAST_DEVICES)):
        return "the backward pass is under autocast"
    if torch.is_anomaly_enabled():
        return "anomaly mode looks at each operator"
    return ""


# --- through eager ---------------------------------------------------------------------------------------------------


def note_hooks(ctx: Any, result: Tensor) -> None:
    """Higher derivatives come by the results of the second run, and call the hooks of the real ones."""
    ctx.call.hooks.of[ctx.node.results[result.output_nr]] = result._backward_hooks


def through_eager(call: Call, node: Node, tangents: Sequence[Tensor | None]) -> Sequence[Tensor | None]:
    """The gradients, by running the captured graph again as eager runs it. They can be differentiated if asked for."""
    graph = call.graph
    again = torch.is_grad_enabled()
    if call.inputs is None:
        raise RuntimeError(FREED)
    given = [intact(value, version) for value, version in zip(call.inputs, call.versions, strict=True)]
    second = (
        call.again
        if again and call.again is not None
        else second_run(graph.eager, given, graph.written, graph.grad.origins, call.random, graph.state)
    )
    if again and call.again is None:
        call.again = second
        for n, result in enumerate(second.results[: len(graph.grad.followed)]):
            result.register_hook(partial(call.hooks.called, n))
    results, wanted = second.results, second.wanted
    own = [(n, tangent) for n, tangent in zip(node.half.tangents, tangents, strict=True) if tangent is not None]
    cut = node.half.cut
    instead = [(results[n], tangent) for n, tangent in own if n in graph.cuts]
    views = range(len(graph.grad.followed), len(results))
    instead += [(results[n], torch.zeros_like(results[n])) for n in views if n != cut]
    with given_instead(instead), call.hooks.unused():
        found = torch.autograd.grad(
            [results[n] for n, _ in own],
            second.leaves if cut is None else [results[cut]],
            [tangent for _, tangent in own],
            create_graph=again,
            allow_unused=True,
        )
    if cut is not None:
        return found
    gradients: list[Tensor | None] = [None] * len(given)
    for index, value in zip(wanted, found, strict=True):
        gradients[index] = value
    return gradients
