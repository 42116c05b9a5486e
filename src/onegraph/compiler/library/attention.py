"""Attention of a single query, as a step of generation has it: as sums, instead of torch's kernel for many queries.

_scaled_dot_product_flash_attention_for_cpu(q, k, v, attn_mask=m)

    scores = sum(q * k, 3) * scale + m           (batch, head, key)
    weights = exp(scores - amax(scores, 2))
    sum(weights * v, 2) / sum(weights, 2)        (batch, head, element)

Its time is that of reading the keys and values once, which kernels of ours do as fast as the memory allows. torch's
kernel multiplies blocks of queries, of which a single one fills a small part. As there, what is computed in between is
float32, and a query whose keys are all masked gets zeros. A query that is NaN gives NaN; torch gives zeros for it where
there is no mask and fewer keys than a vector holds, which depends on the processor.
"""

from __future__ import annotations

import operator
from math import inf, sqrt
from typing import Any

import torch
from torch import Tensor
from torch.fx import Graph, Node

from onegraph.compiler.library.facts import is_ordinary
from onegraph.compiler.library.linear import DTYPES
from onegraph.compiler.library.nodes import as_type, call
from onegraph.torchlib.strides import is_certainly_equal

aten = torch.ops.aten

ATTENTION = aten._scaled_dot_product_flash_attention_for_cpu.default


def choose_attention(graph: Graph) -> None:
    """Rewrite the attention of single queries whose other result, the logarithms of the sums, nobody reads."""
    for node in list(graph.nodes):
        if node.target is not ATTENTION or not _fits(node):
            continue
        (result,) = node.users
        with graph.inserting_before(node), result.meta["val"].fake_mode:
            new = _as_sums(graph, node, result.meta["val"].stride())
        new.meta.update(result.meta)
        result.replace_all_uses_with(new)
        graph.erase_node(result)
        graph.erase_node(node)


def _fits(node: Node) -> bool:
    *given, dropout, is_causal = _arguments(node)
    if dropout or is_causal or [(user.target, user.args[1]) for user in node.users] != [(operator.getitem, 0)]:
        return False
    queries, keys, values = (source.meta["val"] for source in given)
    if not all(is_ordinary(value, (queries.dtype,)) and queries.dtype in DTYPES for value in (queries, keys, values)):
        return False
    _, heads, rows, width = queries.shape
    if not _is_one(rows) or type(width) is not int or not is_certainly_equal(values.shape[3], width):
        return False
    if not all(is_certainly_equal(value.shape[1], heads) for value in (keys, values)):
        return False
    (result,) = node.users
    step = result.meta["val"].stride()
    if not all(map(is_certainly_equal, (step[0], step[1], step[3]), (heads * width, width, 1))):
        return False
    if not is_certainly_equal(step[2], width) and not is_certainly_equal(step[2], heads * width):
        return False
    mask = node.kwargs.get("attn_mask")
    return mask is None or _is_for_one_query(mask.meta["val"])  # type: ignore[union-attr]


def _is_one(size: int | torch.SymInt) -> bool:
    return type(size) is int and size == 1


def _arguments(node: Node) -> tuple[Any, ...]:
    """Queries, keys, values, dropout, whether it is causal."""
    given = (*node.args, *(0.0, False)[len(node.args) - 3 :])
    return (*given[:3], node.kwargs.get("dropout_p", given[3]), node.kwargs.get("is_causal", given[4]))


def _is_for_one_query(mask: Tensor) -> bool:
    return is_ordinary(mask, DTYPES) and mask.dim() in (2, 4) and _is_one(mask.shape[-2])


def _as_sums(graph: Graph, node: Node, step: tuple[int | torch.SymInt, ...]) -> Node:
    """The result has the strides that torch gives it, also along the axis of the one query."""
    dtype = node.args[0].meta["val"].dtype  # type: ignore[union-attr]
    q, k, v = (as_type(graph, source, torch.float32) for source in node.args[:3])  # type: ignore[arg-type]
    weights = _weights(graph, node, call(graph, aten.sum.dim_IntList, call(graph, aten.mul.Tensor, q, k), [3]))
    total = _where_equal(graph, call(graph, aten.sum.dim_IntList, weights, [2], True), 0.0, 1.0)
    parts = call(graph, aten.mul.Tensor, call(graph, aten.unsqueeze.default, weights, 3), v)
    found = call(graph, aten.div.Tensor, call(graph, aten.sum.dim_IntList, parts, [2]), total)
    found = as_type(graph, found, dtype)
    if is_certainly_equal(step[2], node.args[0].meta["val"].shape[3]):  # type: ignore[union-attr]
        return call(graph, aten.unsqueeze.default, found, 2)
    return call(graph, aten.transpose.int, call(graph, aten.unsqueeze.default, found, 1), 1, 2)


def _weights(graph: Graph, node: Node, products: Node) -> Node:
    """The exponentials of the scores, which are not yet divided by their sum."""
    scale = node.kwargs.get("scale")
    if scale is None:
        scale = 1 / sqrt(node.args[0].meta["val"].shape[3])  # type: ignore[union-attr]
    scores = call(graph, aten.mul.Tensor, products, scale)
    mask = node.kwargs.get("attn_mask")
    if isinstance(mask, Node):
        if mask.meta["val"].dim() == 4:
            mask = call(graph, aten.select.int, mask, 2, 0)
        scores = call(graph, aten.add.Tensor, scores, as_type(graph, mask, torch.float32))
    highest = _where_equal(graph, call(graph, aten.amax.default, scores, [2], True), -inf, 0.0)
    return call(graph, aten.exp.default, call(graph, aten.sub.Tensor, scores, highest))


def _where_equal(graph: Graph, node: Node, value: float, other: float) -> Node:
    """Another number where it is this one: there every key is masked."""
    is_masked = call(graph, aten.eq.Scalar, node, value)
    return call(graph, aten.where.ScalarSelf, is_masked, other, node)
