"""What guards, checks, and the way that sizes become symbolic, promise of the sizes of a graph."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch.fx import GraphModule

from onegraph.ir.index import Index
from onegraph.torchlib.aten import opened


def size_facts(module: GraphModule) -> tuple[Index, ...]:
    """Expressions that are not negative in any call of the graph."""
    sizes = next(_sizes(module), None)
    if sizes is None:
        return ()
    found = [Index.of(symbol) - min(sizes.small.of(symbol), default=2) for symbol in sizes.hints]
    for condition in (*sizes.guards, *sizes.checks, *sizes.data.bounds):
        difference = condition.right - condition.left
        match condition.op:
            case "==":
                found += [difference, -difference]
            case "<=":
                found.append(difference)
            case "<":
                found.append(difference - 1)
    return tuple(dict.fromkeys(found))


def _sizes(module: GraphModule) -> Iterator[Any]:
    """The symbolic sizes of the trace, as often as a number of them is found."""
    for node in module.graph.nodes:
        for value in opened([node.meta.get("val")]):
            for number in value.shape if isinstance(value, torch.Tensor) else (value,):
                if isinstance(number, torch.SymInt):
                    yield number.node.sizes
