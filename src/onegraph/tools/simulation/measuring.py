"""How long the parts of a training step take in one process: by eager mode, compiled as a whole, and cut at buckets.

When the gradients of each parameter are there is noted by hooks, so that all three are measured in the same way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from statistics import median
from time import perf_counter
from typing import Any
from unittest import mock

import torch
from torch import Tensor
from torch.nn.modules.module import register_module_forward_pre_hook
from torch.nn.parallel import DistributedDataParallel

from onegraph.autograd.cuts import filled
from onegraph.base.dataclass import dataclass
from onegraph.base.errors import InvalidArgument
from onegraph.capture.directives.stance import set_stance
from onegraph.compile import compile
from onegraph.tools.simulation.model import Bucket, Step
from onegraph.tools.target import Target
from onegraph.torchlib.data_parallel import FIRST_BUCKET, MEBIBYTE, Buckets, buckets_of, cut_for
from onegraph.torchlib.pytree import leaves_of

NO_OVERLAP, EAGER, OURS = "no overlap", "eager DDP", "onegraph"
WARM_UP = 3  # runs: the first compiles, and that of an optimizer makes its state
NO_STEP = (
    "what is simulated is a step of training: a function or module whose result records gradients of parameters, "
    "or a function that calls backward() once"
)
OTHER_GRADIENTS = "each run of a step must compute the gradients of the same parameters"


@dataclass(frozen=True, slots=True)
class Pass:
    """One run, in seconds from its start: when its backward pass began, when each gradient was there, and its end."""

    backward: float
    ready: tuple[float, ...]
    end: float


@dataclass(frozen=True, slots=True)
class Trained:
    """What a step trains: the parameters that its backward pass reaches, and how a DistributedDataParallel that holds
    them has them travel, if one does."""

    parameters: tuple[Tensor, ...]
    buckets: Buckets | None


class Clock:
    """Runs a step, and notes when its backward pass begins and when the gradients of parameters are there."""

    def __init__(self, target: Target, parameters: Sequence[Tensor] = ()) -> None:
        self._target = target
        self._parameters = parameters
        self._ready: dict[int, float] = {}
        self._hooks = [
            parameter.register_post_accumulate_grad_hook(partial(self._note, index))
            for index, parameter in enumerate(parameters)
        ]

    def __enter__(self) -> Clock:
        return self

    def __exit__(self, *_: object) -> None:
        for hook in self._hooks:
            hook.remove()

    def _note(self, index: int, _: Tensor) -> None:
        self._ready[index] = perf_counter()

    def watch(self, function: Callable[..., Any]) -> Pass:
        """Run the step once, by this function in the place of the target's own.

        Raises:
            InvalidArgument: if that does not compute the gradients of all the parameters.
        """
        self._ready.clear()
        start = perf_counter()
        begun, _ = self.run(function)
        end = perf_counter()
        if len(self._ready) < len(self._parameters):
            raise InvalidArgument(OTHER_GRADIENTS)
        return Pass(begun - start, tuple(self._ready[n] - start for n in range(len(self._parameters))), end - start)

    def run(self, function: Callable[..., Any]) -> tuple[float, list[Tensor]]:
        """When the backward pass of a step began, and of which tensors. Where the step does not run it, it is that of
        the sum of what it returns, and gradients are None before, as behind `zero_grad`.

        Raises:
            InvalidArgument: if it has no backward pass, or several.
        """
        begun: list[tuple[float, list[Tensor]]] = []
        backward = torch.autograd.backward

        def noted(tensors: Any, *args: Any, **kwargs: Any) -> None:
            begun.append((perf_counter(), tensors_of(tensors)))
            backward(tensors, *args, **kwargs)

        with mock.patch.object(torch.autograd, "backward", noted):
            recorded = [each for each in tensors_of(function(*self._target.args)) if each.requires_grad]
            if recorded and not begun:
                for parameter in self._parameters:
                    parameter.grad = None
                torch.autograd.backward(recorded, [torch.ones_like(each) for each in recorded])
        if len(begun) != 1:
            raise InvalidArgument(
                f"{NO_STEP}; this one " + (f"calls it {len(begun)} times" if begun else "does neither")
            )
        return begun[0]


def tensors_of(value: Any) -> list[Tensor]:
    return [each for each in leaves_of(value) if isinstance(each, Tensor)]


def trained_by(target: Target) -> Trained:
    """What a step trains, as a run in eager mode shows.

    Raises:
        InvalidArgument: if it is no step of training.
    """
    holders: list[DistributedDataParallel] = []

    def look(module: torch.nn.Module, _: object) -> None:
        if isinstance(module, DistributedDataParallel):
            holders.append(module)

    hook = register_module_forward_pre_hook(look)
    try:
        with set_stance("force_eager"):
            _, outputs = Clock(target).run(target.function)
    finally:
        hook.remove()
    parameters = tuple(parameters_behind(outputs))
    if not parameters:
        raise InvalidArgument(f"{NO_STEP}; this one has gradients of none")
    return Trained(parameters, buckets_of(holders[0]) if holders else None)


def parameters_behind(outputs: Sequence[Tensor]) -> Iterator[Tensor]:
    """The parameters from which these are computed."""
    waiting: list[Any] = [each.grad_fn for each in outputs]
    seen: set[Any] = set()
    while waiting:
        node = waiting.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        waiting += [behind for behind, _ in node.next_functions]
        leaf = getattr(node, "variable", None)
        if isinstance(leaf, torch.nn.Parameter):
            yield leaf


def buckets_for(trained: Trained, limits: Sequence[int] | None) -> Buckets:
    """The buckets that are asked for, else those of the step's DistributedDataParallel, else those that torch makes.

    Raises:
        InvalidArgument: if others are asked for than the step has.
    """
    if limits is None:
        return trained.buckets or Buckets((FIRST_BUCKET, 25 * MEBIBYTE))
    if trained.buckets is not None:
        raise InvalidArgument("the step has a DistributedDataParallel: its bucket_cap_mb says how large buckets are")
    return Buckets(tuple(limits))


def measure(
    target: Target, trained: Trained, buckets: Buckets, rounds: int, together: Callable[[], object] = lambda: None
) -> dict[str, Step]:
    """What a step computes and when, by each of the three ways: medians of so many runs, in turn.

    Args:
        together: is called before each run: several processes that measure begin them at the same time.
    """
    ways: dict[str, tuple[Callable[..., Any], Callable[[], AbstractContextManager[Any]]]] = {
        NO_OVERLAP: (compile(target.function, options={"optimize_ddp": False}), nullcontext),
        EAGER: (target.function, partial(set_stance, "force_eager")),
        OURS: (compile(target.function), partial(cut_for, buckets)),
    }
    passes: dict[str, list[Pass]] = {name: [] for name in ways}
    with Clock(target, trained.parameters) as clock:
        for _ in range(WARM_UP + rounds):
            for name, (function, within) in ways.items():
                together()
                with within():
                    passes[name].append(clock.watch(function))
    sizes = [parameter.nbytes for parameter in trained.parameters]
    return {name: step_of(found[WARM_UP:], sizes, buckets.limits) for name, found in passes.items()}


def step_of(passes: Sequence[Pass], sizes: Sequence[int], limits: Sequence[int]) -> Step:
    """The medians of what was measured; gradients are in buckets in the order in which they are there."""
    forward = median(each.backward for each in passes)
    ready = [median(times) for times in zip(*(each.ready for each in passes), strict=True)]
    made, now = [], forward
    for bucket in filled(sorted(range(len(ready)), key=ready.__getitem__), dict(enumerate(sizes)), limits):
        last = max(now, ready[bucket[-1]])
        made.append(Bucket(sum(sizes[index] for index in bucket), last - now))
        now = last
    return Step(forward, tuple(made), max(0.0, median(each.end for each in passes) - now))
