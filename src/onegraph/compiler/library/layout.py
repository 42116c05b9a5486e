"""The order of elements in memory, through a whole graph: not always the one that eager would choose.

What convolutions give with channels last, element-wise operators keep. Where eager keeps the order of a transposed
operand, and another operand has rows in order, the result gets rows in order: what stands behind it mostly wants that.
Operators that are not compiled, and results of the graph, get the order that they would have had, by a copy; compiled
ones and views find elements by their indices and need nothing.
"""

from __future__ import annotations

import operator
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor
from torch.fx import Graph, Node

from onegraph.compiler.library.facts import present_shape, strides_of
from onegraph.compiler.lower.arguments import index_of, tensor_type
from onegraph.compiler.lower.registry import LOWERINGS, POINTWISE
from onegraph.ir.index import ONE
from onegraph.ir.types import contiguous_strides
from onegraph.torchlib.aten import OpOverload, may_view

aten = torch.ops.aten

#: Views that are known by their indices, in whatever order the elements stand in memory.
_VIEWS = frozenset(
    {
        aten.view.default,
        aten._unsafe_view.default,
        aten.permute.default,
        aten.transpose.int,
        aten.unsqueeze.default,
        aten.squeeze.dim,
        aten.squeeze.dims,
        aten.select.int,
        aten.slice.Tensor,
        aten.unfold.default,
        aten.expand.default,
        aten.split_with_sizes.default,
    }
)
_COPIES = frozenset({aten.clone.default, aten._to_copy.default, aten.empty_like.default})
_NORMS = frozenset({aten.native_batch_norm.default, aten._native_batch_norm_legit_no_training.default})


def channels_last(value: Tensor) -> Tensor:
    """A fake of the same sizes with the channels last."""
    with value.fake_mode:  # type: ignore[attr-defined]
        return value.new_empty_strided(value.shape, _channels_last_strides(value))


def _channels_last_strides(value: Tensor) -> tuple[int, ...]:
    _, c, h, w = value.shape
    return c * h * w, 1, w * c, c


def is_channels_last(value: Any) -> bool:
    """Whether the image stands in memory in that order."""
    if not isinstance(value, Tensor) or value.dim() != 4 or present_shape(value) is None:
        return False
    return strides_of(value) == tuple(map(index_of, _channels_last_strides(value)))


def with_channels_last(graph: Graph, node: Node) -> Node:
    """The node itself, or its copy in that order: one for all who want it."""
    value = node.meta["val"]
    if is_channels_last(value):
        return node
    copies = (user for user in node.users if user.target is aten.clone.default and is_channels_last(user.meta["val"]))
    found = next(copies, None)
    if found is not None:
        return found
    last = node
    while last.next.op == "placeholder":
        last = last.next
    with graph.inserting_after(last):
        return _copied(graph, node, channels_last(value))


def _copied(graph: Graph, node: Node, value: Tensor) -> Node:
    copy = graph.call_function(aten.clone.default, (node,))
    copy.meta.update(node.meta)
    copy.meta["val"] = value
    return copy


def spread(graph: Graph, before: Mapping[Node, Any]) -> None:
    """Choose the order of what is compiled. `before` has each node's value as eager would make it."""
    changed: dict[Node, Tensor] = {}  # nodes in another order, with the value that they would have had
    for node in list(graph.nodes):
        touched = [source for source in node.all_input_nodes if source in changed]
        if touched and node not in before and node.target is aten.clone.default and is_channels_last(node.meta["val"]):
            node.replace_all_uses_with(touched[0])
            graph.erase_node(node)
            continue
        if _keeps_order(node) and (touched or _is_transposed(node)):
            node.meta["val"] = _reordered(node)
        elif touched and not _takes_any_order(node):
            with graph.inserting_before(node):
                for source in touched:
                    node.replace_input_with(source, _copied(graph, source, changed[source]))
        elif node.target is operator.getitem and _source(node).target in _NORMS:
            node.meta["val"] = _source(node).meta["val"][node.args[1]]
        known, value = before.get(node), node.meta.get("val")
        if isinstance(known, Tensor) and isinstance(value, Tensor) and strides_of(known) != strides_of(value):
            changed[node] = known


def _source(node: Node) -> Node:
    return node.all_input_nodes[0]


def _reordered(node: Node) -> Any:
    """The value of a compiled node one of whose images has its channels last."""
    value = node.meta["val"]
    if node.target in _VIEWS:
        return value
    if node.target in _NORMS:
        return (channels_last(value[0]), *value[1:])
    if not isinstance(value, Tensor) or present_shape(value) is None:
        return value
    operands = [item for source in node.all_input_nodes if isinstance(item := source.meta["val"], Tensor)]
    if value.dim() == 4 and any(is_channels_last(item) for item in operands):
        return channels_last(value)
    rows = [
        item for item in operands if item.dim() > 1 and tensor_type(item).shape[-2:] == tensor_type(value).shape[-2:]
    ]
    if node.target in POINTWISE and any(map(_in_order, rows)):
        with value.fake_mode:  # type: ignore[attr-defined]
            return value.new_empty(value.shape)
    return value


def _in_order(value: Tensor) -> bool:
    """Whether the elements stand in memory as they are counted."""
    shape = tensor_type(value).shape
    steps = zip(shape, strides_of(value), contiguous_strides(shape), strict=True)
    return all(size == ONE or step == expected for size, step, expected in steps)


def _is_transposed(node: Node) -> bool:
    """Whether an operator that works element by element gives its result in another order than rows."""
    value = node.meta.get("val")
    if node.target not in POINTWISE or not isinstance(value, Tensor) or present_shape(value) is None:
        return False
    return not _in_order(value) and not is_channels_last(value)


def _keeps_order(node: Node) -> bool:
    """Whether it is compiled to loops, which find elements by their indices."""
    target = node.target
    return target in LOWERINGS and target not in _COPIES and (target in _VIEWS or not may_view(target))


def _takes_any_order(node: Node) -> bool:
    """Whether it gives the same for its arguments in any order."""
    if node.target is aten.convolution.default:
        return is_channels_last(node.meta["val"])
    if node.target in _COPIES or node.target is aten.sym_size.int:
        return True
    return isinstance(node.target, OpOverload) and node.target.namespace == "mkldnn"
