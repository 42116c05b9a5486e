"""Graphs that are too small to be compiled for eager's autograd."""

from __future__ import annotations

import math
import operator

import torch

from onegraph.torchlib.wrappers import is_wrapper

#: The elements of a tensor on which an operator takes about as long as on one.
FEW_ELEMENTS = 1 << 13


def is_too_small(module: torch.fx.GraphModule, least: int) -> bool:
    """Whether a graph has fewer operators than `least`, all of them on little.

    To call a compiled graph in eager's autograd, forward and backward, takes as long as two such operators where C
    makes its node, else as five; to compile one of few operators takes as long as thousands of its calls. Of sizes that
    change, those of this trace count, for one operator: with others there is nothing that it would be fused with.
    """
    calls = [node for node in module.graph.nodes if node.op.startswith("call") and node.target is not operator.getitem]
    if len(calls) >= least:
        return False
    values = [node.meta.get("example_value") for node in module.graph.nodes]
    if any(map(is_wrapper, values)):  # in eager code, their classes compute in Python
        return False
    shapes = [value.shape for value in values if isinstance(value, torch.Tensor)]
    if any(isinstance(size, torch.SymInt) for shape in shapes for size in shape) and len(calls) > 1:
        return False
    return all(math.prod(map(hint, shape)) <= FEW_ELEMENTS for shape in shapes)


def hint(size: int | torch.SymInt) -> int:
    """The size in this trace."""
    return size if isinstance(size, int) else size.node.hint
