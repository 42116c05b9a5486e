"""Numbers that the program takes out of tensors (`.item()`): symbols of which nothing is known.

    n = x.sum().item()     --trace-->   a node `item`, and a symbol
    return y, n + 1        --trace-->   the tensor as an output of the graph;  o1_.item() + 1 in the residual code

They leave the graph, computed with or not. Where an operator takes one, the graph ends before the number is taken,
unless the program has asked for such graphs. Whatever needs their digits (a branch, a size, a text) breaks the graph.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NoReturn

import torch

from onegraph.capture.breaks import TENSOR_ITEM, GraphBreak
from onegraph.ir.index import Index
from onegraph.torchlib.private import DisableTorchFunction
from onegraph.torchlib.shapes import Computed, Condition, Sizes

Step = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Taken:
    """A number taken out of a tensor at a step of the trace, behind so many writes to any tensor.

    `stays`: whether the graph may compute with it.
    """

    tensor: torch.Tensor
    writes: int
    step: Step | None
    stays: bool


class Scalars:
    """The numbers of one trace that come out of tensors: symbol or expression -> the node that computes it."""

    def __init__(self, sizes: Sizes) -> None:
        self.sizes = sizes
        self.nodes: dict[Any, torch.fx.Node] = {}
        self._taken: dict[torch.fx.Node, Taken] = {}
        self._texts: dict[torch.fx.Node, str] = {}
        sizes.refuse = self.refuse

    def of(self, recorder: Any, tensor: torch.Tensor, trusted: bool, stays: bool) -> Any:
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
        self._taken[node] = Taken(tensor, recorder.writes, recorder.copied.step(), stays)
        return number

    def argument(self, key: Any) -> torch.fx.Node:
        """The node of a number that an operator of the graph takes.

        Raises:
            GraphBreak: it is one that only leaves the graph.
        """
        node = self.nodes[key]
        if not self._taken[node].stays:
            raise self._break(node)
        return node

    def refuse(self, value: Any) -> NoReturn:
        """Break the graph where the digits of a number are asked for."""
        raise self._break(next(self._numbers_in(value), None))

    def _break(self, node: torch.fx.Node | None) -> GraphBreak:
        """The graph ends before a number is taken that only leaves it, as if the program had asked for it there."""
        broken = GraphBreak(TENSOR_ITEM)
        if node is not None and not self._taken[node].stays:
            broken.born = self._taken[node].step
        return broken

    def _numbers_in(self, value: Any) -> Iterator[torch.fx.Node]:
        match value:
            case Index():
                yield from (self.nodes[symbol] for symbol in value.symbols if symbol in self.nodes)
            case Condition(_, left, right):
                yield from self._numbers_in((left, right))
            case Computed() if value in self.nodes:
                yield self.nodes[value]
            case Computed(_, args) | tuple(args):
                for arg in args:
                    yield from self._numbers_in(arg)

    def text(self, rebuild: Any, key: Any) -> str:
        """The expression of a number in the residual code, behind the graph."""
        node = self.nodes[key]
        taken = self._taken[node]
        if taken.stays:
            return str(rebuild.number(node))
        if node not in self._texts:
            self._texts[node] = rebuild.assign(f"{self._holder(rebuild, node, taken)}.item()")
        return self._texts[node]

    def _holder(self, rebuild: Any, node: torch.fx.Node, taken: Taken) -> str:
        """What holds the number: the tensor, or a copy if anything was written to since, which may share its memory."""
        recorder = rebuild.recorder
        with DisableTorchFunction():
            is_written = recorder.writes != taken.writes
            if not is_written and (not taken.tensor.requires_grad or recorder.is_input(taken.tensor)):
                return str(rebuild.value(taken.tensor))
            copied = taken.tensor.detach().clone() if is_written else taken.tensor.detach()
        with recorder.graph.inserting_after(node):
            held = recorder.graph.call_method("detach", node.args)
        if is_written:
            with recorder.graph.inserting_after(held):
                held = recorder.graph.call_method("clone", (held,))
        held.meta["example_value"] = copied
        return str(rebuild.number(held))

    def erase_unused(self, recorder: Any) -> None:
        """Take the nodes of numbers that have left the graph out of it."""
        for node, taken in self._taken.items():
            if not taken.stays and not node.users:
                recorder.graph.erase_node(node)
