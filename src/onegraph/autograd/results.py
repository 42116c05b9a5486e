"""What the results of a functional graph own: each is a tensor of its own, which the caller may write to."""

from __future__ import annotations

import operator

import torch
from torch.fx import Graph, Node

from onegraph.torchlib.aten import may_view

_RESHAPE = torch.ops.aten.reshape.default


def owner_of(node: Node) -> tuple[Node, object]:
    """The call that allocates the memory of the value of `node`, and which of its results that is."""
    while node.op == "call_function":
        if node.target is operator.getitem:
            if not may_view(node.args[0].target):
                return node.args[0], node.args[1]
        elif not (may_view(node.target) or node.target is _RESHAPE):
            break
        node = node.args[0]
    return node, None


def owners(graph: Graph) -> frozenset[Node]:
    """The calls that allocate the memory of the results."""
    results = next(iter(reversed(graph.nodes))).all_input_nodes
    return frozenset(owner_of(node)[0] for node in results)
