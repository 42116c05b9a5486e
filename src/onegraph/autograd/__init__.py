"""From a captured graph to a functional aten graph and its calling convention."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from torch.fx import GraphModule

from onegraph.autograd.decompose import DECOMPOSITIONS
from onegraph.autograd.spec import CallSpec
from onegraph.autograd.trace import trace
from onegraph.base.context import Context
from onegraph.base.events import FunctionalGraphBuilt

__all__ = ["CallSpec", "FunctionalGraph", "functional_graph"]


@dataclass(frozen=True, slots=True)
class FunctionalGraph:
    """`module` makes new values only; `spec` says how to call it."""

    module: GraphModule
    spec: CallSpec


def functional_graph(module: GraphModule, inputs: Sequence[Any], cx: Context) -> FunctionalGraph:
    """The functional aten graph of a captured graph, for inference.

    `inputs` are the fake tensors (and symbolic integers) that stand for the captured graph's inputs.
    """
    functional, spec = trace(module, inputs, DECOMPOSITIONS)
    if cx.events:
        count = sum(node.op == "call_function" for node in functional.graph.nodes)
        cx.emit(FunctionalGraphBuilt(cx.frame, count, functional.code))
    return FunctionalGraph(functional, spec)
