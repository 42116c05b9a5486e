"""The library calls of a graph, chosen before it is lowered; what sums do better becomes sums."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch.fx import Graph, GraphModule

from onegraph.base.config import Config
from onegraph.base.late import late_module
from onegraph.compiler.library.int8 import INT8, choose_int8
from onegraph.compiler.library.layout import spread
from onegraph.compiler.library.linear import choose_linear
from onegraph.compiler.library.widened import ATTENTION, WIDENED, widen
from onegraph.compiler.target import Compile, Machine
from onegraph.torchlib.graph import LazyGraphModule

if TYPE_CHECKING:
    from onegraph.compiler.library.attention import choose_attention
    from onegraph.compiler.library.convolution import choose_convolutions
else:  # most programs have none of them
    choose_attention = late_module("onegraph.compiler.library.attention").choose_attention
    choose_convolutions = late_module("onegraph.compiler.library.convolution").choose_convolutions

CONVOLUTION = torch.ops.aten.convolution.default
_CANDIDATES = WIDENED | {
    torch.ops.aten.mm.default,
    torch.ops.aten.addmm.default,
    CONVOLUTION,
    INT8,
}


def choose_calls(
    module: GraphModule, parameters: frozenset[int], config: Config, compiled: Compile, machine: Machine
) -> GraphModule:
    """The graph with the fastest calls for its products and convolutions: a copy, or itself if there is none.

    `parameters` are the positions of the inputs that are parameters of a module. `compiled` makes what is timed of
    graphs that become kernels of ours.
    """
    if not torch.backends.mkldnn.is_available() or not torch.backends.mkldnn.enabled:
        return module
    if config.library_calls == "aten" or not any(node.target in _CANDIDATES for node in module.graph.nodes):
        return module
    graph = Graph()
    graph.output(graph.graph_copy(module.graph, {}))
    placeholders = [node for node in graph.nodes if node.op == "placeholder"]
    constants = frozenset(node for number, node in enumerate(placeholders) if number in parameters)
    before = {node: node.meta.get("val") for node in graph.nodes}
    moved = {}
    if any(node.target is CONVOLUTION for node in graph.nodes):
        moved = choose_convolutions(graph, constants, frozenset(placeholders), config, compiled, machine)
    spread(graph, before | {new: before[old] for new, old in moved.items()})
    if any(node.target is ATTENTION for node in graph.nodes):
        choose_attention(graph, config, compiled)
    choose_int8(graph, config)
    choose_linear(graph, constants, config, compiled, machine)
    widen(graph, config)
    return LazyGraphModule(module, graph)
