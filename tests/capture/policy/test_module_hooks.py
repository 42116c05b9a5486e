"""Backward hooks of modules that compiled code calls."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn.modules.module import register_module_full_backward_hook, register_module_full_backward_pre_hook

import onegraph
from onegraph.base.events import GraphBroken, GraphCaptured
from tests.capture.resume.test_breaks import Watch

Seen = list[Any]


class Masked(nn.Module):
    """A tensor without gradients beside the one with them, on both sides."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(3, 3)

    def forward(self, x: torch.Tensor, mask: torch.Tensor, scale: float = 1.0) -> Any:
        return self.inner(x) * mask * scale, mask.sum(0), "text"


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.masked, self.last = nn.Linear(3, 3), Masked(), nn.Linear(3, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.first(x).tanh()
        y, count, _ = self.masked(y + self.first(y), (x > 0).float(), scale=0.5)
        return self.last(y + count)


def double(model: Model, seen: Seen) -> Any:
    return model.first.register_full_backward_hook(lambda m, gi, go: tuple(g if g is None else g * 2 for g in gi))


def clip_outputs(model: Model, seen: Seen) -> Any:
    return model.last.register_full_backward_pre_hook(lambda m, go: (go[0].clamp(-0.1, 0.1),))


def look(model: Model, seen: Seen) -> Any:
    handles = [module.register_full_backward_hook(lambda m, *found: seen.append(found)) for module in model.modules()]
    return handles + [model.masked.register_full_backward_pre_hook(lambda m, found: seen.append(found))]


def keep(model: Model, seen: Seen) -> Any:
    def hook(module: Any, inputs: Any, outputs: Any) -> None:
        module.seen = outputs[0]
        seen.append(outputs[0].norm().item() > 100)

    return model.masked.register_full_backward_hook(hook)


def all_in_turn(model: Model, seen: Seen) -> Any:
    hooked = model.masked
    return [
        hooked.register_full_backward_hook(lambda m, gi, go: (gi[0] + go[0], None)),
        hooked.register_full_backward_hook(lambda m, gi, go: seen.append((gi, go))),
        hooked.register_full_backward_pre_hook(lambda m, go: (go[0] * 2, None, None)),
        hooked.register_full_backward_pre_hook(lambda m, go: seen.append(go)),
        hooked.register_forward_hook(lambda m, args, result: (result[0] + 1, *result[1:])),
    ]


def of_all_modules(model: Model, seen: Seen) -> Any:
    return [
        register_module_full_backward_hook(lambda m, gi, go: seen.append((gi, go))),
        register_module_full_backward_pre_hook(lambda m, go: (go[0] * 2, *go[1:])),
    ]


def outcome(compiled: Callable[[Model], Any], setup: Callable[[Model, Seen], Any], step: str) -> list[Any]:
    found: list[Any] = []
    torch.manual_seed(1)
    model, seen = Model(), []  # type: ignore[var-annotated]
    handles = setup(model, seen)
    try:
        function = compiled(model)
        for number in range(2):
            x = torch.randn(4 + number, 3, requires_grad=step != "no input")
            with torch.set_grad_enabled(step != "no_grad"), warnings.catch_warnings(record=True) as warned:
                warnings.simplefilter("always")
                result = function(x)
                if step != "no_grad" and result is not None:
                    (result * result).sum().backward()
            found += [result, x.grad, *(each.grad for each in model.parameters())]
            found += [len(warned), getattr(model.masked, "seen", None)]
            model.zero_grad()
    finally:
        for handle in handles if isinstance(handles, list) else [handles]:
            handle.remove()
    return found + seen


@pytest.fixture(autouse=True)
def anew() -> Iterator[None]:
    onegraph.reset()
    yield


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "native"])
@pytest.mark.parametrize("step", ["training", "no input", "no_grad", "within"])
@pytest.mark.parametrize("setup", [double, clip_outputs, look, keep, all_in_turn, of_all_modules])
def test_is_one_graph(setup: Callable[[Model, Seen], Any], step: str, backend: str) -> None:
    def function(model: Model) -> Callable[[torch.Tensor], Any]:
        def call(x: torch.Tensor) -> Any:
            model(x).square().sum().backward()

        return call if step == "within" else model

    if step == "within" and setup is keep:
        pytest.skip("the hook asks for a number")
    expected = outcome(function, setup, step)
    with Watch() as watch:
        found = outcome(
            lambda model: onegraph.compile(function(model), fullgraph=True, backend=backend, dynamic=True), setup, step
        )
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-4)
    assert watch.of(GraphCaptured)


class Mixed(nn.Module):
    def forward(self, x: torch.Tensor, scale: float, y: torch.Tensor, z: torch.Tensor, unused: torch.Tensor) -> Any:
        return (x.sin() * y).sum(1) * scale + z.square().sum()


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "native"])
def test_several_inputs(backend: str) -> None:
    def run(compile: Callable[[Any], Any]) -> Any:
        torch.manual_seed(3)
        layer, seen = Mixed(), []  # type: ignore[var-annotated]
        layer.register_full_backward_hook(lambda m, gi, go: (gi[0] * 2, None, gi[2] + gi[0], gi[3], gi[4] + 1))
        layer.register_full_backward_hook(lambda m, gi, go: seen.append((gi, go)))
        compiled = compile(lambda *args: layer(args[0], 2.0, *args[1:]) * 3)
        for size in (3, 5, 7):
            shapes = (size, 4), (size, 4), (2, 3, 2), (size,)
            args = [torch.randn(shape, requires_grad=True) for shape in shapes]
            compiled(*args).square().sum().backward()
            seen += [arg.grad for arg in args]
        return seen

    found = run(lambda f: onegraph.compile(f, fullgraph=True, backend=backend, dynamic=True))
    torch.testing.assert_close(found, run(lambda f: f), atol=1e-5, rtol=1e-4)


def test_several_outputs_break_the_graph() -> None:
    class Two(nn.Module):
        def forward(self, x: torch.Tensor) -> Any:
            return x.sin(), x.cos()

    layer = Two()
    layer.register_full_backward_hook(lambda m, gi, go: (gi[0] * 2,))

    def function(x: torch.Tensor) -> torch.Tensor:
        a, b = layer(x)
        return (a * b).sum()

    x, y = (torch.ones(4, 3, requires_grad=True) for _ in range(2))
    function(x).backward()
    with Watch() as watch:
        onegraph.compile(function)(y).backward()
    assert torch.allclose(x.grad, y.grad)
    assert "more than one tensor" in watch.of(GraphBroken)[0].reason


def test_a_gradient_that_is_taken_away_is_an_error() -> None:
    layer = nn.Linear(3, 3)
    layer.register_full_backward_hook(lambda m, gi, go: (None,))
    result = onegraph.compile(layer, fullgraph=True)(torch.ones(3, requires_grad=True))
    with pytest.raises(RuntimeError, match="takes a gradient away"):
        result.sum().backward()
