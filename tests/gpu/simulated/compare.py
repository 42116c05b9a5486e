"""Compiled programs beside eager ones, on tensors of simulated devices."""

from __future__ import annotations

import copy
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch.utils._pytree import tree_leaves

import onegraph

#: Without a compiler for the device, the last one runs as `aot_eager` does.
BACKENDS = ("eager", "onegraph")


def same(left: Any, right: Any) -> None:
    """Equal values on the same devices, with the same strides; tensors with gradients have equal ones."""
    ours, theirs = tree_leaves(left), tree_leaves(right)
    assert len(ours) == len(theirs)
    for x, y in zip(ours, theirs, strict=True):
        if isinstance(x, torch.Tensor):
            facts = [(each.device, each.dtype, each.stride(), each.requires_grad) for each in (x, y)]
            assert facts[0] == facts[1]
            torch.testing.assert_close(x, y, equal_nan=True, rtol=1e-4, atol=1e-4)
            if x.is_leaf and x.requires_grad:
                assert (x.grad is None) is (y.grad is None)
                same(() if x.grad is None else x.grad, () if y.grad is None else y.grad)
        elif isinstance(x, torch.nn.Module):
            same([*x.parameters(), *x.buffers()], [*y.parameters(), *y.buffers()])
        else:
            assert type(x) is type(y) and x == y


def backward(results: Any) -> None:
    """Take gradients of all results that have them, on whatever device they are."""
    for result in tree_leaves(results):
        if isinstance(result, torch.Tensor) and result.requires_grad:
            weights = torch.arange(result.numel(), device=result.device).view(result.shape)
            (result * weights).sum().backward(retain_graph=True)


def run(function: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
    """What a call gives, or the kind and the first words of what it raises."""
    torch.manual_seed(7)
    try:
        results = function(*arguments)
    except Exception as error:
        return type(error).__name__, str(error)[:40]
    backward(results)
    return results


def check(
    function: Callable[..., Any],
    *arguments: Callable[[], tuple[Any, ...]],
    fullgraph: bool = True,
    backends: tuple[str, ...] = BACKENDS,
    dynamic: bool | None = None,
) -> None:
    """Call the function, compiled and not, with what each of `arguments` makes; twice, so that the graph is called."""
    for backend in backends:
        onegraph.reset()
        compiled = onegraph.compile(function, backend=backend, fullgraph=fullgraph, dynamic=dynamic)
        for seed, make in enumerate((*arguments, *arguments)):
            torch.manual_seed(seed)
            ours = make()
            theirs = copy.deepcopy(ours)
            same(run(compiled, ours), run(function, theirs))
            same(ours, theirs)
            assert torch.cuda.current_device() == 0


def on_cuda(*size: int, device: str = "cuda", **options: Any) -> torch.Tensor:
    return torch.randn(*size, device=device, **options)


@contextmanager
def messages() -> Iterator[list[str]]:
    """What the logger of the package is told meanwhile."""
    found: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: found.append(record.getMessage())  # type: ignore[method-assign]
    logger = logging.getLogger("onegraph")
    logger.addHandler(handler)
    try:
        yield found
    finally:
        logger.removeHandler(handler)
