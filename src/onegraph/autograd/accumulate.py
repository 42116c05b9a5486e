"""Add the gradient of a table's rows to what is there, in the place of a table of zeros that is added as a whole.

    z = embedding_dense_backward(g, rows, 50257, -1, False)
    s = mm + z                                                ->    s = index_put(mm, [rows], g, accumulate=True)

A table that is tied to the last layer has a gradient that reaches all of its rows, and another one of a few.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.fx import GraphModule, Node

from onegraph.base.context import Context

aten = torch.ops.aten


def accumulate_rows(module: GraphModule, cx: Context) -> GraphModule:
    for node in module.graph.nodes:
        if node.target is not aten.add.Tensor or node.kwargs or not all(isinstance(arg, Node) for arg in node.args):
            continue
        a, b = node.args
        rows, other = (b, a) if is_rows(b) else (a, b)
        if is_rows(rows) and alike(other.meta["val"], node.meta["val"]):
            gradient, indices = rows.args[:2]
            node.target, node.args = aten.index_put.default, (other, [indices], gradient, True)
    return module


def is_rows(node: Node) -> bool:
    """Is it the gradient of a table, of which no row is left out, and used here alone?"""
    if node.target is not aten.embedding_dense_backward.default or len(node.users) != 1:
        return False
    _, _, _, padding, by_frequency = node.args
    return isinstance(padding, int) and padding < 0 and not by_frequency


def alike(a: Tensor, b: Tensor) -> bool:
    return a.shape == b.shape and a.stride() == b.stride() and a.dtype is b.dtype
