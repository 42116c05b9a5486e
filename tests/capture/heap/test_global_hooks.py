"""Hooks for all modules, and other state that libraries keep in their globals: added and removed between calls."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn.modules import module as hooks
from torch.nn.utils import parametrize
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

import onegraph
from onegraph.base import events as ev
from tests.capture.resume.test_breaks import Watch

Hook = Callable[..., Any]


def twice(run: Callable[[bool], list[Any]]) -> tuple[list[Any], list[Any]]:
    """What eager and what compiled calls give."""
    torch.manual_seed(0)
    wanted = run(False)
    torch.manual_seed(0)
    return wanted, run(True)


def made(compiled: bool, function: Callable[..., Any]) -> Callable[..., Any]:
    return onegraph.compile(function) if compiled else function


FORWARD: list[tuple[Callable[..., Any], Hook]] = [
    (hooks.register_module_forward_hook, lambda module, args, result: result * 3),
    (hooks.register_module_forward_pre_hook, lambda module, args: (args[0] * 3,)),
]


@pytest.mark.parametrize(("register", "hook"), FORWARD)
@pytest.mark.parametrize("first", [False, True])
def test_a_hook_that_comes_and_goes(register: Callable[..., Any], hook: Hook, first: bool) -> None:
    def run(compiled: bool) -> list[Any]:
        linear, x = nn.Linear(2, 2), torch.ones(1, 2)
        function = made(compiled, lambda x: linear(x) + 1)
        found = [] if first else [function(x)]
        for _ in range(2):
            handle = register(hook)
            found += [function(x), function(x)]
            handle.remove()
            found += [function(x), function(x)]
        return found

    torch.testing.assert_close(*twice(run))


def test_other_hooks_each_time_and_what_they_read() -> None:
    def run(compiled: bool) -> list[Any]:
        linear, x, factor = nn.Linear(2, 2), torch.ones(1, 2), [2.0]
        function = made(compiled, lambda x: linear(x) + 1)
        found = []
        handle = hooks.register_module_forward_hook(lambda module, args, result: result * factor[0])
        found.append(function(x))
        factor[0] = 5.0
        found.append(function(x))
        handle.remove()
        for number in range(12):
            handle = hooks.register_module_forward_pre_hook(lambda module, args, number=number: (args[0] * number,))
            found.append(function(x))
            handle.remove()
        always = hooks.register_module_forward_hook(
            lambda module, args, kwargs, result: result + 7, with_kwargs=True, always_call=True
        )
        found.append(function(x))
        always.remove()
        return [*found, function(x)]

    torch.testing.assert_close(*twice(run))


@pytest.mark.parametrize(
    "register", [hooks.register_module_full_backward_hook, hooks.register_module_full_backward_pre_hook]
)
def test_backward_hooks(register: Callable[..., Any]) -> None:
    def run(compiled: bool) -> list[Any]:
        model, seen = nn.Sequential(nn.Linear(2, 2), nn.ReLU()), []
        function = made(compiled, lambda x: model(x) * 2)

        def step() -> None:
            x = torch.ones(1, 2, requires_grad=True)
            function(x).sum().backward()
            seen.append(x.grad)

        for _ in range(2):
            handle = register(lambda module, *grads: seen.append(type(module).__name__))
            step()
            handle.remove()
            step()
        return seen

    wanted, found = twice(run)
    assert repr(wanted) == repr(found)


class Writer(nn.Module):
    """Gives itself a buffer, a module and a parameter in each call."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("total", torch.zeros(2))
        self.part = nn.ReLU()
        self.weight = nn.Parameter(torch.ones(2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.total = self.total + 1
        self.part = nn.Tanh()
        return self.part(x) * self.weight + self.total


@pytest.mark.parametrize(
    "register", [hooks.register_module_buffer_registration_hook, hooks.register_module_module_registration_hook]
)
@pytest.mark.parametrize("first", [False, True])
def test_hooks_for_what_modules_are_given(register: Callable[..., Any], first: bool) -> None:
    def run(compiled: bool) -> list[Any]:
        module, x = Writer(), torch.ones(2)
        function = made(compiled, module)
        names: list[str] = []
        found = [] if first else [function(x)]
        for _ in range(2):
            handle = register(lambda module, name, value: names.append(name))
            found += [function(x), function(x)]
            handle.remove()
            found += [function(x)]
        return [*found, module.total, names]

    wanted, found = twice(run)
    assert repr(wanted) == repr(found)


def test_a_registration_hook_may_give_another_value() -> None:
    def run(compiled: bool) -> list[Any]:
        module, x = Writer(), torch.ones(2)
        function = made(compiled, module)
        found = [function(x)]
        handle = hooks.register_module_buffer_registration_hook(lambda module, name, value: value * 10)
        found += [function(x), function(x)]
        handle.remove()
        return [*found, function(x), module.total]

    torch.testing.assert_close(*twice(run))


def test_hooks_of_all_optimizers() -> None:
    def run(compiled: bool) -> list[Any]:
        weight, seen = nn.Parameter(torch.ones(2)), []
        optimizer = torch.optim.SGD([weight], lr=0.1)
        weight.grad = torch.ones(2)
        step = made(compiled, lambda: optimizer.step())
        step()
        for register in (
            register_optimizer_step_pre_hook,
            register_optimizer_step_post_hook,
        ):
            handle = register(lambda *args: seen.append(len(args)))
            step()
            handle.remove()
            step()
        return [weight.detach().clone(), seen]

    torch.testing.assert_close(*twice(run))


class Symmetric(nn.Module):
    calls = 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        Symmetric.calls += 1
        return x + x.T


def test_the_cache_of_parametrizations() -> None:
    def run(compiled: bool) -> list[Any]:
        linear, x, Symmetric.calls = nn.Linear(3, 3), torch.ones(2), 0
        parametrize.register_parametrization(linear, "weight", Symmetric())
        function = made(compiled, lambda x: (linear.weight.sum() + linear.weight.sum()) * x)
        found = [function(x), Symmetric.calls]
        for _ in range(2):
            with parametrize.cached():
                found += [function(x), Symmetric.calls, function(x), Symmetric.calls]
            found += [function(x), Symmetric.calls]
        return found

    torch.testing.assert_close(*twice(run))


def test_modules_without_hooks_are_one_graph() -> None:
    linear = nn.Linear(2, 2)
    with Watch() as watch:
        compiled = onegraph.compile(lambda x: linear(x) + 1, fullgraph=True)
        for _ in range(3):
            compiled(torch.ones(1, 2))
            hooks.register_module_forward_hook(lambda *_: None).remove()
    assert len(watch.of(ev.GraphCaptured)) == 1
