"""Twin worlds: a file of programs is loaded twice; one copy runs eagerly, the other compiled, and all that can be seen
of them must stay equal: results, what the arguments and the globals became, aliasing, printed text, errors, RNG state.

A program is a function decorated with the file's `case = Cases()`:

    @case                                   # called with torch.rand(4)
    def f(x): ...

    @case(lambda: (torch.rand(3), [1, 2]), lambda: TABLE.clear())     # its arguments, and changes between the calls
    def g(x, items): ...
"""

from __future__ import annotations

import contextlib
import importlib.util
import io
import random
import sys
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy
import torch

import onegraph
from tests.capture.bisimulation import Bisimulation

PROGRAMS = Path(__file__).parent / "programs"


@dataclass(frozen=True, slots=True)
class Case:
    function: Callable[..., Any]
    inputs: Callable[[], tuple[Any, ...]]
    changes: tuple[Callable[[], Any], ...]


class Cases(dict[str, Case]):
    """The programs of one file, by name."""

    def __call__(self, *parts: Any) -> Any:
        if len(parts) == 1 and parts[0].__code__.co_argcount:
            return self._add(parts[0], lambda: (torch.rand(4),), ())
        inputs, *changes = parts
        return lambda function: self._add(function, inputs, tuple(changes))

    @staticmethod
    def entry(function: Any, inputs: Any) -> Case:
        return Case(function, inputs, ())

    def _add(self, function: Any, inputs: Any, changes: Any) -> Any:
        assert function.__name__ not in self, f"two programs named {function.__name__}"
        self[function.__name__] = Case(function, inputs, changes)
        return function


def load(stem: str) -> ModuleType:
    """A new copy of a file of programs."""
    spec = importlib.util.spec_from_file_location(f"twin_{stem.replace('/', '_')}", PROGRAMS / f"{stem}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    seed()
    spec.loader.exec_module(module)
    return module


def seed() -> None:
    torch.default_generator.manual_seed(7)  # of the processor alone: those of devices note where they are seeded
    random.seed(7)
    numpy.random.seed(7)


def names(stem: str) -> list[str]:
    return list(load(stem).case)


@dataclass(slots=True)
class Outcome:
    """What one call did."""

    args: Any
    result: Any = None
    error: BaseException | None = None
    printed: str = ""
    warned: Any = ()
    state: Any = None


class World:
    """One copy of a file of programs, and what its calls did so far."""

    def __init__(self, stem: str, name: str, wrap: Callable[[Any], Any]) -> None:
        self.module = load(stem)
        self.case: Case = self.module.case[name]
        self.function = wrap(self.case.function)
        self.outcomes: list[Outcome] = []

    def enter(self) -> None:
        sys.modules[self.module.__name__] = self.module
        seed()

    def call(self, backward: bool) -> None:
        self.enter()
        args = self.case.inputs()
        outcome = Outcome(args)
        printed = io.StringIO()
        modes = process_state()
        with warnings.catch_warnings(record=True) as warned, contextlib.redirect_stdout(printed):
            warnings.simplefilter("always")
            try:
                outcome.result = self.function(*args)
            except Exception as error:  # whatever the program raises is what is compared
                outcome.error = error
        outcome.printed = printed.getvalue()
        outcome.warned = [
            (entry.category.__name__, str(entry.message))
            for entry in warned
            if not issubclass(entry.category, DeprecationWarning)
        ]
        outcome.state = (process_state(), rng_state())
        restore(modes)
        if backward and outcome.error is None:
            try:
                differentiate(outcome.result)
            except RuntimeError as error:
                outcome.error = error
        self.outcomes.append(outcome)

    def change(self, index: int) -> None:
        self.enter()
        self.case.changes[index]()

    def seen(self) -> Any:
        """All that can be seen of the world."""
        state = {name: vars(self.module)[name] for name in sorted(vars(self.module)) if not name.startswith("__")}
        state.pop("case")
        calls = [(o.args, o.result, o.error, o.printed, o.warned, o.state) for o in self.outcomes]
        return calls, state


def process_state() -> tuple[Any, ...]:
    return (
        torch.is_grad_enabled(),
        torch.is_inference_mode_enabled(),
        torch.is_autocast_enabled("cpu"),
        torch.get_autocast_dtype("cpu"),
        torch.get_default_dtype(),
        torch.is_anomaly_enabled(),
        torch._C._len_torch_function_stack(),
        torch._C._len_torch_dispatch_stack(),
        sys.getrecursionlimit(),
    )


def rng_state() -> tuple[Any, ...]:
    """As few values: they are compared again with each outcome that follows."""
    return bytes(torch.get_rng_state().numpy()), repr(random.getstate()), numpy.random.get_state()[2]


def restore(state: tuple[Any, ...]) -> None:
    torch.set_grad_enabled(state[0])
    torch.set_autocast_enabled("cpu", state[2])
    torch.set_default_dtype(state[4])


def differentiate(result: Any, depth: int = 3) -> None:
    """Run backward from the differentiable tensors of a result, each element with a gradient of its own.

    With one for all, what is normalized would have gradients that are nothing but rounding.
    """
    if not depth:
        return
    match result:
        case torch.Tensor():
            if result.requires_grad and result.is_floating_point() and result.grad_fn is not None:
                weights = torch.arange(result.numel(), dtype=result.dtype).cos().view(result.shape)
                result.backward(weights, retain_graph=True)
        case list() | tuple():
            for item in result:
                differentiate(item, depth - 1)
        case dict():
            for item in result.values():
                differentiate(item, depth - 1)


def check(stem: str, name: str, backend: str, **settings: Any) -> None:
    """Run one program in both worlds, three times and twice after each change."""
    onegraph.reset()
    eager = World(stem, name, lambda function: function)
    options = {"check_unchanged": True}
    compiled = World(stem, name, lambda f: onegraph.compile(f, backend=backend, options=options, **settings))
    steps: list[int | None] = [None, None, None]
    for index in range(len(eager.case.changes)):
        steps += [index, None]
    for number, step in enumerate(steps):
        for world in (eager, compiled):
            if step is not None:
                world.change(step)
            world.call(backward=torch.is_grad_enabled())
        difference = Bisimulation().difference(eager.seen(), compiled.seen())
        assert difference is None, f"call {number} (change {step}): {difference}"


def logs_of(function: Callable[..., Any], log: list[Any]) -> list[list[Any]]:
    """What the function puts into the log in each of three calls."""
    seen = []
    for _ in range(3):
        log.clear()
        function(torch.ones(2))
        seen.append(list(log))
    return seen
