"""Operators that torch has no fast code for in their element type on this processor: in float32, and rounded once.

bmm(a, b)     _to_copy(bmm(_to_copy(a, float32), _to_copy(b, float32)), bfloat16)

It is for what `linear` and `convolution` leave, and by measurement. The conversions become part of the kernels around.
"""

from __future__ import annotations

import operator
from collections.abc import Mapping
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.fx import Graph, Node, map_arg

from onegraph.base.config import Config
from onegraph.compiler.library.facts import is_ordinary, multiplied_in, present_shape
from onegraph.compiler.library.measure import IN_FLOAT32, Runs, fastest, times
from onegraph.compiler.library.nodes import as_type, call
from onegraph.torchlib.overlaps import hint_of

aten = torch.ops.aten

ATTENTION = aten._scaled_dot_product_flash_attention_for_cpu.default
WIDENED = frozenset({aten.bmm.default, aten.baddbmm.default, aten.convolution.default, ATTENTION})
NARROW = (torch.bfloat16, torch.float16)


def widen(graph: Graph, config: Config) -> None:
    """Rewrite the operators that are faster in float32."""
    for node in list(graph.nodes):
        if node.target in WIDENED and (dtype := _narrow_type(node)) is not None and _pays(node, dtype, config):
            with graph.inserting_before(node), node.all_input_nodes[0].meta["val"].fake_mode:
                _rewrite(graph, node, dtype)


def _narrow_type(node: Node) -> torch.dtype | None:
    """The type of the operator's tensors, if oneDNN would be given another one; masks may be of any."""
    values = [source.meta["val"] for source in node.all_input_nodes]
    dtype = values[0].dtype
    if dtype not in NARROW or multiplied_in(dtype) is dtype:
        return None
    fits = all(
        isinstance(value, Tensor) and present_shape(value) and is_ordinary(value, (dtype, torch.bool))
        for value in values
    )
    return dtype if fits else None


def _pays(node: Node, dtype: torch.dtype, config: Config) -> bool:
    if config.library_calls != "measured":
        return True
    given = map_arg((node.args, dict(node.kwargs)), lambda source: _described(source.meta["val"]))
    what, candidates = f"{node.target} {given}, in float32", partial(_candidates, node, dtype)
    return fastest(times(what, IN_FLOAT32, candidates, config)) == "wide"


def _described(value: Tensor) -> Any:
    return str((*_layout(value), value.dtype))


def _layout(value: Tensor) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The sizes and strides, at present."""
    size, stride = (tuple(map(hint_of, numbers)) for numbers in (value.shape, value.stride()))
    return size, stride


def _candidates(node: Node, dtype: torch.dtype) -> Mapping[str, Runs]:
    def full(source: Node) -> Any:
        value = source.meta["val"]
        return torch.empty_strided(*_layout(value), dtype=value.dtype).fill_(1)

    args, kwargs = map_arg((node.args, dict(node.kwargs)), full)

    def wide() -> object:
        def widened(value: Any) -> Any:
            return value.float() if isinstance(value, Tensor) and value.dtype is dtype else value

        found = node.target(*map(widened, args), **{name: widened(value) for name, value in kwargs.items()})  # type: ignore[operator]
        return (found[0] if isinstance(found, tuple) else found).to(dtype)

    assert callable(node.target)
    return {"aten": [partial(node.target, *args, **kwargs)], "wide": [wide]}


def _rewrite(graph: Graph, node: Node, dtype: torch.dtype) -> None:
    def widened(source: Node) -> Node:
        return as_type(graph, source, torch.float32) if source.meta["val"].dtype is dtype else source

    args, kwargs = map_arg((node.args, dict(node.kwargs)), widened)
    wide = call(graph, node.target, *args, **kwargs)
    for old in [node] if isinstance(node.meta["val"], Tensor) else list(node.users):
        part = wide if old is node else call(graph, operator.getitem, wide, old.args[1])
        new = as_type(graph, part, old.meta["val"].dtype)
        new.meta.update(old.meta)
        old.replace_all_uses_with(new)
    for old in (*node.users, node):
        graph.erase_node(old)
