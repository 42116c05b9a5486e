"""One model in train mode: results, gradients and random numbers are eager's.

A gradient is right if it is as near to eager's as float32 allows, or as near as eager's to the one in float64: of what
is behind normalizations, and of shifts before a softmax, rounding is all that is left.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_map_only

import onegraph
from onegraph.base.events import Event, GradientsPlanned, OperatorFellBack
from onegraph.compile import EVENTS

from .compare import leaves, relative_error
from .row import Model

TOLERANCE, NOISE = 1e-5, 3.0


@dataclass(frozen=True, slots=True)
class Training:
    """`planned` counts pairs of graphs; `refused` says why there are none."""

    model: Model
    planned: int
    refused: tuple[str, ...]
    error: float
    failures: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Step:
    """What one step shows: results, gradients by the names of parameters, buffers, and the generator."""

    results: dict[str, Tensor]
    gradients: dict[str, Tensor | None]
    buffers: dict[str, Tensor]
    generator: Tensor


def train(model: Model, backend: Any = "native") -> Training:
    """Two steps, in which gradients are accumulated."""
    failures: list[str] = []
    events: list[Event] = []
    theirs, ours, exact = (model.build().train() for _ in range(3))
    exact = exact.double()
    unsubscribe = EVENTS.subscribe(events.append)
    largest = 0.0
    try:
        compiled = onegraph.compile(ours, backend=backend, options={"raise_compiler_errors": True})
        for seed in (1, 2):
            wanted, found = step(model, theirs, theirs, seed), step(model, compiled, ours, seed)
            truth = step(model, exact, exact, seed, torch.float64)
            if not torch.equal(wanted.generator, found.generator):
                failures.append(f"step {seed}: other random numbers")
            for kind in ("results", "gradients", "buffers"):
                parts = (getattr(item, kind) for item in (wanted, found, truth))
                for name, error in differences(*parts):
                    largest = max(largest, error)
                    if error > TOLERANCE:
                        failures.append(f"step {seed}: {name} of {kind}: {error:.1e}")
    finally:
        unsubscribe()
    refused = tuple(
        e.reason for e in events if isinstance(e, OperatorFellBack) and e.operator in ("autograd", "backward")
    )
    planned = sum(isinstance(event, GradientsPlanned) for event in events)
    return Training(model, planned, refused, largest, tuple(failures))


def step(model: Model, function: Any, module: nn.Module, seed: int, dtype: torch.dtype = torch.float32) -> Step:
    args, kwargs = tree_map_only(Tensor, lambda x: x.to(dtype) if x.is_floating_point() else x, model.inputs(seed))
    torch.manual_seed(seed)
    results = {path: value for path, value in leaves(function(*args, **kwargs)) if isinstance(value, Tensor)}
    starts = [value for value in results.values() if value.requires_grad]
    torch.autograd.backward(starts, [direction(value) for value in starts])
    return Step(
        {path: value.detach() for path, value in results.items()},
        {name: None if p.grad is None else p.grad.clone() for name, p in module.named_parameters()},
        {name: b.clone() for name, b in module.named_buffers()},
        torch.get_rng_state(),
    )


def direction(result: Tensor) -> Tensor:
    """Some gradient without a pattern."""
    return torch.arange(result.numel(), dtype=result.dtype).square().cos().view(result.shape)


def differences(
    wanted: dict[str, Tensor | None], found: dict[str, Tensor | None], truth: dict[str, Tensor | None]
) -> Iterator[tuple[str, float]]:
    """The error of each tensor, as far as it is larger than eager's own."""
    if wanted.keys() != found.keys():
        yield str(sorted(wanted.keys() ^ found.keys())[:3]), float("inf")
    for name, one in wanted.items():
        other, exact = found.get(name), truth.get(name)
        if one is None or other is None:
            yield name, 0.0 if one is other else float("inf")
        elif one.stride() != other.stride():
            yield f"{name}, strides {other.stride()} for {one.stride()}", float("inf")
        else:
            error = relative_error(one, other)
            if error > TOLERANCE and exact is not None and one.is_floating_point():
                own = relative_error(exact, one.double())
                error = 0.0 if relative_error(exact, other.double()) <= NOISE * own else error
            yield name, error
