"""Products with a weight of 8-bit integers, a scale for each of its rows: as sums, or in float32.

_weight_int8pack_mm(x, w, s)    sum(unsqueeze(x, 1) * w, 2) * s
_weight_int8pack_mm(x, w, s)    mm(x, t(_to_copy(w, float32))) * s

For few rows the time is that of reading the weight, which is a quarter of what it is in float32. For more rows the
weight is widened in every call: a wide copy that is kept would take the memory that integers save. aten has fast code
for bfloat16 alone, and elsewhere takes ten times as long and more.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

import torch
from torch import Tensor
from torch.fx import Graph, Node

from onegraph.base.config import Config
from onegraph.compiler.library.facts import is_ordinary, is_static, present_shape
from onegraph.compiler.library.linear import DTYPES, LONG, SIDE
from onegraph.compiler.library.measure import FEW, IN_FLOAT32, Runs, fastest, times
from onegraph.compiler.library.nodes import as_type, call

aten = torch.ops.aten

INT8 = aten._weight_int8pack_mm.default
TIMED_ROWS = 16  # of which each takes as long


def choose_int8(graph: Graph, config: Config) -> None:
    """Rewrite the products with a weight of integers for which something else than aten is faster."""
    for node in list(graph.nodes):
        if node.target is not INT8 or not _fits(node):
            continue
        with graph.inserting_before(node), node.meta["val"].fake_mode:
            if _has_few_rows(node):
                new = _as_sum(graph, node)
            elif _is_faster_wide(node, config):
                new = _as_product(graph, node)
            else:
                continue
        new.meta.update(node.meta)
        node.replace_all_uses_with(new)
        graph.erase_node(node)


def _fits(node: Node) -> bool:
    x, weight, scales = (source.meta["val"] for source in node.args)  # type: ignore[union-attr]
    return (
        is_ordinary(x, DTYPES)
        and is_ordinary(weight, (torch.int8,))
        and is_ordinary(scales, (x.dtype,))
        and present_shape(x) is not None
        and is_static(weight)
        and scales.dim() == 1
    )


def _has_few_rows(node: Node) -> bool:
    """Whether every call reads the weight for few rows, along vectors that fill."""
    x, weight = (source.meta["val"] for source in node.args[:2])  # type: ignore[union-attr]
    return is_static(x) and x.shape[0] <= FEW and weight.shape[1] >= LONG and weight.stride()[1] == 1


def _is_faster_wide(node: Node, config: Config) -> bool:
    x, weight = (source.meta["val"] for source in node.args[:2])  # type: ignore[union-attr]
    if config.library_calls != "measured":
        return True
    rows, inner = present_shape(x)  # type: ignore[misc]
    timed = (min(rows, TIMED_ROWS), min(inner, SIDE), min(weight.shape[0], SIDE))
    candidates = partial(_candidates, timed, x.dtype)
    return fastest(times(f"int8 {timed} {x.dtype}", IN_FLOAT32, candidates, config)) == "wide"


def _candidates(sizes: tuple[int, int, int], dtype: torch.dtype) -> Mapping[str, Runs]:
    rows, inner, columns = sizes
    x, scales = torch.full((rows, inner), 0.5, dtype=dtype), torch.full((columns,), 0.5, dtype=dtype)
    weight = torch.ones((columns, inner), dtype=torch.int8)

    def wide(x: Tensor, weight: Tensor, scales: Tensor) -> Tensor:
        return (x.float() @ weight.float().t() * scales.float()).to(dtype)

    return {"aten": [partial(INT8, x, weight, scales)], "wide": [partial(wide, x, weight, scales)]}


def _as_sum(graph: Graph, node: Node) -> Node:
    x, weight, scales = _widened(graph, node)
    products = call(graph, aten.mul.Tensor, call(graph, aten.unsqueeze.default, x, 1), weight)
    return _scaled(graph, node, call(graph, aten.sum.dim_IntList, products, [2]), scales)


def _as_product(graph: Graph, node: Node) -> Node:
    x, weight, scales = _widened(graph, node)
    return _scaled(graph, node, call(graph, aten.mm.default, x, call(graph, aten.t.default, weight)), scales)


def _widened(graph: Graph, node: Node) -> list[Node]:
    return [as_type(graph, source, torch.float32) for source in node.all_input_nodes]


def _scaled(graph: Graph, node: Node, total: Node, scales: Node) -> Node:
    """The result is rounded once, as aten does."""
    return as_type(graph, call(graph, aten.mul.Tensor, total, scales), node.meta["val"].dtype)
