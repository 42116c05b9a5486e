"""Compute at once what depends on constants only.

constant0 = [2.0, 3.0]          constant1 = [1.5, 2.5]
a = constant0 - 0.5       ->    b = x * constant1
b = x * a
"""

from __future__ import annotations

import contextlib
from typing import Any

import torch
from torch import Tensor
from torch.fx import Graph, GraphModule, Node, map_arg

from onegraph.autograd.results import owners
from onegraph.base.context import Context
from onegraph.torchlib.aten import has_effect

LIMIT = 1 << 16  # elements: a larger result is cheaper to compute than to keep


def fold_constants(module: GraphModule, cx: Context) -> GraphModule:
    known: dict[Node, Any] = {}
    returned = owners(module.graph)
    for node in list(module.graph.nodes):
        if node.op == "get_attr":
            known[node] = getattr(module, node.target)
        elif node.op == "call_function" and is_foldable(node, known):
            with torch.no_grad(), contextlib.suppress(Exception):  # what it raises is raised where the graph runs
                known[node] = node.target(*map_arg(node.args, known.get), **map_arg(node.kwargs, known.get))
    for node, value in known.items():
        needed = any(user not in known or user in returned for user in node.users)
        if node.op == "call_function" and isinstance(value, Tensor) and needed and node not in returned:
            replace(module, node, value)
    return module


def is_foldable(node: Node, known: dict[Node, Any]) -> bool:
    inputs = node.all_input_nodes
    result = node.meta.get("val")
    small = not isinstance(result, Tensor) or is_below_limit(result.numel())
    return bool(inputs) and small and all(n in known for n in inputs) and not has_effect(node.target)


def replace(module: GraphModule, node: Node, value: Tensor) -> None:
    graph: Graph = module.graph
    name = f"folded_{node.name}"
    module.register_buffer(name, value, persistent=False)
    with graph.inserting_before(node):
        constant = graph.get_attr(name)
    constant.meta = dict(node.meta)
    node.replace_all_uses_with(constant)
    graph.erase_node(node)


def is_below_limit(count: int | torch.SymInt) -> bool:
    """A symbolic size may be anything; asking would specialize it."""
    return isinstance(count, int) and count <= LIMIT
