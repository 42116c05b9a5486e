"""Results whose history is spent: the graph itself makes a backward pass over it, as a step of training that returns
its loss does. Eager's autograd frees what such a pass looks at, and refuses another one; so does the node of such a
result, which keeps nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from onegraph.autograd.runtime import Run
from onegraph.autograd.spec import Freed
from onegraph.base.errors import CompileError
from onegraph.torchlib.primals import FREED, edge_of, edges_behind, node_name, passes_over, recorder


def freed_among(
    results: Mapping[int, Tensor], leaves: Mapping[int, Tensor], others: Collection[Tensor]
) -> tuple[Freed, ...]:
    """Those of the results, which are given by their numbers, over whose history no pass can go.

    `leaves` are the inputs that have gradients, and `others` the written values and views that must have a history.

    Raises CompileError where a pass is refused for some inputs only, or gets to another result before it is.
    """
    found = []
    for number, result in results.items():
        passes = passes_over([result])
        reached = {index: leaf for index, leaf in leaves.items() if edge_of(leaf)[0] in passes}
        if not is_refused(result, [*reached.values()]):
            continue
        if not all(is_refused(result, [leaf]) for leaf in reached.values()):
            raise CompileError("joint graph", "a backward pass has freed a part of what a result is computed by")
        found.append(Freed(number, tuple(reached), node_name(result)))
    freed = {item.result for item in found}
    kept = {edge_of(result) for number, result in results.items() if number not in freed}
    behind = edges_behind([results[number] for number in freed])
    if not kept.isdisjoint(behind) or any(results[number] is other for number in freed for other in others):
        raise CompileError("joint graph", "what a backward pass has freed is a part of what others are computed by")
    return tuple(found)


def is_refused(result: Tensor, leaves: Sequence[Tensor]) -> bool:
    """Whether eager refuses a pass from the one to the others, since an earlier one has freed what it needs."""
    if not leaves:
        return False
    try:
        torch.autograd.grad(result, leaves, torch.ones_like(result), allow_unused=True, retain_graph=True)
    except RuntimeError as error:
        if str(error) != FREED:
            raise
        return True
    return False


class Spent(torch.autograd.Function):
    """The node of a result whose history is freed."""

    @staticmethod
    def forward(ctx: Any, result: Tensor, *inputs: Tensor) -> Tensor:
        ctx.set_materialize_grads(False)
        return result.detach()

    @staticmethod
    def backward(ctx: Any, gradient: Tensor | None) -> Any:
        if gradient is not None:
            raise RuntimeError(FREED)
        return (None,) * len(ctx.needs_input_grad)


def with_freed(run: Run, freed: Sequence[Freed]) -> Run:
    """`run`, whose results get these histories."""
    if not freed:
        return run
    spent = [(item, recorder(Spent, item.name)) for item in freed]

    def call(*inputs: Any) -> list[Any]:
        results = [*run(*inputs)]
        for item, record in spent:
            results[item.result] = record(results[item.result], *[inputs[index] for index in item.inputs])
        return results

    return call
