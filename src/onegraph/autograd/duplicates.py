"""Compute equal expressions once (common subexpression elimination).

    a = sin(x)          a = sin(x)
    b = sin(x)    ->    c = a + a
    c = a + b

Random draws differ each time. Numbers that are taken out of tensors, and sizes that only the data say, stay apart: each
is known by its own name. Two
results of the graph stay two, for the caller may write to one of them.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import torch
from torch.fx import GraphModule, Node

from onegraph.autograd.results import owners
from onegraph.base.context import Context
from onegraph.torchlib.aten import has_effect
from onegraph.torchlib.data_sizes import BORN


def merge_duplicates(module: GraphModule, cx: Context) -> GraphModule:
    seen: dict[Hashable, Node] = {}
    returned = owners(module.graph)
    for node in list(module.graph.nodes):
        if node.op not in ("call_function", "get_attr") or node in returned or has_effect(node.target):
            continue
        if node.target is torch.ops.aten._local_scalar_dense.default or BORN in node.meta:
            continue
        key = (node.target, fingerprint(node.args), fingerprint(node.kwargs))
        first = seen.setdefault(key, node)
        if first is not node:
            node.replace_all_uses_with(first)
            module.graph.erase_node(node)
    return module


def fingerprint(value: Any) -> Hashable:
    """Equal for arguments that mean the same: 1, 1.0 and True differ, as 0.0 and -0.0 do."""
    if isinstance(value, (list, tuple)):
        return tuple([fingerprint(item) for item in value])
    if isinstance(value, dict):
        return tuple([(name, fingerprint(item)) for name, item in value.items()])
    if isinstance(value, slice):
        return ("slice", fingerprint((value.start, value.stop, value.step)))
    if isinstance(value, (float, complex)):
        return (type(value), repr(value))
    return (type(value), value)
