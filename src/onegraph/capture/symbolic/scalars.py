"""Numbers that come out of tensors (`.item()`), and sizes that only the data say (`x[mask]`): symbols of the graph.

    n = x.sum().item()     --trace-->   a node `item`, and a symbol
    return y, n + 1        --trace-->   the tensor as an output of the graph;  o1_.item() + 1 in the residual code
    y = x[x > 0]           --trace-->   the node of `y`, a node that is its size, and a symbol
    z = torch.zeros(n)     --trace-->   a check that `n` is a size, right behind it

Integers and sizes may be given to operators. What these ask of them is checked in the graph (see `data_sizes`); where a
check fails, the call runs as it was written. Floating-point numbers leave the graph, computed with or not: where an
operator takes one, the graph ends before the number is taken, unless the program has asked for such graphs. Whatever
needs their digits (a branch, a text) ends the graph before they are there.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import replace
from functools import partial
from typing import Any, NoReturn

import torch

from onegraph.base.dataclass import dataclass
from onegraph.capture.breaks import DRAWN_NUMBER, TENSOR_ITEM, GraphBreak
from onegraph.capture.breaks.operator_reasons import refused_after
from onegraph.capture.guards.source import Source
from onegraph.ir.index import ZERO, Index, Symbol
from onegraph.torchlib.data_sizes import BORN, is_expected
from onegraph.torchlib.fake import DynamicOutputShapeException
from onegraph.torchlib.private import DisableTorchFunction
from onegraph.torchlib.shapes import Computed, Condition, Sizes

Step = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Taken:
    """A number taken out of a tensor, or one of its sizes, at a step of the trace, behind so many writes to any tensor.

    `stays`: whether the program has asked for graphs that compute with it. `is_checkable`: whether the graph can be
    undone up to here. `broken` makes the break of a graph that ends before the number is there. `drawn` is where a
    number is found that residual code draws.
    """

    tensor: torch.Tensor
    writes: int
    step: Step | None
    stays: bool
    is_checkable: bool
    broken: Callable[[], GraphBreak]
    drawn: Source | None = None


class Scalars:
    """The numbers of one trace that come out of tensors: symbol or expression -> the node that computes it."""

    def __init__(self, sizes: Sizes) -> None:
        self.sizes = sizes
        self.nodes: dict[Any, torch.fx.Node] = {}
        self._taken: dict[torch.fx.Node, Taken] = {}
        self._texts: dict[torch.fx.Node, str] = {}
        #: Whether the graph can be undone if it fails now.
        self.can_check: Callable[[], bool] = lambda: False
        sizes.refuse = self.refuse
        sizes.data.is_checkable = self.are_checkable

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
        node.meta[BORN] = (key,) if isinstance(key, Symbol) else ()
        self.nodes[key] = node
        self._take(recorder, node, tensor, stays, partial(GraphBreak, TENSOR_ITEM))
        return number

    def drawn(self, recorder: Any, tensor: torch.Tensor, source: Source) -> torch.SymInt:
        """The integer in a tensor that residual code makes of a random number."""
        number: torch.SymInt = self.of(recorder, tensor, True, True)
        node = self.nodes[number.node.index.symbol]
        self._taken[node] = replace(self._taken[node], broken=partial(GraphBreak, DRAWN_NUMBER), drawn=source)
        return number

    def _take(
        self, recorder: Any, node: torch.fx.Node, tensor: torch.Tensor, stays: bool, broken: Callable[[], GraphBreak]
    ) -> None:
        self._taken[node] = Taken(tensor, recorder.writes, recorder.copied.step(), stays, self.can_check(), broken)

    def sizes_made(self, recorder: Any, func: Any, args: Any, result: Any) -> None:
        """Give the sizes that an operator has made of data their nodes: each is a size of a result.

        Raises:
            GraphBreak: one is none.
        """
        broken = partial(refused_after, func, args, DynamicOutputShapeException(func))
        births, self.sizes.data.newborn = self.sizes.data.newborn, []
        several = isinstance(result, tuple | list)
        results = [each for each in (result if several else (result,)) if isinstance(each, torch.Tensor)]
        places = {size_symbol(size): (each, dim) for each in results[::-1] for dim, size in enumerate(each.shape)}
        if not all(birth.symbol in places for birth in births):
            raise broken()
        for birth in births:
            tensor, dim = places[birth.symbol]
            node = recorder.graph.call_function(torch.ops.aten.sym_size.int, (recorder.nodes[id(tensor)], dim))
            node.meta["example_value"] = tensor.shape[dim]
            self.nodes[birth.symbol] = node
            self._take(recorder, node, tensor, True, broken)
        made = recorder.nodes[id(results[0])]
        (made.args[0] if several else made).meta[BORN] = tuple([birth.symbol for birth in births])

    def are_checkable(self, symbols: frozenset[Symbol]) -> bool:
        """Whether the graph can check what is asked of these: an operator asks even of those that it makes."""
        nodes = [self.nodes[symbol] for symbol in symbols if symbol in self.nodes]
        return all(self._taken[node].is_checkable for node in nodes)

    def argument(self, key: Any) -> torch.fx.Node:
        """The node of a number that an operator of the graph takes: an integer is a size from here on.

        Raises:
            GraphBreak: it is one that only leaves the graph.
        """
        node = self.nodes[key]
        if isinstance(key, Symbol):
            self.sizes.data.admit(self.sizes, Condition("<=", ZERO, Index.of(key)))
        elif not self._taken[node].stays:
            raise self._break(node)
        return node

    def check(self, recorder: Any, node_of: Callable[[Any, Any], Any]) -> bool:
        """Have the graph check what was asked of sizes that only the data say; whether there are any of these.

        Each check stands right behind the last number that it looks at, before anything relies on it.
        """
        order = {node: place for place, node in enumerate(recorder.graph.nodes)}
        checks = self.sizes.checks
        for condition in checks:
            symbols = (condition.left.symbols | condition.right.symbols) & self.nodes.keys()
            last = max((self.nodes[symbol] for symbol in symbols), key=order.__getitem__)
            with recorder.graph.inserting_after(last), recorder.numbers_anew():
                marker = recorder.graph.call_function(is_expected, ())
            with recorder.graph.inserting_before(marker), recorder.numbers_anew():
                sides = node_of(recorder, condition.left), node_of(recorder, condition.right)
            marker.args = (*sides, condition.op)
        self.sizes.data.close()
        return bool(self.sizes.data.symbols)

    def refuse(self, value: Any) -> NoReturn:
        """Break the graph where the digits of a number are asked for."""
        raise self._break(next(self._numbers_in(value), None))

    def _break(self, node: torch.fx.Node | None) -> GraphBreak:
        """The graph ends before a number is taken that only leaves it, as if the program had asked for it there."""
        if node is None:
            return GraphBreak(TENSOR_ITEM)
        taken = self._taken[node]
        broken = taken.broken()
        if not taken.stays or taken.tensor.dim():
            broken.born = taken.step
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
        if taken.drawn is not None:
            return str(rebuild.source(taken.drawn))
        if taken.stays or node.users:
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

    def erase_unused(self, recorder: Any, outputs: Collection[torch.fx.Node]) -> None:
        """Take the nodes of numbers that have left the graph out of it, but for its outputs."""
        for node in self._taken:
            if not node.users and node not in outputs:
                recorder.graph.erase_node(node)


def size_symbol(size: int | torch.SymInt) -> Symbol | None:
    """The symbol that a size is, if it is nothing but one."""
    return size.node.index.symbol if isinstance(size, torch.SymInt) else None
