"""What the results of a functional graph own: each is a tensor of its own, which the caller may write to."""

from __future__ import annotations

import operator

import torch
from torch.fx import Graph, Node

from onegraph.torchlib.aten import may_view

_RESHAPE = torch.ops.aten.reshape.default


def owner_of(node: Node) -> Node:
    """The node that allocates the memory that holds the value of `node`."""
    while node.op == "call_function":
        source = node.args[0] if node.args else None
        if node.target is operator.getitem:
            if not may_view(source.target):
                break
        elif not (may_view(node.target) or node.target is _RESHAPE):
            break
        node = source
    return node


def owners(graph: Graph) -> frozenset[Node]:
    """The owners of all the results."""
    results = next(iter(reversed(graph.nodes))).all_input_nodes
    return frozenset(owner_of(node) for node in results)
