"""Functions and modules with equal code that are compiled one by one: one version serves all that it fits."""

from __future__ import annotations

import copy
import gc
from collections.abc import Iterator
from types import FunctionType
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import onegraph
from onegraph.base import events as ev
from onegraph.compile import EVENTS
from onegraph.tools.record import recording

X = torch.arange(4.0)


@pytest.fixture(autouse=True)
def _shared() -> Iterator[None]:
    onegraph.reset()
    with onegraph.config.patch(share_versions=True):
        yield
    onegraph.reset()


class Block(nn.Module):
    def __init__(self, width: int = 8, hidden: int = 16, scale: float = 1.0) -> None:
        super().__init__()
        self.norm, self.scale = nn.LayerNorm(width), scale
        self.widen, self.narrow = nn.Linear(width, hidden), nn.Linear(hidden, width)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.scale * self.narrow(nn.functional.gelu(self.widen(self.norm(x))))


class Counted:
    """How many graphs were captured, and versions shared, in the block."""

    def __enter__(self) -> Counted:
        self._recording = recording(EVENTS)
        self._events = self._recording.__enter__()
        return self

    def __exit__(self, *exception: Any) -> None:
        self._recording.__exit__(*exception)

    @property
    def graphs(self) -> int:
        return sum(isinstance(each.event, ev.GraphCaptured) for each in self._events)

    @property
    def shared(self) -> int:
        return sum(isinstance(each.event, ev.VersionShared) for each in self._events)


def agree(compiled: nn.Module, model: nn.Module, *args: Tensor) -> None:
    """Results and gradients are those of eager, for the weights as they are now."""
    twin = copy.deepcopy(model)
    model.zero_grad()
    result, expected = compiled(*args), twin(*args)
    torch.testing.assert_close(result, expected)
    if torch.is_grad_enabled():
        result.square().sum().backward()
        expected.square().sum().backward()
        for mine, theirs in zip(model.parameters(), twin.parameters(), strict=True):
            torch.testing.assert_close(mine.grad, theirs.grad)


@pytest.mark.parametrize("grad", [False, True])
@pytest.mark.parametrize("way", ["compile", "in place"])
def test_twelve_equal_layers_are_one_graph(grad: bool, way: str) -> None:
    layers = [Block() for _ in range(12)]
    compiled: list[nn.Module] = [layer if way == "in place" else onegraph.compile(layer) for layer in layers]
    if way == "in place":
        with onegraph.install():
            for layer in layers:
                layer.compile()
    with torch.set_grad_enabled(grad), Counted() as count:
        for _ in range(2):
            for layer, model in zip(compiled, layers, strict=True):
                agree(layer, model, torch.randn(3, 8))
            with torch.no_grad():
                for parameter in layers[5].parameters():
                    parameter.mul_(2)
    assert (count.graphs, count.shared) == (1, 11)


def test_wide_layers_keep_packed_weights_each() -> None:
    layers = [Block(256, 512) for _ in range(4)]
    compiled = [onegraph.compile(layer) for layer in layers]
    with torch.no_grad(), Counted() as count:
        for _ in range(3):
            for layer, model in zip(compiled, layers, strict=True):
                agree(layer, model, torch.randn(64, 256))
            layers[2].widen.weight.mul_(-1)
    assert count.graphs == 1


def test_what_differs_is_compiled() -> None:
    small, large, scaled, training = Block(), Block(hidden=20), Block(scale=2.0), Block().eval()
    training.norm.register_forward_hook(lambda module, args, result: result + 1)
    with Counted() as count:
        for model in (small, large, scaled, training):
            agree(onegraph.compile(model), model, torch.randn(3, 8))
    assert (count.graphs, count.shared) == (4, 0)


def test_closures_and_defaults() -> None:
    def made(scale: Any, shift: float) -> Any:
        def f(x, *, times=shift):
            return x * scale + times

        return f

    functions = [made(scale, shift) for scale in (2.0, 2.0, 3.0, torch.ones(4)) for shift in (1.0, 1.0, 5.0)]
    with Counted() as count:
        for f in functions:
            assert torch.equal(onegraph.compile(f, fullgraph=True)(X), f(X))
    assert count.graphs + count.shared == len(functions) and count.shared >= 4


def test_compiling_again_uses_what_there_is() -> None:
    def f(x):
        return x * 2 + 1

    first = onegraph.compile(f)
    assert torch.equal(first(X), f(X))
    with Counted() as count:
        assert torch.equal(onegraph.compile(f)(X), f(X))
    assert (count.graphs, count.shared) == (0, 1)


@pytest.mark.parametrize(
    "settings",
    [
        {"backend": "eager"},
        {"fullgraph": True},
        {"dynamic": True},
        {"options": {"eager_rounding": False}},
        {"options": {"share_versions": False}},
        {"options": {"guard_filter_fn": lambda entries: [True] * len(entries)}},
    ],
)
def test_other_settings_are_other_versions(settings: dict[str, Any]) -> None:
    def f(x):
        return x * 2 + 1

    kept = onegraph.compile(f)
    kept(X)
    with Counted() as count:
        assert torch.equal(onegraph.compile(f, **settings)(X), f(X))
    assert (count.graphs, count.shared) == (1, 0)


def test_torch_has_a_name_for_it() -> None:
    def f(x):
        return x * 2 + 1

    with onegraph.install():
        kept = torch.compile(f)
        kept(X)
        with Counted() as count:
            torch.compile(f, isolate_recompiles=True)(X)
            torch.compile(f)(X)
    assert (count.graphs, count.shared) == (1, 1)


def test_globals_are_those_of_the_function() -> None:
    source = "def f(x):\n    return x * scale\n"
    spaces: list[dict[str, Any]] = [{"scale": 2.0}, {"scale": 3.0}]
    exec(compile(source, "<scaled>", "exec"), spaces[0])
    functions = [spaces[0]["f"], FunctionType(spaces[0]["f"].__code__, spaces[1])]
    kept = [onegraph.compile(f) for f in functions]
    assert [f(X)[1].item() for f in kept] == [2.0, 3.0]


@pytest.mark.parametrize("spelling", [onegraph, torch.compiler])
def test_what_is_said_of_a_function_counts_from_then_on(spelling: Any) -> None:
    def inner(x):
        return x + 1

    def f(x):
        return inner(x) * 2

    kept = onegraph.compile(f)
    with Counted() as before:
        kept(X)
    spelling.allow_in_graph(inner)
    with Counted() as count:
        assert torch.equal(onegraph.compile(f)(X), f(X))
    assert (before.graphs, count.graphs, count.shared) == (1, 1, 0)


def test_looking_at_one_changes_nothing() -> None:
    layers = [Block() for _ in range(3)]
    with torch.no_grad():
        kept = [onegraph.compile(layer) for layer in layers]
        kept[0](torch.ones(3, 8))
        assert onegraph.explain(layers[1])(torch.ones(3, 8)).graph_count == 1
        with Counted() as count:
            kept[1](torch.ones(3, 8))
    assert (count.graphs, count.shared) == (0, 1)


def test_layers_with_a_break_share_both_pieces() -> None:
    class Broken(Block):
        def forward(self, x: Tensor) -> Tensor:
            y = self.widen(x)
            onegraph.graph_break()
            return self.narrow(y.relu())

    layers = [Broken() for _ in range(3)]
    with Counted() as count:
        for _ in range(2):
            for model in layers:
                agree(onegraph.compile(model), model, torch.randn(3, 8))
    assert count.graphs == 2


def test_sizes_that_one_has_seen_change_are_symbols_for_all() -> None:
    layers = [Block() for _ in range(3)]
    compiled = [onegraph.compile(layer) for layer in layers]
    with Counted() as count:
        for rows in (3, 4, 5, 6):
            for layer, model in zip(compiled, layers, strict=True):
                agree(layer, model, torch.randn(rows, 8))
    assert count.graphs == 2


def test_a_version_outlives_whom_it_was_made_for() -> None:
    first, second = Block(), Block()
    compiled = onegraph.compile(first)
    agree(compiled, first, torch.randn(3, 8))
    kept = onegraph.compile(second)
    agree(kept, second, torch.randn(3, 8))
    del compiled, first
    gc.collect()
    with Counted() as count:
        agree(kept, second, torch.randn(3, 8))
    assert (count.graphs, count.shared) == (0, 0)


def test_versions_of_others_do_not_count() -> None:
    layers = [Block() for _ in range(6)]
    with onegraph.config.patch(accumulated_recompile_limit=2), Counted() as count:
        compiled = [onegraph.compile(layer) for layer in layers]
        for layer, model in zip(compiled, layers, strict=True):
            agree(layer, model, torch.randn(3, 8))
        other = Block(hidden=20)
        agree(onegraph.compile(other), other, torch.randn(3, 8))
    assert count.graphs == 2


def test_a_reset_forgets_the_versions_of_all() -> None:
    layers = [Block() for _ in range(2)]
    compiled = [onegraph.compile(layer) for layer in layers]
    for layer in compiled:
        layer(torch.ones(3, 8))
    onegraph.reset()
    with Counted() as count:
        for layer in compiled:
            layer(torch.ones(3, 8))
    assert (count.graphs, count.shared) == (1, 1)


def test_it_can_be_switched_off() -> None:
    layers = [onegraph.compile(Block(), options={"share_versions": False}) for _ in range(2)]
    with Counted() as count:
        for layer in layers:
            layer(torch.ones(3, 8))
    assert count.graphs == 2
