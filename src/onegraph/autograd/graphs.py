"""The functional graphs of a captured one: one for inference; a forward and a backward graph, where it is trained."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import partial
from typing import Any

from torch import SymInt, Tensor
from torch.fx import GraphModule

from onegraph.autograd.accumulate import accumulate_rows
from onegraph.autograd.dead_code import remove_dead_code
from onegraph.autograd.decompose import DECOMPOSITIONS
from onegraph.autograd.duplicates import merge_duplicates
from onegraph.autograd.fold import fold_constants
from onegraph.autograd.joint import Joint, trace_joint
from onegraph.autograd.lean import lean
from onegraph.autograd.partition import Partition, backward_from, partition
from onegraph.autograd.simplify import remove_copies
from onegraph.autograd.spec import CallSpec, GradSpec, Half, Input
from onegraph.autograd.trace import trace
from onegraph.base.context import Context
from onegraph.base.dataclass import dataclass
from onegraph.base.errors import CompileError
from onegraph.base.events import FunctionalGraphBuilt, GradientsPlanned
from onegraph.base.pipeline import Pass, run_passes
from onegraph.torchlib.data_sizes import BORN
from onegraph.torchlib.graph_text import graph_text

__all__ = [
    "CallSpec",
    "FunctionalGraph",
    "GraphPair",
    "Program",
    "functional_graph",
    "graph_pair",
    "other_backward",
    "recorded_graphs",
]


PASSES = (
    Pass("remove_dead_nodes", remove_dead_code, "recording keeps every operator; the rest should not look at them"),
    Pass("remove_copies", remove_copies, "before merging: a copy and its original become one expression"),
    Pass("merge_duplicates", merge_duplicates, "before folding, so that equal constants are folded once"),
    Pass("fold_constants", fold_constants, "after copies of literals are gone"),
    Pass("remove_dead_nodes", remove_dead_code, "what was folded leaves its inputs behind"),
)

JOINT_PASSES = (
    *PASSES,
    Pass("accumulate_rows", accumulate_rows, "before dead code is removed: it leaves whole tables behind"),
    Pass("lean", lean, "last: it names what it makes after nodes that are not merged or folded any more"),
    Pass("remove_dead_nodes", remove_dead_code, "what was replaced has no use"),
    Pass("merge_duplicates", merge_duplicates, "statistics are taken out of a normalization by two now"),
)


@dataclass(frozen=True, slots=True)
class FunctionalGraph:
    """`module` makes new values only; `spec` says how to call it."""

    module: GraphModule
    spec: CallSpec

    def modules(self) -> list[GraphModule]:
        return [self.module]


def functional_graph(
    module: GraphModule,
    inputs: Sequence[Any],
    cx: Context,
    overlapping: Sequence[tuple[int, int]] = (),
    is_inner: bool = False,
) -> FunctionalGraph:
    """The functional aten graph of a captured graph, for inference.

    `inputs` are the fake tensors (and symbolic integers) that stand for the captured graph's inputs; `overlapping` are
    the pairs of them that have elements in common. One that `is_inner` is called by the graph of the same capture.

    Raises CompileError for a graph that has no functional form.
    """
    functional, spec = trace(module, inputs, DECOMPOSITIONS, overlapping, is_inner)
    functional = run_passes(functional, PASSES, cx, check, graph_text, "functionalize")
    functional.recompile()
    announce(functional, cx)
    return FunctionalGraph(functional, spec)


@dataclass(frozen=True, slots=True)
class GraphPair:
    """The functional graphs of a captured graph that records gradients. `spec` and `grad` say how to call them."""

    graphs: Partition
    spec: CallSpec
    grad: GradSpec

    def modules(self) -> list[GraphModule]:
        return [self.graphs.forward, *(graph.module for graph in self.graphs.backwards)]


@dataclass(frozen=True, slots=True)
class Program:
    """A captured graph with the fakes of its inputs; `overlapping` as for `functional_graph`.

    `parameters` are the inputs that have no history, and live anyway.
    """

    module: GraphModule
    inputs: Sequence[Any]
    overlapping: Sequence[tuple[int, int]] = ()
    parameters: Collection[int] = ()

    def has_symbols(self) -> bool:
        shapes = (value.shape if isinstance(value, Tensor) else (value,) for value in self.inputs)
        of_data = any(BORN in node.meta for node in self.module.graph.nodes)
        return of_data or any(isinstance(number, SymInt) for shape in shapes for number in shape)

    def joint(self, cx: Context, missing: Collection[int] = ()) -> Joint:
        """The joint graph, cleaned. Raises CompileError where there is none."""
        joint = trace_joint(self.module, self.inputs, DECOMPOSITIONS, self.overlapping, self.parameters, missing)
        passes = JOINT_PASSES if joint.grad.halves else PASSES
        clean = run_passes(joint.module, passes, cx, check, graph_text, "functionalize")
        return Joint(clean, joint.call, joint.grad)


def recorded_graphs(program: Program, cx: Context) -> GraphPair | FunctionalGraph:
    """The forward and the backward graphs of a captured graph; one graph if autograd follows none of its results."""
    joint = program.joint(cx)
    if joint.grad.halves:
        return graph_pair(program, joint, cx)
    joint.module.recompile()
    announce(joint.module, cx)
    return FunctionalGraph(joint.module, joint.call)


def graph_pair(program: Program, joint: Joint, cx: Context) -> GraphPair:
    """The joint graph of a program as a forward and a backward graph."""
    written = frozenset(mutation.input for mutation in joint.call.mutations)
    budget = None if "recompute" in cx.config.skipped_passes else cx.config.memory_budget
    graphs = partition(joint.module, joint.grad, written, program.parameters, budget)
    announce(graphs.forward, cx, "forward")
    for backward in graphs.backwards:
        announce(backward.module, cx, "backward")
    saved = len({place for backward in graphs.backwards for place in backward.saved})
    text = partial(graph_text, joint.module)
    cx.emit(GradientsPlanned(cx.frame, graphs.kept, saved, graphs.recomputed, graphs.text, text))
    return GraphPair(graphs, joint.call, joint.grad)


@dataclass(frozen=True, slots=True)
class OtherBackward:
    """What a half does for some of its tangents. `taken` are positions among what is kept, and inputs; `module` is None
    where the graph would need what is not kept."""

    module: GraphModule | None
    half: Half
    taken: tuple[int | Input, ...] = ()


def other_backward(
    program: Program, pair: GraphPair, number: int, missing: Collection[int], cx: Context
) -> OtherBackward | None:
    """A half for when these of the followed results have no gradient; None if it cannot be traced."""
    written = frozenset(mutation.input for mutation in pair.spec.mutations)
    try:
        joint = program.joint(cx, missing)
    except CompileError:
        return None
    half = joint.grad.halves[number]
    if program.has_symbols():
        return OtherBackward(None, half)  # guards that the compiler needs would come too late
    try:
        names = pair.graphs.backwards[number].names()
        graph, taken = backward_from(joint.module, joint.grad, number, names, written, pair.graphs.recomputed)
    except CompileError:
        return OtherBackward(None, half)
    announce(graph, cx, "backward")
    return OtherBackward(graph, half, taken)


def announce(functional: GraphModule, cx: Context, part: str = "inference") -> None:
    if cx.events:
        count = sum(node.op == "call_function" for node in functional.graph.nodes)
        cx.emit(FunctionalGraphBuilt(cx.frame, count, partial(graph_text, functional), part))


def check(module: GraphModule) -> None:
    module.graph.lint()
