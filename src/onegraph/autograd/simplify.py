"""Remove operators that change nothing: values are never written to, so a copy is as good as the original.

    c = clone(x)         s = x + 1
    s = c + 1      ->    return s
    return s

A copy that is a result of the graph stays: the caller may write to it.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.fx import GraphModule, Node

from onegraph.autograd.results import owners
from onegraph.base.context import Context
from onegraph.torchlib.strides import is_certainly_equal

aten = torch.ops.aten
_COPIES = frozenset({aten.clone.default, aten.lift_fresh_copy.default, aten._to_copy.default, aten.expand.default})


def remove_copies(module: GraphModule, cx: Context) -> GraphModule:
    returned = owners(module.graph)
    for node in list(module.graph.nodes):
        copied = node.target in _COPIES and isinstance(node.args[0], Node)
        if copied and node not in returned and is_identity(node):
            node.replace_all_uses_with(node.args[0])
            module.graph.erase_node(node)
    return module


def is_identity(node: Node) -> bool:
    """Does the result have all the properties of the argument, in every call?"""
    result, source = node.meta["val"], node.all_input_nodes[0].meta["val"]
    return (
        isinstance(result, Tensor)
        and result.dtype == source.dtype
        and result.device == source.device
        and result.dim() == source.dim()
        and all(map(is_certainly_equal, result.shape, source.shape))
        and all(map(is_certainly_equal, result.stride(), source.stride()))
        and result.is_conj() == source.is_conj()
        and result.is_neg() == source.is_neg()
    )
