"""What the results of a functional graph own: each is a tensor of its own, which the caller may write to."""

from __future__ import annotations

import operator

import torch
from torch import Tensor
from torch.fx import Graph, Node

from onegraph.torchlib.aten import may_view

_RESHAPE = torch.ops.aten.reshape.default


def is_number(node: Node) -> bool:
    return not isinstance(node.meta.get("val"), Tensor)


def owner_of(node: Node) -> tuple[Node, object]:
    """The call that allocates the memory of the value of `node`, and which of its results that is."""
    while node.op == "call_function":
        if node.target is operator.getitem:
            call, position = _taken_from(node)
            if not may_view(call.target):
                return call, position
        elif not (may_view(node.target) or node.target is _RESHAPE):
            break
        node = node.all_input_nodes[0]
    return node, None


def _taken_from(node: Node) -> tuple[Node, object]:
    """The call of which the node is a result, and which: there may be lists among the results."""
    source, position = node.args
    assert isinstance(source, Node)
    if source.target is operator.getitem:
        call, outer = _taken_from(source)
        return call, (outer, position)
    return source, position


def owners(graph: Graph) -> frozenset[Node]:
    """The calls that allocate the memory of the results."""
    results = next(iter(reversed(graph.nodes))).all_input_nodes
    return frozenset(owner_of(node)[0] for node in results)
