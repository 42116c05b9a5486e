"""Give a joint graph values that can be computed again from fewer bytes than they have.

    n = native_layer_norm(x, [8], w, b, 1e-5)          m, s = n[1], n[2]
    y = n[0]                                     ->    y = (x - m) * s * w + b

Normalizations are written with the statistics that they give, log_softmax with the maximum and the logarithm of the sum
of each row, and what is drawn to be 0 or 1 is kept as bool. The compiler makes the same loops of either form, but the
partition sees that the long values are cheap. Names follow from those of what is replaced: other joint graphs of the
same program have the same ones.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.fx import GraphModule, Node, map_arg

from onegraph.base.context import Context

aten = torch.ops.aten
TYPES = (torch.float32, torch.float64)


class Maker:
    """Makes nodes behind another one, named after it."""

    def __init__(self, node: Node) -> None:
        self.node = node
        self.made: list[Node] = []

    def __call__(self, target: Any, *args: Any, **kwargs: Any) -> Node:
        graph = self.node.graph
        name = f"{self.node.name}_lean{len(self.made)}"
        with graph.inserting_after(self.made[-1] if self.made else self.node):
            made = graph.create_node("call_function", target, args, kwargs, name=name)
        given, named = map_arg((args, kwargs), lambda source: source.meta["val"])
        made.meta = dict(self.node.meta) | {"val": target(*given, **named)}
        self.made.append(made)
        return made

    def result(self, position: int) -> Node:
        return self(operator.getitem, self.node, position)

    def scaled(self, x: Node, mean: Node, scale: Node, weight: Node | None, bias: Node | None) -> Node:
        """What normalizations give, from statistics and weights that are broadcast to x."""
        value = self(aten.mul.Tensor, self(aten.sub.Tensor, x, mean), scale)
        if weight is not None:
            value = self(aten.mul.Tensor, value, weight)
        return value if bias is None else self(aten.add.Tensor, value, bias)


def lean(module: GraphModule, cx: Context) -> GraphModule:
    for node in list(module.graph.nodes):
        rule = RULES.get(node.target)
        tensors = [source.meta["val"] for source in node.all_input_nodes]
        if rule is None or not all(isinstance(t, Tensor) and t.dtype in TYPES and t.numel() for t in tensors):
            continue
        old = next((user for user in node.users if user.args == (node, 0)), None) if rule in NORMS else node
        if old is None:
            continue
        make = Maker(node)
        with tensors[0].fake_mode:
            new = rule(make, *node.args)
        if new is not None and alike(new.meta["val"], old.meta["val"]):
            old.replace_all_uses_with(new, delete_user_cb=lambda user, made=make.made: user not in made)
        else:
            for unused in reversed(make.made):
                module.graph.erase_node(unused)
    return module


def alike(a: Tensor, b: Tensor) -> bool:
    return a.shape == b.shape and a.stride() == b.stride() and a.dtype is b.dtype


def layer_norm(make: Maker, x: Node, shape: Any, weight: Node | None, bias: Node | None, eps: float) -> Node:
    return make.scaled(x, make.result(1), make.result(2), weight, bias)


def batch_norm(make: Maker, x: Node, weight: Node | None, bias: Node | None, *others: Any) -> Node | None:
    training = others[2]
    after = [1] * (x.meta["val"].dim() - 2)
    if training is not True:
        return None

    def channels(value: Node | None) -> Node | None:
        return None if value is None else make(aten.view.default, value, [-1, *after])

    mean, scale = (make(aten.view.default, make.result(position), [-1, *after]) for position in (1, 2))
    return make.scaled(x, mean, scale, channels(weight), channels(bias))


def log_softmax(make: Maker, x: Node, dim: int, half_to_float: bool) -> Node:
    most = make(aten.amax.default, x, [dim], True)
    centred = make(aten.sub.Tensor, x, most)
    total = make(aten.sum.dim_IntList, make(aten.exp.default, centred), [dim], True)
    return make(aten.sub.Tensor, centred, make(aten.log.default, total))


def bernoulli(make: Maker, like: Node, p: float) -> Node:
    drawn = make(aten.ne.Scalar, make.node, 0)
    return make(aten._to_copy.default, drawn, dtype=make.node.meta["val"].dtype)


NORMS = frozenset({layer_norm, batch_norm})

RULES: dict[Any, Callable[..., Node | None]] = {
    aten.native_layer_norm.default: layer_norm,
    aten.native_batch_norm.default: batch_norm,
    aten._native_batch_norm_legit_functional.default: batch_norm,
    aten._log_softmax.default: log_softmax,
    aten.bernoulli.p: bernoulli,
}
