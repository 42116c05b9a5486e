"""Numbers that `item()` takes out of tensors and that only leave the graph break nothing."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch

import onegraph
from onegraph.base import events as ev
from tests.capture.resume.test_breaks import Watch

HISTORY: list[Any] = []


class Meter:
    total = 0.0
    steps = 0


METER = Meter()


def logs(x):
    loss = (x * x).mean()
    HISTORY.append(loss.item())
    METER.total += loss.item() * len(x)
    METER.steps += 1
    return loss * 2


def written_behind(x):
    y = x + 1
    first = y[0].item()
    y.zero_()
    return y, first, y[0].item()


def of_an_input(x):
    first = x[0].item(), x.max().item()
    x.add_(1)
    return first, x[0].item(), x * 2


def of_a_written_input(n, x):
    before = n.item()
    n.add_(1)
    return before, n.item(), x * 2


def in_a_loop(x):
    total, parts = 0.0, {}
    for i in range(4):
        total += x[i].item()
        parts[f"part {i}"] = x[i].item() / 2
    return total, parts, x.sin()


def called(x):
    def mean(y):
        return float(y.mean())

    return mean(x) - mean(x * 2), int(x.argmax()), x.cos()


def counted(x):
    correct = (x > 0).sum().item()
    return {"correct": correct, "share": correct / 4, "rest": 4 - correct}, x + 1


def compared(x):
    return [x.min().item(), x.max().item()], (x.sum().item(), x.dim()), x - 1


LEAVING: dict[str, Callable[..., Any]] = {
    f.__name__: f for f in (logs, written_behind, of_an_input, in_a_loop, called, counted, compared)
}


def used_by_an_operator(x):
    return x / x.abs().max().item(), x + 1


def used_by_a_branch(x):
    total = x.sum().item()
    return (x + 1 if total > 0 else x - 1), total


def used_by_a_text(x):
    return f"{x[0].item():.2f}", x * 2


def used_by_a_function(x):
    return math.floor(x[0].item()), round(x[1].item(), 1), x * 2


def used_as_a_key(x):
    return {0: "a", 1: "b", 2: "c", 3: "d"}[x.argmax().item()], x * 2


def used_in_a_loop(x):
    while x.sum().item() < 10:
        x = x + 1
    return x, x.sum().item()


BREAKING: dict[str, Callable[..., Any]] = {
    f.__name__: f
    for f in (
        used_by_an_operator, used_by_a_branch, used_by_a_text, used_by_a_function, used_as_a_key,
        used_in_a_loop,
    )
}  # fmt: skip


def outcome(function: Callable[..., Any], x: torch.Tensor) -> tuple[Any, ...]:
    HISTORY.clear()
    METER.total, METER.steps = 0.0, 0
    x = x.clone()
    return function(x), x, list(HISTORY), METER.total, METER.steps


def same(a: Any, b: Any) -> bool:
    match a:
        case list() | tuple():
            return type(a) is type(b) and len(a) == len(b) and all(map(same, a, b))
        case dict():
            return list(a) == list(b) and all(map(same, a.values(), b.values()))
        case torch.Tensor():
            return torch.allclose(a, b)
    return type(a) is type(b) and (a == pytest.approx(b) if isinstance(a, float) else a == b)


@pytest.mark.parametrize("backend", ["eager", "native"])
@pytest.mark.parametrize("name", LEAVING)
def test_numbers_leave_the_graph(name: str, backend: str) -> None:
    function = LEAVING[name]
    with Watch() as watch:
        compiled = onegraph.compile(function, fullgraph=True, backend=backend)
        for x in (torch.tensor([1.5, -2.0, 0.25, 3.0]), torch.tensor([-1.0, 2.5, 3.5, 0.5])):
            assert same(outcome(function, x), outcome(compiled, x))
    (captured,) = watch.of(ev.GraphCaptured)
    assert not [node for node in captured.module.graph.nodes if node.target == "item"]


@pytest.mark.parametrize("backend", ["eager", "native"])
@pytest.mark.parametrize("name", BREAKING)
def test_what_needs_a_number_breaks(name: str, backend: str) -> None:
    function = BREAKING[name]
    with Watch() as watch:
        compiled = onegraph.compile(function, backend=backend)
        for x in (torch.tensor([1.5, -2.0, 0.25, 3.0]), torch.tensor([-1.0, 2.5, 3.5, 0.5])):
            assert same(outcome(function, x), outcome(compiled, x))
    assert watch.of(ev.GraphBroken)


def test_the_number_of_an_input_that_is_written_to() -> None:
    compiled = onegraph.compile(of_a_written_input, fullgraph=True)
    for start in (3, 5):
        n = torch.tensor(start)
        assert compiled(n, torch.ones(2))[:2] == (start, start + 1) and n.item() == start + 1


@pytest.mark.parametrize("backend", ["eager", "native"])
def test_the_number_of_what_is_written_through_another_tensor(backend: str) -> None:
    def through_an_alias(n: torch.Tensor, x: torch.Tensor) -> tuple[Any, ...]:
        before = n.item()
        x.add_(1)
        return before, n.item(), x * 2

    def through_data(x: torch.Tensor) -> tuple[Any, ...]:
        y = x + 1
        before = y[0].item()
        y.data.zero_()
        return before, y[0].item()

    aliased, behind = (onegraph.compile(f, backend=backend) for f in (through_an_alias, through_data))
    for start in (1.0, 5.0):
        x, own = torch.full((2,), start), torch.full((2,), start)
        assert aliased(x[0], x)[:2] == through_an_alias(own[0], own)[:2] and torch.equal(x, own)
        assert behind(own) == through_data(own)


@pytest.mark.parametrize("backend", ["eager", "native"])
def test_in_training(backend: str) -> None:
    """The tensor is no output that gradients are recorded for: nothing is kept for it."""

    def step(x: torch.Tensor, w: torch.Tensor) -> tuple[torch.Tensor, float, float]:
        y = (x @ w).tanh()
        return y.square().mean(), y.abs().sum().item(), float(y.max())

    x, w = torch.randn(8, 4), torch.randn(4, 4, requires_grad=True)
    loss, *numbers = onegraph.compile(step, fullgraph=True, backend=backend)(x, w)
    loss.backward()
    (found,), w.grad = (w.grad,), None
    expected, *wanted = step(x, w)
    expected.backward()
    assert torch.allclose(found, w.grad, atol=1e-6) and numbers == pytest.approx(wanted)


def test_under_vmap_it_raises_as_eager_does() -> None:
    compiled = onegraph.compile(lambda x: torch.vmap(lambda row: row * row.sum().item())(x), backend="eager")
    with pytest.raises(RuntimeError, match="item"):
        compiled(torch.ones(2, 3))


def test_native_code_is_not_handed_a_symbol() -> None:
    """It would say that it is unhashable, or of a type that it does not know, which the program may handle."""

    def looked_up(x: torch.Tensor) -> Any:
        try:
            place = x.argmax().item()
            return {0: "a", 1: "b"}.get(place, "?"), place in {0, 2}, [7, 8, 9][place]
        except TypeError:
            return None

    compiled = onegraph.compile(looked_up, backend="eager")
    for place in (0, 1, 2):
        x = torch.nn.functional.one_hot(torch.tensor(place), 3).float()
        assert compiled(x) == looked_up(x)
