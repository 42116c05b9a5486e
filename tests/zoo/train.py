"""One model in train mode: results, gradients and random numbers are eager's.

A gradient is right if it is as near to eager's as float32 allows, or as near as eager's to the one in float64: of what
is behind normalizations, and of shifts before a softmax, rounding is all that is left. Where normalizations over a few
elements follow each other, they amplify the rounding of one of them, and it is chance in whose run that one is larger.
So distances from float64 are compared in several draws, and the median of their ratios counts. Of what is zero but for
rounding (the mean of a convolution of what was normalized before), eager has no digit right, and ours need be of
the order of that: eager adds up statistics in float64, and we in several sums of float32.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
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

TOLERANCE, NOISE, DRAWS = 1e-5, 2.0, range(1, 50)
ORDER = 3.0  # how much larger rounding may be that has no digit right in eager either


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
    theirs, ours = (model.build().train() for _ in range(2))
    unsubscribe = EVENTS.subscribe(events.append)
    suspects: dict[tuple[str, str], list[tuple[int, Tensor | None, Tensor | None, float]]] = {}
    largest = 0.0
    try:
        compiled = onegraph.compile(ours, backend=backend, options={"raise_compiler_errors": True})
        distances = Distances(model, (theirs, ours), (theirs, compiled))
        for seed in (1, 2):
            wanted, found = step(model, theirs, theirs, seed), step(model, compiled, ours, seed)
            if not torch.equal(wanted.generator, found.generator):
                failures.append(f"step {seed}: other random numbers")
            for kind in ("results", "gradients", "buffers"):
                for name, one, other in pairs(getattr(wanted, kind), getattr(found, kind)):
                    error = difference(one, other)
                    largest = max(largest, error)
                    if error > TOLERANCE:
                        suspects.setdefault((kind, name), []).append((seed, one, other, error))
        for (kind, name), found in suspects.items():
            if not all(distances.allow(kind, name, one, other) for _, one, other, _ in found):
                failures += [f"step {seed}: {name} of {kind}: {error:.1e}" for seed, _, _, error in found]
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


def pairs(
    wanted: dict[str, Tensor | None], found: dict[str, Tensor | None]
) -> Iterator[tuple[str, Tensor | None, Tensor | None]]:
    for name in {**wanted, **found}:
        yield name, wanted.get(name), found.get(name)


def difference(one: Tensor | None, other: Tensor | None) -> float:
    if one is None or other is None:
        return 0.0 if one is other else math.inf
    return math.inf if one.stride() != other.stride() else relative_error(one, other)


class Distances:
    """How far eager's results and ours are from those in float64, in each draw: made when they are asked for first."""

    def __init__(self, model: Model, modules: Sequence[nn.Module], functions: Sequence[Any]) -> None:
        self.model, self.modules, self.functions = model, modules, functions
        self.draws: list[dict[tuple[str, str], tuple[float, float]]] | None = None

    def allow(self, kind: str, name: str, one: Tensor | None, other: Tensor | None) -> bool:
        """Whether what differs is as near to the truth as eager is, but for chance."""
        if one is None or other is None or one.stride() != other.stride() or not one.is_floating_point():
            return False
        if self.draws is None:
            try:
                self.draws = [self.draw(seed) for seed in DRAWS]
            except RuntimeError:  # not every operator knows float64
                self.draws = []
        distances = [draw[kind, name] for draw in self.draws if (kind, name) in draw]  # others have dropped the layer
        near = [ours <= (NOISE if eagers < 1 else ORDER) * eagers for eagers, ours in distances]
        return sum(near) > len(near) / 2

    def draw(self, seed: int) -> dict[tuple[str, str], tuple[float, float]]:
        """By kind and name, the distances after a step of the model as it was built."""
        exact_module = self.model.build().train()
        state = exact_module.state_dict()
        steps = []
        for module, function in zip(self.modules, self.functions, strict=True):
            module.load_state_dict(state)
            module.zero_grad()
            steps.append(step(self.model, function, module, seed))
        exact = step(self.model, exact_module.double(), exact_module, seed, torch.float64)
        found = {}
        for kind in ("results", "gradients", "buffers"):
            for name, value in getattr(exact, kind).items():
                eagers, ours = (getattr(each, kind).get(name) for each in steps)
                if value is None or eagers is None:
                    continue
                distance = math.inf if ours is None else relative_error(value, ours.double())
                found[kind, name] = relative_error(value, eagers.double()), distance
        return found
