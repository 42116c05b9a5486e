"""Steps of training: forward, backward and optimizer in one function, which each contender compiles as it can.

Of whole models also what a step keeps between forward and backward, the most memory that it has allocated at a
time, and what the first step costs in a fresh process; of small models also forward and backward alone.
"""

from __future__ import annotations

import gc
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

import onegraph
from benchmarks.cold import COMPILERS, first_call
from benchmarks.contenders import CONTENDERS, reset
from benchmarks.learners import LEARNERS, Learner, built
from benchmarks.measure import Result, Run, Settings, interleaved, sample
from benchmarks.memory import peak, seen_by_profiler
from benchmarks.small import CASES

OPTIONS = {"compile_gradients": True}
TRAINERS: Mapping[str, Callable[[Any], Any]] = CONTENDERS | {"onegraph": partial(onegraph.compile, options=OPTIONS)}


def step_of(model: Callable[..., Tensor], parameters: list[Tensor], *args: Any, **kwargs: Any) -> Run:
    """One step of training with AdamW. So small that the loss stays a number."""
    optimizer = torch.optim.AdamW(parameters, lr=1e-5)

    def step() -> Tensor:
        loss = model(*args, **kwargs)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss

    return step


def chosen(settings: Settings) -> Iterator[Learner]:
    for learner in LEARNERS[:1] if settings.quick and not settings.only else LEARNERS:
        if settings.wants(learner.key):
            yield learner
            reset()
            gc.collect()


def run(settings: Settings) -> Iterator[Result]:
    """Seconds of a step of each model."""
    for learner in chosen(settings):
        model, inputs = built(learner)
        parameters = list(model.parameters())
        runs = {name: compile(step_of(model, parameters, **inputs)) for name, compile in TRAINERS.items()}
        yield Result("training", learner.name, "ms", interleaved(runs, settings.rounds(9), settings.clock))


def run_saved(settings: Settings) -> Iterator[Result]:
    """The bytes that the forward pass of each model keeps for its backward pass."""
    for learner in chosen(settings):
        model, inputs = built(learner)
        saved = {name: sample([float(kept_by(compile(model), model, inputs))]) for name, compile in TRAINERS.items()}
        yield Result("training_saved", learner.name, "MB", saved)


def kept_by(target: Callable[..., Tensor], model: nn.Module, inputs: Mapping[str, Tensor]) -> int:
    """Bytes of the memory that autograd holds after a forward pass, beside what lives anyway."""
    loss = target(**inputs)
    living = {place_of(tensor) for tensor in (*model.parameters(), *model.buffers(), *inputs.values(), loss)}
    held = {place_of(t): t.untyped_storage().nbytes() for t in saved_behind(loss)}
    return sum(size for place, size in held.items() if place not in living)


def place_of(tensor: Tensor) -> int:
    return tensor.untyped_storage().data_ptr()


def saved_behind(loss: Tensor) -> Iterator[Tensor]:
    """The tensors that the nodes of autograd behind a tensor have saved."""
    seen, pending = set(), [loss.grad_fn]
    while pending:
        node = pending.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        pending += [source for source, _ in node.next_functions]
        # Ours keeps what it saves in C, or in a list, which it frees piece by piece.
        names = [name for name in dir(node) if name.startswith("_saved_") or name in ("saved_tensors", "kept")]
        recorded = node.recorded.values() if hasattr(node, "recorded") else None
        for value in (*(getattr(node, name) for name in names), *(recorded or ())):
            yield from (t for t in (value if isinstance(value, tuple | list) else (value,)) if isinstance(t, Tensor))


def run_memory(settings: Settings) -> Iterator[Result]:
    """The peak of a step, gradients included."""
    for learner in chosen(settings):
        model, inputs = built(learner)
        found = {}
        with seen_by_profiler():
            for name in ("eager", "onegraph"):
                step = TRAINERS[name](step_of(model, list(model.parameters()), **inputs))
                step()
                step()
                found[name] = sample([float(peak(step))])
        yield Result("training_memory", learner.name, "MB", found)


def run_cold(settings: Settings) -> Iterator[Result]:
    """CPU-seconds of the first step in a fresh process; the stock compiler has its precompiled header."""
    with tempfile.TemporaryDirectory() as header:
        first_call("stock", "x + 1", caches=header)
        for learner in chosen(settings):
            with tempfile.TemporaryDirectory() as folder:
                caches = {name: shutil.copytree(header, f"{folder}/{name}") for name in COMPILERS}
                work = f"train {learner.key}"
                turns = {name: first_call(name, work, caches=caches[name]) for name in COMPILERS}
            note = f"{learner.name}: child processes: " + ", ".join(f"{n} {t.children}" for n, t in turns.items())
            samples = {name: sample([turn.cpu]) for name, turn in turns.items()}
            yield Result("training_cold", learner.name, "s", samples, note)


# ---- small models ----------------------------------------------------------------------------------------------------


class MeanOfAll(nn.Module):
    """The sum of the means of all results of a model, as a loss."""

    def __init__(self, function: Callable[..., object]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *inputs: Tensor) -> Tensor:
        results = self.function(*inputs)
        return sum(t.mean() for t in (results if isinstance(results, tuple) else (results,)))


def small_models(settings: Settings) -> Iterator[tuple[str, nn.Module, tuple[Tensor, ...], list[Tensor]]]:
    """Small models, or functions: name, module that gives the loss, its arguments, and what is trained."""
    for case in CASES[:3] if settings.quick and not settings.only else CASES:
        if settings.wants(case.__name__):
            torch.manual_seed(0)
            target, args = case()
            model = MeanOfAll(target).train()
            yield (
                case.__name__.replace("_", " "),
                model,
                args,
                list(model.parameters()) or [arg.requires_grad_() for arg in args],
            )
            reset()


def run_small(settings: Settings) -> Iterator[Result]:
    """Steps of small models."""
    for name, model, args, leaves in small_models(settings):
        runs = {who: compile(step_of(model, leaves, *args)) for who, compile in TRAINERS.items()}
        yield Result("training_small", name, "us", interleaved(runs, settings.rounds(15), settings.clock))


def run_gradients(settings: Settings) -> Iterator[Result]:
    """Forward and backward of small models."""
    for name, model, args, leaves in small_models(settings):
        runs = {who: partial(gradients, compile(model), args, leaves) for who, compile in TRAINERS.items()}
        yield Result("gradients", name, "us", interleaved(runs, settings.rounds(15), settings.clock))


def gradients(model: Callable[..., Tensor], args: tuple[Tensor, ...], leaves: list[Tensor]) -> None:
    model(*args).backward()
    for leaf in leaves:
        leaf.grad = None
