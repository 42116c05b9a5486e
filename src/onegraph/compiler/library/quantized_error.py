"""How far products of integers are from those of floats: measured on what a graph is called with first.

The graph runs once, operator by operator, with its float products; each product of integers is computed beside the one
that it is to replace, and dropped. Of a large weight, columns at equal distances stand for all.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor
from torch.fx import GraphModule, Interpreter, Node

from onegraph.base.constants import inf
from onegraph.torchlib.aten import PURE_NAMESPACES, OpOverload, is_mutable
from onegraph.torchlib.state import untraced, without_autocast

MEASURED = 1 << 17  # elements of a weight, about

#: Gives the product of two tensors.
Multiply = Callable[[Tensor, Tensor], Tensor]


class Unmeasured(Exception):
    """Why a graph cannot run once more than the program asks for."""


def errors(module: GraphModule, products: Mapping[Node, Multiply], given: list[Any]) -> dict[Node, float]:
    """For each of the products, `|quantized - float| / |float|`; infinite where that is no number.

    Raises:
        Unmeasured: the graph may do more than compute its results, or fails.
    """
    if not products:
        return {}
    for node in module.graph.nodes:
        if node.op == "call_function" and not _only_computes(node.target):
            raise Unmeasured(f"it calls {node.target}, which may do more than compute")
    run = _Measuring(module, products)
    try:
        with untraced(), without_autocast(), torch.no_grad(), torch.random.fork_rng(devices=[]):
            run.run(*given)
    except Exception as error:  # the program's own call is to raise it
        raise Unmeasured(f"it fails: {type(error).__name__}: {error}".partition("\n")[0]) from None
    return run.found


def _only_computes(target: Any) -> bool:
    if isinstance(target, OpOverload):
        return target.namespace in PURE_NAMESPACES and not is_mutable(target)
    return getattr(operator, getattr(target, "__name__", ""), None) is target


class _Measuring(Interpreter):
    def __init__(self, module: GraphModule, products: Mapping[Node, Multiply]) -> None:
        super().__init__(module)
        self.found: dict[Node, float] = {}
        self._products = products

    def run_node(self, n: Node) -> Any:
        result = super().run_node(n)
        if n in self._products:
            x, y = self.fetch_args_kwargs_from_env(n)[0][-2:]
            y = y[:, :: max(y.numel() // MEASURED, 1)]
            self.found[n] = relative_error(self._products[n](x, y), x.float() @ y.float())
        return result


def relative_error(found: Tensor, expected: Tensor) -> float:
    """The norm of the difference by the norm of what is expected; infinite where that is no number."""
    difference, norm = (float(torch.linalg.vector_norm(each)) for each in (found - expected, expected))
    if difference == 0:
        return 0.0
    error = difference / norm if norm else inf
    return error if error < inf else inf  # NaN is not
