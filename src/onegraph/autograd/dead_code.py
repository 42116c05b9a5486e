"""Remove what nobody reads.

    mul = x * 2          (unused)
    add = x + 1    ->    add = x + 1
    return add           return add

Draws from the random number generator stay, used or not: later draws depend on them. So do assertions and whatever a
library other than torch has defined.
"""

from __future__ import annotations

from torch.fx import GraphModule

from onegraph.base.context import Context
from onegraph.torchlib.aten import has_effect


def remove_dead_code(module: GraphModule, cx: Context) -> GraphModule:
    for node in reversed(module.graph.nodes):
        if not node.users and node.op in ("call_function", "get_attr") and not has_effect(node.target):
            module.graph.erase_node(node)
    return module
