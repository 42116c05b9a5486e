"""New nodes of a graph, with what they give: their operators are called on the fakes of what they take."""

from __future__ import annotations

from typing import Any

import torch
from torch.fx import Graph, Node, map_arg

aten = torch.ops.aten


def call(graph: Graph, target: Any, *args: Any, **kwargs: Any) -> Node:
    """A node with a tensor for its result, where the graph inserts. To be called in the fakes' own mode."""
    node = graph.call_function(target, args, kwargs)
    given, named = map_arg((args, kwargs), lambda source: source.meta["val"])
    node.meta["val"] = target(*given, **named)
    return node


def size_of(graph: Graph, node: Node, dim: int) -> Node | int:
    """The size of a tensor along a dimension: a node where it is symbolic."""
    size = node.meta["val"].shape[dim]
    if isinstance(size, int):
        return size
    found = graph.call_function(aten.sym_size.int, (node, dim))
    found.meta["val"] = size
    return found


def as_type(graph: Graph, node: Node, dtype: torch.dtype) -> Node:
    """The node itself, or its values in another element type."""
    return node if node.meta["val"].dtype is dtype else call(graph, aten._to_copy.default, node, dtype=dtype)
