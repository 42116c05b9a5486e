"""How long the parts of a training step take in one process: by eager mode, compiled as a whole, and cut at buckets.

When the gradients of each parameter are there is noted by hooks, so that all three are measured in the same way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from statistics import fmean, median, pstdev
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
class Training:
    """A step of training.

    Fields:
        target: what is called for it.
        runs_backward: whether that runs the backward pass itself.
        parameters: those whose gradients are computed.
        buckets: how they travel, where a DistributedDataParallel holds them.
    """

    target: Target
    runs_backward: bool
    parameters: tuple[Tensor, ...]
    buckets: Buckets | None

    def run(self, function: Callable[..., Any]) -> None:
        """The step, by this function in the place of the target's own. Where it does not run the backward pass, that is
        of the sum of what it returns, and gradients are None before, as behind `zero_grad`."""
        found = function(*self.target.args)
        if not self.runs_backward:
            for parameter in self.parameters:
                parameter.grad = None
            backward_of(recorded_in(found))


@contextmanager
def noting_passes() -> Iterator[list[tuple[float, list[Tensor]]]]:
    """What the backward passes that begin within it are of, and when. Nothing should be compiled within it, as it would
    be of what notes them, too."""
    begun: list[tuple[float, list[Tensor]]] = []
    backward = torch.autograd.backward

    def noted(tensors: Any, *args: Any, **kwargs: Any) -> None:
        begun.append((perf_counter(), recorded_in(tensors)))
        backward(tensors, *args, **kwargs)

    with mock.patch.object(torch.autograd, "backward", noted):
        yield begun


def recorded_in(value: Any) -> list[Tensor]:
    """The tensors in it that have gradients."""
    return [each for each in leaves_of(value) if isinstance(each, Tensor) and each.requires_grad]


def backward_of(tensors: Sequence[Tensor]) -> None:
    torch.autograd.backward(tensors, [torch.ones_like(each) for each in tensors])


def training_of(target: Target) -> Training:
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
        with set_stance("force_eager"), noting_passes() as begun:
            outputs = recorded_in(target.function(*target.args))
            runs_backward = bool(begun)
            if outputs and not runs_backward:
                backward_of(outputs)
    finally:
        hook.remove()
    parameters = tuple(parameters_behind(begun[0][1])) if len(begun) == 1 else ()
    if not parameters:
        told = f"calls it {len(begun)} times" if len(begun) > 1 else "computes no such gradients"
        raise InvalidArgument(f"{NO_STEP}; this one {told}")
    return Training(target, runs_backward, parameters, buckets_of(holders[0]) if holders else None)


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


class Clock:
    """Notes when the gradients of the parameters of a step are there."""

    def __init__(self, training: Training) -> None:
        self._training = training
        self._ready: dict[int, float] = {}
        self._hooks = [
            parameter.register_post_accumulate_grad_hook(partial(self._note, index))
            for index, parameter in enumerate(training.parameters)
        ]

    def __enter__(self) -> Clock:
        return self

    def __exit__(self, *_: object) -> None:
        for hook in self._hooks:
            hook.remove()

    def _note(self, index: int, _: Tensor) -> None:
        self._ready[index] = perf_counter()

    def watch(self, function: Callable[..., Any]) -> Pass:
        """Run the step once.

        Raises:
            InvalidArgument: if that does not compute the gradients of all the parameters, in one backward pass.
        """
        self._ready.clear()
        with noting_passes() as begun:
            start = perf_counter()
            self._training.run(function)
            end = perf_counter()
        if len(begun) != 1 or len(self._ready) < len(self._hooks):
            raise InvalidArgument(OTHER_GRADIENTS)
        return Pass(begun[0][0] - start, tuple(self._ready[n] - start for n in range(len(self._hooks))), end - start)


def buckets_for(training: Training, limits: Sequence[int] | None) -> Buckets:
    """The buckets that are asked for, else those of the step's DistributedDataParallel, else those that torch makes.

    Raises:
        InvalidArgument: if others are asked for than the step has.
    """
    if limits is None:
        return training.buckets or Buckets((FIRST_BUCKET, 25 * MEBIBYTE))
    if training.buckets is not None:
        raise InvalidArgument("the step has a DistributedDataParallel: its bucket_cap_mb says how large buckets are")
    return Buckets(tuple(limits))


def measure(
    training: Training, buckets: Buckets, rounds: int, together: Callable[[], object] = lambda: None
) -> dict[str, Step]:
    """What a step computes and when, by each of the three ways: medians of so many runs, in turn.

    Args:
        together: is called before each run: several processes that measure begin them at the same time.
    """
    function = training.target.function
    ways: dict[str, tuple[Callable[..., Any], Callable[[], AbstractContextManager[Any]]]] = {
        NO_OVERLAP: (compile(function, options={"optimize_ddp": False}), nullcontext),
        EAGER: (function, partial(set_stance, "force_eager")),
        OURS: (compile(function), partial(cut_for, buckets)),
    }
    passes: dict[str, list[Pass]] = {name: [] for name in ways}
    with Clock(training) as clock:
        for called, within in ways.values():
            for _ in range(WARM_UP):
                with within():
                    training.run(called)
        for _ in range(rounds):
            for name, (called, within) in ways.items():
                together()
                with within():
                    passes[name].append(clock.watch(called))
    sizes = [parameter.nbytes for parameter in training.parameters]
    return {name: step_of(found, sizes, buckets.limits) for name, found in passes.items()}


def step_of(passes: Sequence[Pass], sizes: Sequence[int], limits: Sequence[int]) -> Step:
    """The medians of what was measured; gradients are in buckets in the order in which they are there."""
    forward = median(each.backward for each in passes)
    ready = [median(times) for times in zip(*(each.ready for each in passes), strict=True)]
    made, now = [], forward
    for bucket in filled(sorted(range(len(ready)), key=ready.__getitem__), dict(enumerate(sizes)), limits):
        last = max(now, ready[bucket[-1]])
        made.append(Bucket(sum(sizes[index] for index in bucket), last - now))
        now = last
    ends = [each.end for each in passes]
    return Step(forward, tuple(made), max(0.0, median(ends) - now), pstdev(ends) / fmean(ends))
