"""Hooks around calls of modules: the order counts, and not the numbers by which a module knows them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

import onegraph

X = torch.ones(2, 4)


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.inner(x).relu()


Setup = Callable[[nn.Module, list[Any]], object]


def removes_itself(module: nn.Module, log: list[Any]) -> None:
    def hook(of: nn.Module, args: Any, output: Any) -> Any:
        handle.remove()
        return output * 3

    handle = module.register_forward_hook(hook)


def removes_itself_before(module: nn.Module, log: list[Any]) -> None:
    def hook(of: nn.Module, args: Any) -> Any:
        handle.remove()
        return args[0] * 3

    handle = module.register_forward_pre_hook(hook)


def registers_another(module: nn.Module, log: list[Any]) -> None:
    def hook(of: nn.Module, args: Any) -> None:
        if len(of._forward_hooks) < 2:
            of.register_forward_hook(lambda of, args, output: output + 7)

    module.register_forward_pre_hook(hook)


def breaks(module: nn.Module, log: list[Any]) -> None:
    module.register_forward_pre_hook(lambda of, args: (print(end=""), (args[0] * 2,))[1])
    module.register_forward_hook(lambda of, args, output: (print(end=""), output * 2)[1])


def takes_notes(module: nn.Module, log: list[Any]) -> None:
    module.register_forward_hook(lambda of, args, output: log.append(tuple(output.shape)))


def reads_numbers(module: nn.Module, log: list[Any]) -> None:
    module.register_forward_hook(
        lambda of, args, output: output + len(of._forward_hooks) + (min(of._forward_hooks) > 0)
    )


def is_always_called(module: nn.Module, log: list[Any]) -> None:
    module.register_forward_hook(lambda of, args, output: output * 2, always_call=True)


def has_a_backward_hook(module: nn.Module, log: list[Any]) -> None:
    module.register_full_backward_hook(lambda of, inputs, outputs: None)
    module.register_forward_hook(lambda of, args, output: output * 2)


def takes_keywords(module: nn.Module, log: list[Any]) -> None:
    module.register_forward_pre_hook(lambda of, args, kwargs: ((args[0] + 3,), kwargs), with_kwargs=True)
    module.register_forward_hook(lambda of, args, kwargs, output: output * 2 + len(kwargs), with_kwargs=True)


def is_in_front(module: nn.Module, log: list[Any]) -> None:
    module.register_forward_hook(lambda of, args, output: output * 2)
    module.register_forward_hook(lambda of, args, output: output + 2, prepend=True)


def replaces_forward(module: nn.Module, log: list[Any]) -> None:
    module.register_forward_pre_hook(lambda of, args: setattr(of, "forward", lambda x: x * 9))


def is_wrong(module: nn.Module, log: list[Any]) -> None:
    module.register_forward_pre_hook(lambda of, args, kwargs: 3, with_kwargs=True)


def raises(module: nn.Module, log: list[Any]) -> None:
    def hook(of: nn.Module, args: Any, output: Any) -> None:
        log.append(1)
        if len(log) > 1:
            raise ValueError("not twice")

    module.register_forward_hook(hook)


def called(setup: Setup, compiled: bool) -> list[Any]:
    torch.manual_seed(0)
    model, log, found = Model(), [], []
    setup(model.inner, log)
    run = onegraph.compile(model) if compiled else model
    for number in range(3):
        try:
            found.append(run(X * number).detach())
        except (ValueError, RuntimeError) as error:
            found.append(f"{type(error).__name__}: {error}")
    return [*found, log, len(model.inner._forward_hooks), len(model.inner._forward_pre_hooks)]


@pytest.mark.parametrize(
    "setup",
    [
        removes_itself, removes_itself_before, registers_another, breaks, takes_notes, reads_numbers, is_always_called,
        has_a_backward_hook, takes_keywords, is_in_front, replaces_forward, is_wrong, raises,
    ],
)  # fmt: skip
def test_hooks_do_what_they_do_in_eager(setup: Setup) -> None:
    for found, wanted in zip(called(setup, compiled=True), called(setup, compiled=False), strict=True):
        if isinstance(wanted, torch.Tensor):
            torch.testing.assert_close(found, wanted)
        else:
            assert found == wanted


def test_equal_modules_with_hooks_share_a_version() -> None:
    onegraph.counters.clear()
    models = [Model() for _ in range(4)]
    for model in models:
        takes_keywords(model.inner, [])
    with onegraph.config.patch(share_versions=True):
        runs = [onegraph.compile(model, fullgraph=True) for model in models]
        for run, model in zip(runs, models, strict=True):
            torch.testing.assert_close(run(X), model(X))
        assert onegraph.counters["stats"]["unique_graphs"] == 1
        models[1].inner.register_forward_hook(lambda of, args, output: output * 5)
        for run, model in zip(runs, models, strict=True):
            torch.testing.assert_close(run(X), model(X))
    assert onegraph.counters["stats"]["unique_graphs"] == 2
