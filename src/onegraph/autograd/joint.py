"""The joint graph: what a captured graph computes, and the gradients that PyTorch's own autograd computes behind it.

    graph(x, w, tangent0):            h = x * w
      h = x * w                       result 0: h.sin()
      sin = sin(h)             from
      cos = cos(h)                    autograd.grad(result 0, (x, w), tangent0)
      g = tangent0 * cos
      return sin, g * w, g * x

The program is run on fake tensors that record gradients, and so is the backward pass behind it. Tangents stand for the
gradients of those results that autograd follows.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.fx import GraphModule, Node

from onegraph.autograd.freed import freed_among
from onegraph.autograd.functionalize import Functionalizer, is_same
from onegraph.autograd.inner_views import inner_views, viewed_through
from onegraph.autograd.spec import (
    BaseOf,
    CallSpec,
    Computed,
    Detached,
    Gradient,
    GradSpec,
    Half,
    Input,
    Literal,
    Origin,
    Output,
    Part,
    Replayed,
    Strided,
    Tangent,
    Watched,
    Wrapped,
    base_of,
)
from onegraph.autograd.trace import (
    Returned,
    close,
    convention,
    counts_with,
    fake_mode_of,
    is_laid_over,
    layout_over,
    refuse_repeated_writes,
    refuse_shared_writes,
    refuse_unknown_counts,
    refuse_writes_beyond,
    run,
)
from onegraph.base.dataclass import dataclass
from onegraph.base.errors import CompileError
from onegraph.torchlib.fake import FakeTensor
from onegraph.torchlib.histories import gradients_of, is_leaf
from onegraph.torchlib.primals import (
    Edge,
    counting_saves,
    edge_of,
    edges_behind,
    is_local_part,
    is_plain_view,
    node_name,
    noting,
    passed_on,
    passes_over,
    primal,
    tangent,
    writes_behind,
)
from onegraph.torchlib.recorder import Rule
from onegraph.torchlib.state import GlobalState, saving_plainly, without_autocast
from onegraph.torchlib.strides import is_certainly_dense
from onegraph.torchlib.wrappers import Wrapping, is_wrapper

#: In the `meta` of nodes that the forward pass has recorded: they have the same names whatever is differentiated.
IS_FORWARD = "is_forward"


@dataclass(frozen=True, slots=True)
class Joint:
    """`module` takes inputs and tangents, and returns results and gradients."""

    module: GraphModule
    call: CallSpec
    grad: GradSpec


def trace_joint(
    module: GraphModule,
    inputs: Sequence[Any],
    rules: Mapping[Any, Rule],
    overlapping: Sequence[tuple[int, int]],
    parameters: Collection[int] = (),
    missing: Collection[int] = (),
) -> Joint:
    """The joint graph of a captured one. Raises CompileError for what the calling convention has no words for.

    `parameters` are inputs that have no history. `missing` are those of the followed results, counted among them, that
    get no gradient.
    """
    state = GlobalState.snapshot()
    if state.functorch_depth:
        raise CompileError("joint graph", "a transform of torch.func is open")
    mode = fake_mode_of(module, inputs)
    recorder = Functionalizer(mode, rules)
    mode.sizes.data.reopen()
    placeholders = [node for node in module.graph.nodes if node.op == "placeholder"]
    primals = [primal_of(value, node) for value, node in zip(inputs, placeholders, strict=True)]
    roots = {n: primals[n] for n, node in enumerate(placeholders) if is_given_another_history(node)}
    for n, root in roots.items():
        primals[n] = passed_on(root)
    environment: dict[Node, Any] = {}
    try:
        with saving_plainly(), torch.autograd.set_detect_anomaly(False):
            with counting_saves() as used, recorder.fake, recorder:
                for n, (node, value) in enumerate(zip(placeholders, primals, strict=True)):
                    made = recorder.placeholder(value, str(node.target))
                    if n in roots:
                        recorder.bind(roots[n], made)
                outputs = run(module, primals, recorder, environment)
            state.restore()
            for node in recorder.graph.nodes:
                node.meta[IS_FORWARD] = True
            refuse_unlike_captured(environment)
            refuse_shared_writes(recorder, primals, overlapping)
            refuse_repeated_writes(recorder, primals)
            refuse_writes_beyond(recorder, primals)
            refuse_unknown_counts(recorder)
            with recorder.fake:
                returned = Returned(recorder, replays=True)
                call = convention(returned, module, primals, outputs)
                refuse_unlike_histories(call, outputs, primals, returned.tensors)
                followed = {n: value for n, value in returned.tensors.items() if is_followed(value, primals)}
                refuse_uncounted_writes(recorder, call, primals, roots)
                refuse_later_views(call, placeholders)
                if used:  # by backward passes within
                    written = written_among(call, primals)
                    call = replace(call, freed=freed_among(followed, leaves_of(primals, roots), written))
                    for item in call.freed:
                        del followed[item.result]
                results = list(followed.values())
                spent = {Computed(item.result) for item in call.freed}
                kept = [None if base_of(o) in spent else v for v, o in zip(outputs, call.outputs, strict=True)]
                views = inner_views(call, kept, primals, results)
                shown = viewed_through(call, outputs, views, returned)
                points = [*results, *views.values()]
                tangents = tangents_of(recorder, results)
                tape = Tape(recorder, primals, roots, returned.tensors, points, tangents, cuts_among(points), used)
                parts: list[tuple[Any, list[int]]] = [(None, group) for group in tape.groups(parameters)]
                parts += [(cut, starts) for cut in tape.cuts if (starts := tape.reaching(cut))]
                refuse_unreached(parts, len(results))
                with recorder, without_autocast():
                    halves = [tape.half(cut, starts, missing) for cut, starts in parts]
                refuse_without_gradients([half for half, _ in halves], missing)
    except (RuntimeError, IndexError) as error:  # what eager raises in one of the passes, it shall raise there
        raise CompileError("joint graph", str(error)) from error
    finally:
        state.restore()
    origins = (*(origin_of(call, index, value, outputs) for index, value in followed.items()), *map(Computed, views))
    spec = GradSpec(len(returned.nodes), tuple(followed), named([half for half, _ in halves], results), origins)
    nodes = [*returned.nodes, *(node for _, own in halves for node in own)]
    return Joint(close(recorder, nodes), shown, spec)


@dataclass(frozen=True, slots=True)
class Tape:
    """What was recorded of a forward pass, for backward passes behind it. `used` grows by what they look at.

    `roots` are the leaves behind those primals that get a new history, by position.
    `points` are the followed results, for which there are tangents, and behind them the views that others are computed
    from; `cuts` are those of them that others are computed from.
    """

    recorder: Functionalizer
    primals: Sequence[Any]
    roots: Mapping[int, Tensor]
    tensors: Mapping[int, Tensor]
    points: Sequence[Tensor]
    tangents: Sequence[Tensor]
    cuts: Sequence[int]
    used: dict[int, tuple[Tensor, Any]]

    @property
    def results(self) -> Sequence[Tensor]:
        return self.points[: len(self.tangents)]

    def leaves(self) -> dict[int, Tensor]:
        return leaves_of(self.primals, self.roots)

    def half(self, cut: int | None, results: Sequence[int], missing: Collection[int]) -> tuple[Half, list[Node]]:
        """One half, and what its graph returns. Gradients of results that others are computed from are given, and what
        comes to other ones and to views is the part of other halves."""
        starts = [n for n in results if n not in missing]
        passes = passes_over([self.results[n] for n in starts], self.ends())
        leaves = self.leaves()
        reached = [leaf for leaf in leaves.values() if edge_of(leaf)[0] in passes]
        wanted = reached if cut is None else [self.points[cut]]
        hooks = [self.results[n].register_hook(partial(instead, self.tangents[n])) for n in starts if n in self.cuts]
        hooks += [self.points[n].register_hook(nothing) for n in self.cuts if n not in starts and n != cut]
        self.used.clear()
        with noting(writes_behind(self.results)) as written:
            found = self.gradients(starts, wanted)
        for hook in hooks:
            hook.remove()
        returned = Returned(self.recorder)
        given = [self.tangents[n] for n in starts]
        places = [leaves.get(n) for n in range(len(self.primals))] if cut is None else wanted
        gradients = tuple(gradient_of(found.get(id(value)), given, returned) for value in places)
        used = [(tensor, passes.get(node, ())) for tensor, node in self.used.values()]
        watched = watched_of(used, self.primals, self.tensors, self.recorder)
        frees = frozenset(n for n in self.used if isinstance(n, int)) | {-1 - number for number in written}
        return Half(tuple(starts), gradients, len(returned.nodes), watched, frees, cut), returned.nodes

    def groups(self, parameters: Collection[int]) -> list[list[int]]:
        """The results whose gradients arrive at inputs, in groups that have nothing but inputs in common.

        A pass over a node goes on behind each of its inputs, and frees what it gets to. It must not get to what is
        behind inputs that only other results are computed from. Those that are computed from another one are with it,
        so that their gradients end there.
        """
        passes = passes_over(self.results, self.ends())
        leaves = {edge_of(value)[0]: index for index, value in self.leaves().items()}
        arriving = {index: passes[node] for node, index in leaves.items() if node in passes}
        every = set().union(*arriving.values())
        shared = [members for node, members in passes.items() if node not in leaves]
        group = {n: {n} for n in range(len(self.results))}
        cuts = [cut for cut in self.cuts if cut in group]
        for members in (*shared, *({cut, *every.intersection(self.reaching(cut))} for cut in cuts)):
            joined = set().union(*(group[n] for n in members))
            group |= dict.fromkeys(joined, joined)
        found: dict[frozenset[int], set[int]] = {}
        for members in group.values():
            inputs = {index for index, starts in arriving.items() if not starts.isdisjoint(members)}
            found.setdefault(frozenset(inputs.difference(parameters)), set()).update(members)
        return [sorted(members & every) for members in found.values() if members & every]

    def reaching(self, cut: int) -> list[int]:
        """The results whose gradients arrive at another one or a view, by no way through another that has a half."""
        goal, ends = edge_of(self.points[cut]), self.ends()
        return [n for n, r in enumerate(self.results) if n != cut and goal in edges_behind([r], ends)]

    def ends(self) -> set[Edge]:
        """Where the gradients of results arrive that others are computed from: they are given."""
        return {edge_of(self.points[n]) for n in self.cuts}

    def gradients(self, starts: Sequence[int], wanted: Sequence[Tensor]) -> dict[int, Tensor | None]:
        """By the id of each tensor that is wanted, the gradient that autograd computes."""
        if not starts:
            return {}
        results, tangents = [self.results[n] for n in starts], [self.tangents[n] for n in starts]
        with self.recorder.fake.sizes.data.sparing():
            found = gradients_of(results, wanted, tangents)
        return {id(tensor): gradient for tensor, gradient in zip(wanted, found, strict=True)}


def leaves_of(primals: Sequence[Any], roots: Mapping[int, Tensor]) -> dict[int, Tensor]:
    """What the inputs that get gradients begin at, by position: themselves, or their roots."""
    own = {n: v for n, v in enumerate(primals) if isinstance(v, Tensor) and v.requires_grad and v.is_leaf}
    return own | dict(roots)


def written_among(call: CallSpec, primals: Sequence[Any]) -> list[Tensor]:
    """The inputs that get new values."""
    return [primals[mutation.input] for mutation in call.mutations if mutation.value is not None]


def named(halves: Sequence[Half], results: Sequence[Tensor]) -> tuple[Half, ...]:
    """The halves with the names of eager's nodes: each result is given by the last node that passes it on."""
    givers = {n: index for index, half in enumerate(halves) for n in half.tangents}
    names = [next((node_name(results[n]) for n, giver in givers.items() if giver == i), "") for i in range(len(halves))]
    return tuple(replace(half, name=name) for half, name in zip(halves, names, strict=True))


def instead(tangent: Tensor, gradient: Tensor) -> Tensor:
    return tangent


def nothing(gradient: Tensor | None) -> Tensor | None:
    """Zeros in the place of a gradient. A node of several results asks also for those that have none."""
    return None if gradient is None else torch.zeros_like(gradient)


def cuts_among(points: Sequence[Tensor]) -> list[int]:
    """The results and views that results are computed from, by their numbers, those first that come first.

    The caller may ask for the gradient of such a result, or hook it. The results of one node of autograd are all
    computed from its inputs, so these need nodes of their own.
    """
    inner = edges_behind(points)
    cuts = [n for n, point in enumerate(points) if edge_of(point) in inner]
    edges = {edge_of(points[n]) for n in cuts}
    return sorted(cuts, key=lambda n: len(edges & edges_behind([points[n]])))


def watched_of(
    used: Collection[tuple[Tensor, Collection[int]]],
    primals: Sequence[Any],
    results: Mapping[int, Tensor],
    recorder: Functionalizer,
) -> tuple[Watched, ...]:
    """The inputs and results that are among the tensors which autograd kept, as far as writes to them are counted.

    The tensors are given with the results from which passes look at them.
    """
    places: dict[Input | Computed, Tensor] = {
        Input(index): value for index, value in enumerate(primals) if isinstance(value, Tensor)
    }
    places |= {Computed(index): value for index, value in results.items()}
    related: dict[int, list[tuple[Tensor, Collection[int]]]] = {}
    for t, by in used:
        if recorder.knows(t):
            related.setdefault(id(recorder.value_of(t).family), []).append((t, by))
    found = []
    for place, tensor in places.items():
        family = recorder.value_of(tensor).family
        passes = [by for t, by in related.get(id(family), ()) if counts_with(t, tensor)]
        if passes:
            found.append(Watched(place, node_name(tensor), frozenset().union(*passes)))
    return tuple(found)


def is_given_another_history(placeholder: Node) -> bool:
    """Whether the graph may write to an input so that autograd records it: the input has a history, and is no leaf."""
    return bool(placeholder.meta.get("had_history")) and not is_leaf(placeholder.meta["example_value"])


def primal_of(value: Any, placeholder: Node) -> Any:
    """The input of the joint graph for one of the captured graph: a fake as it was when the graph began."""
    if not isinstance(value, FakeTensor):
        return value
    if value.is_inference() or value.is_conj() or value.is_neg():
        raise CompileError("joint graph", "an input is an inference tensor, or lazily conjugated or negated")
    return primal(value, placeholder.meta.get("recorded", value.requires_grad))


def tangents_of(recorder: Functionalizer, results: Sequence[Tensor]) -> list[Tensor]:
    """Inputs of the graph for the gradients of the results."""
    last = [node for node in recorder.graph.nodes if node.op == "placeholder"][-1]
    tangents: list[Tensor] = []
    for position, result in enumerate(results):
        value = tangent(result)
        with recorder.graph.inserting_after(last):
            last = recorder.placeholder(value, f"tangent{position}")
        tangents.append(value)
    return tangents


def gradient_of(value: Tensor | None, tangents: Sequence[Tensor], returned: Returned) -> Gradient:
    """What the caller takes as a gradient. One that repeats memory, or has gaps, is a view, as eager's is."""
    if value is None:
        return None
    if is_wrapper(value):
        wrapping = Wrapping.of(value)
        held = [gradient_of(part, tangents, returned) for part in wrapping.parts_of(value)]
        return Wrapped(wrapping, tuple(part for part in held if part is not None and not isinstance(part, Wrapped)))
    origin = returned.recorder.value_of(value).family.root.tensor
    if value is origin or is_certainly_dense(value) or not is_laid_over(value, origin):
        return whole_gradient(value, tangents, returned)
    return Part(whole_gradient(origin, tangents, returned), *layout_over(value, origin, returned))


def whole_gradient(value: Tensor, tangents: Sequence[Tensor], returned: Returned) -> Computed | Tangent:
    for position, item in enumerate(tangents):
        if value is item or is_same(value, item):
            return Tangent(position)
    return returned.add(value)


# --- what is refused -------------------------------------------------------------------------------------------------


def refuse_unreached(parts: Sequence[tuple[int | None, Sequence[int]]], results: int) -> None:
    """Refuse graphs of whose results one reaches no input: in eager, it has a history that ends within."""
    if len({n for _, starts in parts for n in starts}) < results:
        raise CompileError("joint graph", "a result has a history that ends within")


def refuse_without_gradients(halves: Sequence[Half], missing: Collection[int]) -> None:
    """Refuse graphs that have results of which no input gets a gradient: their node would have no history."""
    if not missing and not all(any(half.gradients) for half in halves if half.cut is None):
        raise CompileError("joint graph", "a result gives no gradient to any input")


def refuse_uncounted_writes(
    recorder: Functionalizer, call: CallSpec, primals: Sequence[Any], roots: Collection[int]
) -> None:
    """Refuse writes to inputs through their `data`, with which what eager has kept for its backward pass changes."""
    for mutation in call.mutations:
        value = primals[mutation.input]
        was_recorded = mutation.input in roots or value.is_leaf and value.requires_grad
        if was_recorded and recorder.value_of(value).family.version != mutation.writes:
            raise CompileError("joint graph", "an input that requires grad is written to through its data")


def refuse_later_views(call: CallSpec, placeholders: Sequence[Node]) -> None:
    """Refuse views of an input with a new history that is itself a view: what they go through depends on when each was
    made, before a write or behind it."""
    for output in call.outputs:
        base = base_of(output)
        if base is not output and isinstance(base, Input) and placeholders[base.index].meta.get("is_view"):
            raise CompileError("joint graph", "an output is a view of an input that gets a history, and is a view")


def is_followed(result: Tensor, primals: Sequence[Any]) -> bool:
    """Whether autograd follows a result: not a leaf that was written to where nothing is recorded.

    Raises CompileError for a leaf that the graph has made, which the calling convention has no words for.
    """
    if not result.requires_grad or not result.is_leaf:
        return result.requires_grad
    if not any(result is value for value in primals):
        raise CompileError("joint graph", "a leaf that requires grad is made")
    return False


def refuse_unlike_captured(environment: Mapping[Node, Any]) -> None:
    """Refuse values of which capture has seen that they have a history, or none, where this run has seen the other.

    Views that are made under `no_grad` have that of what their input views, which is not among the inputs.
    """
    for node, value in environment.items():
        example = node.meta.get("example_value")
        if isinstance(example, Tensor) and isinstance(value, Tensor) and example.requires_grad != value.requires_grad:
            raise CompileError("joint graph", "a view has the history of a tensor that is no input")


def refuse_unlike_histories(
    call: CallSpec, outputs: Sequence[Any], primals: Sequence[Any], results: Mapping[int, Tensor]
) -> None:
    """Refuse outputs that the calling convention would give another history than eager gives them."""
    for item, output in zip(outputs, call.outputs, strict=True):
        if not isinstance(item, Tensor) or isinstance(output, Input):
            continue
        if item.requires_grad and item.is_leaf:
            raise CompileError("joint graph", "an output is a leaf that the graph made")
        if follows(output, primals, results) != item.requires_grad:
            raise CompileError("joint graph", "an output shares memory with a tensor, but not its history")
        if not is_plain_view(item) and not (isinstance(output, Computed) and is_local_part(item)):
            raise CompileError("joint graph", "an output is a view that autograd lets nobody write to")


def follows(output: Output, primals: Sequence[Any], results: Mapping[int, Tensor]) -> bool:
    """Whether the output will require grad."""
    match output:
        case Input(index):
            return bool(primals[index].requires_grad)
        case Computed(index):
            return results[index].requires_grad
        case Strided(base) | Replayed(base):
            return follows(base, primals, results)
        case Detached() | Literal():
            return False


def origin_of(call: CallSpec, result: int, tensor: Tensor, outputs: Sequence[Any]) -> Origin:
    """Where the captured graph's own run shows a result: in an output, a written input, or what an output views."""
    for position, output in enumerate(call.outputs):
        if output == Computed(result):
            return Computed(position)
    for mutation in call.mutations:
        if mutation.value == Computed(result):
            return Input(mutation.input)
    for position, output in enumerate(call.outputs):
        if base_of(output) == Computed(result) and outputs[position]._base is tensor:
            return BaseOf(position)
    raise CompileError("joint graph", "outputs are views of a tensor that the graph does not return")
