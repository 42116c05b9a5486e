"""Numbers that the program takes out of tensors (`.item()`): symbols whose values the graph computes.

    n = x.sum().item()     --trace-->   a node `item`, and a symbol of which nothing is known
    return y * n, n + 1    --trace-->   y * item in the graph;  o1_ + 1 in the residual code

They are computed with, and given to operators. Whatever needs their digits (a branch, a size, a text) breaks the graph.
"""

from __future__ import annotations

from typing import Any

import torch

from onegraph.capture.breaks import TENSOR_ITEM, GraphBreak
from onegraph.torchlib.shapes import Sizes


class Scalars:
    """The numbers of one trace that come out of tensors: symbol or expression -> the node that computes it."""

    def __init__(self, sizes: Sizes) -> None:
        self.sizes = sizes
        self.nodes: dict[Any, torch.fx.Node] = {}
        sizes.refuse = refuse

    def of(self, recorder: Any, tensor: torch.Tensor, trusted: bool) -> Any:
        """The number in a tensor of one element; None where it is neither an integer nor a floating-point number.

        That of code which is known is `trusted`: it divides by no zero.
        """
        name = f"u{len(self.nodes)}"
        if tensor.dtype.is_floating_point:
            number: Any = self.sizes.new_unknown_float(name, trusted)
            key = number.node.value
        elif not tensor.dtype.is_complex and tensor.dtype is not torch.bool:
            number = self.sizes.new_unknown(name)
            key = number.node.index.symbol
        else:
            return None
        node = recorder.graph.call_method("item", (recorder.nodes[id(tensor)],))
        node.meta["example_value"] = number
        self.nodes[key] = node
        return number


def refuse() -> Any:
    raise GraphBreak(TENSOR_ITEM)
