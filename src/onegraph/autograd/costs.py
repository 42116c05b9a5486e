"""What it costs to keep a value for the backward pass, and what to compute it again."""

from __future__ import annotations

import math
import operator
from typing import Any

import torch
from torch import Tensor
from torch.fx import Graph, Node

from onegraph.autograd.joint import IS_FORWARD
from onegraph.autograd.results import owner_of
from onegraph.torchlib.aten import OpOverload, has_effect, is_random, may_view
from onegraph.torchlib.graph import CHECKPOINT

aten = torch.ops.aten

#: What is computed again although its operator is not marked as pointwise: it moves or makes elements, no more.
CHEAP = frozenset(
    {
        aten._local_scalar_dense.default,
        aten._to_copy.default,
        aten.arange.start_step,
        aten.clone.default,
        aten.copy.default,
        aten.empty.memory_format,
        aten.full.default,
        aten.full_like.default,
        aten.new_empty_strided.default,
        aten.new_zeros.default,
        aten.ones_like.default,
        aten.reshape.default,
        aten.scalar_tensor.default,
        aten.zeros_like.default,
        aten.zeros.default,
        operator.getitem,
    }
)

PRODUCTS = frozenset({aten.mm.default, aten.addmm.default, aten.bmm.default, aten.baddbmm.default})


def is_cheap(node: Node) -> bool:
    """May it be computed again?"""
    target: Any = node.target
    if has_effect(target):
        return False
    if target in CHEAP or may_view(target) or not isinstance(target, OpOverload):
        return True
    return torch.Tag.pointwise in target.tags


def can_repeat(node: Node) -> bool:
    """May it be computed again, whatever it costs?"""
    return node.op == "call_function" and not has_effect(node.target)


def is_checkpointed(node: Node) -> bool:
    """Is it to be computed again because the program says so?"""
    return CHECKPOINT in node.meta and can_repeat(node) and not is_random(node.target)


#: In the `meta` of nodes in a selective checkpoint: whether they are kept all the same.
KEPT = "kept"


def ask_checkpoints(graph: Graph) -> None:
    """Ask selective checkpoints what they keep of a joint graph, in the order of its nodes."""
    for node in graph.nodes:
        checkpoint = node.meta.get(CHECKPOINT)
        if checkpoint is not None and checkpoint.keeps is not None and isinstance(node.target, OpOverload):
            args, kwargs = torch.fx.map_arg((node.args, node.kwargs), lambda argument: argument.meta.get("val"))
            node.meta[KEPT] = IS_FORWARD in node.meta and checkpoint.keeps(node.target, args, kwargs)


def is_end_of_checkpoint(node: Node) -> bool:
    """Does what is behind a checkpoint use it, or is it kept for the checkpoint's own sake?"""
    own = node.meta[CHECKPOINT]
    behind = (user for user in node.users if IS_FORWARD in user.meta and user.meta.get(CHECKPOINT) is not own)
    return node.meta.get(KEPT, False) or next(behind, None) is not None


def work_per_byte(node: Node) -> float:
    """What it costs to compute a value again, for each byte of it: multiplications, or elements that are looked at."""
    parts = [user for user in node.users if user.target is operator.getitem] or [node]
    sources: list[Any] = [source.meta.get("val") for source in node.all_input_nodes]
    work = sum(bytes_of(source) for source in node.all_input_nodes)
    if node.target in PRODUCTS:
        work = bytes_of(node) * hint_of(sources[-2].shape[-1])
    elif node.target is aten.convolution.default:
        work = bytes_of(node) * bytes_of(node.all_input_nodes[1]) // hint_of(sources[1].shape[0])
    return work / max(1, sum(map(bytes_of, parts)))


def is_work(node: Node) -> bool:
    """Does it compute elements?"""
    target: Any = node.target
    return node.op == "call_function" and target is not operator.getitem and not may_view(target)


def cost_of(node: Node) -> int | None:
    """What it costs to keep a value, None if it cannot be: several in one, or a view of what is kept instead."""
    value = node.meta.get("val")
    if node.op == "get_attr":
        return None
    if isinstance(value, torch.SymInt):  # expressions are computed again: the sizes in them are known by name
        return NUMBER if value.node.index.symbol is not None else None
    if not isinstance(value, Tensor) or owner_of(node)[0] is not node and node.target is not operator.getitem:
        return None
    if node.target is operator.getitem and may_view(node.all_input_nodes[0].target):
        return None
    return bytes_of(node)


NUMBER = 8


def bytes_of(node: Node) -> int:
    value = node.meta.get("val")
    if not isinstance(value, Tensor):
        return NUMBER
    return math.prod(map(hint_of, value.shape)) * value.dtype.itemsize


def hint_of(size: int | torch.SymInt) -> int:
    return int(size.node.hint) if isinstance(size, torch.SymInt) else size
