"""Attention in kernels of ours, instead of torch's.

A single query, as a step of generation has it, is computed as sums:

_scaled_dot_product_flash_attention_for_cpu(q, k, v, attn_mask=m)

    scores = sum(q * k, 3) * scale + m           (batch, head, key)
    weights = exp(scores - amax(scores, 2))
    sum(weights * v, 2) / sum(weights, 2)        (batch, head, element)

Its time is that of reading the keys and values once, which kernels of ours do as fast as the memory allows. torch's
kernel multiplies blocks of queries, of which a single one fills a small part.

Many queries become one kernel (`lower.attention`) where that is measured to be faster:

    scaled_dot_product_attention(q, k, v, m)

As in torch's kernel, what is computed in between is float32, and a query whose keys are all masked gets zeros. A query
that is NaN gives NaN; torch gives zeros for it where there is no mask and fewer keys than a vector holds, which depends
on the processor.
"""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from functools import partial
from math import inf, sqrt
from typing import Any

import torch
from torch import Tensor
from torch.fx import Graph, GraphModule, Node

from onegraph.base.config import Config
from onegraph.compiler.library.facts import is_ordinary, is_static, present_shape
from onegraph.compiler.library.linear import DTYPES
from onegraph.compiler.library.measure import Runs, fastest, times
from onegraph.compiler.library.nodes import as_type, call
from onegraph.compiler.library.widened import ATTENTION
from onegraph.compiler.target import Compile
from onegraph.torchlib.graph import LazyGraphModule
from onegraph.torchlib.strides import is_certainly_equal

aten = torch.ops.aten


OURS = aten.scaled_dot_product_attention.default

FEWEST = 16  # queries, which fill half of the lanes
WIDEST = 256  # elements of a query, so that a block of them stays on the stack
LEAST, MOST = 1 << 24, 1 << 28  # operations: fewer are not worth a kernel, more are not timed
TIMED_ROWS, TIMED_KEYS, TIMED_HEADS = 128, 1024, 2  # instead of those; heads for each thread


def choose_attention(graph: Graph, config: Config, compiled: Compile) -> None:
    """Rewrite attention whose other result, the logarithms of the sums, nobody reads.

    `compiled` makes what is timed of graphs that become kernels of ours.
    """
    for node in list(graph.nodes):
        if node.target is not ATTENTION or not _is_alone(node):
            continue
        (result,) = node.users
        with graph.inserting_before(node), result.meta["val"].fake_mode:
            if _fits(node):
                new = _as_sums(graph, node, result.meta["val"].stride())
            elif _may_be_ours(node) and _is_faster_ours(node, config, compiled):
                *given, _, causal = _arguments(node)
                mask, scale = node.kwargs.get("attn_mask"), node.kwargs.get("scale")
                new = graph.call_function(OURS, (*given, mask, 0.0, causal), {"scale": scale})
            else:
                continue
        new.meta.update(result.meta)
        result.replace_all_uses_with(new)
        graph.erase_node(result)
        graph.erase_node(node)


def _is_alone(node: Node) -> bool:
    """Whether nothing is dropped, and only the result is read."""
    *_, dropout, _ = _arguments(node)
    return not dropout and [(user.target, user.args[1]) for user in node.users] == [(operator.getitem, 0)]


def _fits(node: Node) -> bool:
    *given, _, is_causal = _arguments(node)
    if is_causal:
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


def _may_be_ours(node: Node) -> bool:
    """Whether it may be one kernel of many queries."""
    *given, _, causal = _arguments(node)
    scale = node.kwargs.get("scale")
    if causal and scale is not None and scale <= 0:  # type: ignore[operator]
        return False  # torch masks before it scales: every weight is NaN
    queries, keys, values = (source.meta["val"] for source in given)
    if not all(is_ordinary(value, (torch.float32,)) for value in (queries, keys, values)):
        return False
    if not all(present_shape(value) for value in (queries, keys, values)) or present_shape(queries)[2] < FEWEST:  # type: ignore[index]
        return False
    width, heads = queries.shape[3], queries.shape[1]
    if not all(type(size) is int and size <= WIDEST for size in (width, values.shape[3])):
        return False
    if not all(is_certainly_equal(value.shape[1], heads) for value in (keys, values)):
        return False
    mask = node.kwargs.get("attn_mask")
    return mask is None or is_ordinary(mask.meta["val"], (torch.float32, torch.bool))  # type: ignore[union-attr]


def _is_faster_ours(node: Node, config: Config, compiled: Compile) -> bool:
    if config.library_calls != "measured":
        return config.library_calls == "tiles"
    *given, _, causal = _arguments(node)
    mask = node.kwargs.get("attn_mask")
    values = [source.meta["val"] for source in (*given, mask) if isinstance(source, Node)]
    batch, heads, rows, width = present_shape(values[0])  # type: ignore[misc]
    work = 4 * batch * heads * rows * present_shape(values[1])[2] * width  # type: ignore[index]
    if work < LEAST or any(present_shape(value) is None for value in values):
        return False
    forms = [_form(value, number, work) for number, value in enumerate(values)]
    what = f"attention {forms} {[value.dtype for value in values]} causal {causal}"
    candidates = partial(_candidates, forms, values, causal, compiled)
    return fastest(times(what, ("aten", "tiles"), candidates, config)) == "tiles"


def _form(value: Tensor, number: int, work: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The shape and strides in which an argument is timed: its own, unless the sizes change or a run would be long."""
    if work <= MOST and is_static(value):
        return tuple(value.shape), value.stride()
    most = (1, TIMED_HEADS * torch.get_num_threads(), TIMED_ROWS, TIMED_KEYS)
    if number in (1, 2):
        most = (*most[:2], TIMED_KEYS, WIDEST)
    sizes = present_shape(value)
    assert sizes is not None
    shape = tuple(min(pair) for pair in zip(sizes, most[4 - len(sizes) :], strict=True))
    return shape, torch.empty(shape, device="meta").stride()


def _candidates(
    forms: Sequence[tuple[tuple[int, ...], tuple[int, ...]]], values: Sequence[Tensor], causal: bool, compiled: Compile
) -> Mapping[str, Runs]:
    tensors = []
    for (shape, strides), value in zip(forms, values, strict=True):
        reach = 1 + sum((size - 1) * step for size, step in zip(shape, strides, strict=True))
        tensors.append(torch.full((reach,), 0.5).to(value.dtype).as_strided(shape, strides))
    q, k, v, *mask = tensors
    theirs = partial(ATTENTION, q, k, v, 0.0, causal, attn_mask=mask[0] if mask else None)
    module = _alone(tensors, causal, values[0].fake_mode)  # type: ignore[attr-defined]
    return {"aten": [theirs], "tiles": [partial(compiled(module), *tensors)]}


def _alone(tensors: Sequence[Tensor], causal: bool, mode: Any) -> GraphModule:
    """A graph that is nothing but our attention of such tensors. `mode` is that of the fakes.

    Its kernel is the same as in the graph that it is timed for, and made once for both.
    """
    graph = Graph()
    with mode:
        for number, tensor in enumerate(tensors):
            fake = torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype)
            graph.placeholder(f"x{number}").meta["val"] = fake
        q, k, v, *mask = graph.nodes
        result = graph.call_function(OURS, (q, k, v, *(mask or [None]), 0.0, causal))
        result.meta["val"] = ATTENTION(*(x.meta["val"] for x in (q, k, v)), 0.0, causal)[0]
    graph.output((result,))
    return LazyGraphModule(torch.nn.Module(), graph)


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
