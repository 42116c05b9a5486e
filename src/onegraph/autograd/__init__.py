"""From a captured graph to a functional aten graph and its calling convention."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from torch.fx import GraphModule

from onegraph.autograd.dead_code import remove_dead_code
from onegraph.autograd.decompose import DECOMPOSITIONS
from onegraph.autograd.duplicates import merge_duplicates
from onegraph.autograd.fold import fold_constants
from onegraph.autograd.simplify import remove_copies
from onegraph.autograd.spec import CallSpec
from onegraph.autograd.trace import trace
from onegraph.base.context import Context
from onegraph.base.events import FunctionalGraphBuilt
from onegraph.base.pipeline import Pass, run_passes
from onegraph.torchlib.graph_text import graph_text

__all__ = ["CallSpec", "FunctionalGraph", "functional_graph"]


PASSES = (
    Pass("remove_dead_code", remove_dead_code, "recording keeps every operator; the rest should not look at dead ones"),
    Pass("remove_copies", remove_copies, "before merging: a copy and its original become one expression"),
    Pass("merge_duplicates", merge_duplicates, "before folding, so that equal constants are folded once"),
    Pass("fold_constants", fold_constants, "after copies of literals are gone"),
    Pass("remove_dead_code", remove_dead_code, "what was folded leaves its inputs behind"),
)


@dataclass(frozen=True, slots=True)
class FunctionalGraph:
    """`module` makes new values only; `spec` says how to call it."""

    module: GraphModule
    spec: CallSpec


def functional_graph(
    module: GraphModule, inputs: Sequence[Any], cx: Context, overlapping: Sequence[tuple[int, int]] = ()
) -> FunctionalGraph:
    """The functional aten graph of a captured graph, for inference.

    `inputs` are the fake tensors (and symbolic integers) that stand for the captured graph's inputs; `overlapping` are
    the pairs of them that have elements in common.

    Raises CompileError for a graph that has no functional form.
    """
    functional, spec = trace(module, inputs, DECOMPOSITIONS, overlapping)
    functional = run_passes(functional, PASSES, cx, check, graph_text, "functionalize")
    functional.recompile()
    if cx.events:
        count = sum(node.op == "call_function" for node in functional.graph.nodes)
        cx.emit(FunctionalGraphBuilt(cx.frame, count, partial(graph_text, functional)))
    return FunctionalGraph(functional, spec)


def check(module: GraphModule) -> None:
    module.graph.lint()
