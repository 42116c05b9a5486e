"""The bodies of regions as functional graphs of their own, of which a backend makes what runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.fx import GraphModule

from onegraph.autograd.graphs import functional_graph
from onegraph.autograd.runtime import Run, bind
from onegraph.base.context import Context
from onegraph.torchlib.graph import LazyGraphModule
from onegraph.torchlib.regions import OPERATORS, REGIONS, Body, Region
from onegraph.torchlib.state import without_autocast


def with_regions(graph: GraphModule, run: Run, cx: Context, make: Callable[[GraphModule], Run]) -> Run:
    """`run`, which holds the regions of its graph. `make` makes a function of the functional graph of a body."""
    regions = [REGIONS[node.args[2]] for node in graph.graph.nodes if node.target in OPERATORS]
    if not regions:
        return run
    for body in (body for region in regions for body in region.bodies):
        if body.run is None:
            body.run = made(body, cx, make)
    return Holding(run, regions)


class Holding:
    """A function that holds the regions which it calls by their numbers."""

    def __init__(self, run: Run, regions: Sequence[Region]) -> None:
        self.run, self.regions = run, regions

    def __call__(self, *inputs: Any) -> Sequence[Any]:
        return self.run(*inputs)


def made(body: Body, cx: Context, make: Callable[[GraphModule], Run]) -> Run:
    with without_autocast():  # a body has its own in it
        graph = functional_graph(module_of(body), list(body.examples), cx, is_inner=True)
        return bind(graph.spec, make(graph.module), records_writes=False, records_views=False)


def module_of(body: Body) -> GraphModule:
    """The body as a captured graph."""
    if isinstance(body.function, GraphModule):
        return body.function
    graph = torch.fx.Graph()
    places = [graph.placeholder(f"value{n}") for n in range(len(body.examples))]
    for place, example in zip(places, body.examples, strict=True):
        place.meta["example_value"] = example
    graph.output(graph.call_function(body.function, tuple(places)))
    return LazyGraphModule(torch.nn.Module(), graph)
