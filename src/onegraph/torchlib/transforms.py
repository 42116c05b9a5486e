"""Parts of torch.func in the form in which graphs have them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch.func import jvp

from onegraph.torchlib.private import TRANSFORMS, enter_dual_level, record_forward

#: Calls that begin something which another call must end.
OPENING_LEVELS = (
    TRANSFORMS.enter_grad,
    TRANSFORMS.enter_jvp_native,
    enter_dual_level,
    record_forward,
)


def differentiable(tensor: torch.Tensor) -> torch.Tensor:
    """Record gradients for a tensor of a level that differentiates; it is returned."""
    before = TRANSFORMS.records()
    TRANSFORMS.may_record(True)
    try:
        return tensor.requires_grad_()
    finally:
        TRANSFORMS.may_record(before)


def gradients(
    outputs: Sequence[torch.Tensor],
    inputs: Sequence[torch.Tensor],
    grad_outputs: Sequence[torch.Tensor] | None = None,
    retain_graph: bool = False,
    create_graph: bool = True,
) -> tuple[torch.Tensor, ...]:
    """The gradients of those outputs that depend on anything; zeros for inputs on which nothing depends."""
    given = [None] * len(outputs) if grad_outputs is None else grad_outputs
    pairs = [(output, grad) for output, grad in zip(outputs, given, strict=False) if output.requires_grad]
    if not pairs:
        return tuple([torch.zeros_like(each) for each in inputs])
    found = torch.autograd.grad(
        [output for output, _ in pairs],
        inputs,
        None if grad_outputs is None else [grad for _, grad in pairs],
        retain_graph=retain_graph,
        create_graph=create_graph,
        allow_unused=True,
    )
    return tuple([torch.zeros_like(each) if grad is None else grad for each, grad in zip(inputs, found, strict=True)])


def standard_basis(
    tensors: Sequence[torch.Tensor], counts: Sequence[int], chunk_size: int | None = None
) -> Iterator[tuple[torch.Tensor, ...]]:
    """The rows of an identity matrix, so many at a time. Its columns are the elements of the tensors, as they lie."""
    total = sum(counts)
    step = total if chunk_size is None else chunk_size
    for first in (0,) if chunk_size is None else range(0, total, chunk_size):
        rows, column, parts = min(step, total - first), 0, []
        for tensor, count in zip(tensors, counts, strict=True):
            part = tensor.new_zeros(rows, count)
            part.diagonal(first - column).fill_(1)
            parts.append(part.view(rows, *tensor.shape))
            column += count
        yield tuple(parts)


def derivative_at(func: Callable[..., Any], primals: tuple[Any, ...]) -> Callable[..., Any]:
    """What maps tangents to the derivative of a function along them at `primals`."""

    def derivative(*tangents: Any) -> Any:
        return jvp(func, primals, tangents)[1]

    return derivative


def accumulate(leaf: torch.Tensor, gradient: torch.Tensor, is_dense: bool) -> None:
    """Add to the gradient of a leaf, as autograd does: it lies in memory as the leaf does, and is nobody else's.

    `is_dense` says whether the elements of the leaf are all at places of their own, without gaps.
    """
    with torch.no_grad():
        if leaf.grad is None and is_dense:
            leaf.grad = torch.empty_strided(leaf.size(), leaf.stride(), dtype=leaf.dtype, device=leaf.device)
            leaf.grad.copy_(gradient)
        elif leaf.grad is None:
            leaf.grad = gradient.clone(memory_format=torch.contiguous_format)
        else:
            leaf.grad += gradient


def keep(tensor: torch.Tensor, gradient: torch.Tensor) -> None:
    """Add to the gradient of a tensor that is no leaf, as autograd does where that keeps it."""
    with torch.no_grad():
        before = tensor.grad
        tensor.grad = gradient.clone(memory_format=torch.contiguous_format) if before is None else before + gradient
