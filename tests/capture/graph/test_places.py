"""Programs that look where tensors are in memory: `storage_offset`, `as_strided`, random numbers in strided views."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import onegraph

BACKENDS = pytest.mark.parametrize("backend", ["eager", "aot_eager", "native"])


def same(program: Callable[..., Any], backend: str, *makes: Callable[[torch.Tensor], Any], **settings: Any) -> None:
    """Each call gives the program's results and leaves the whole buffer as the program does."""
    compiled = onegraph.compile(program, backend=backend, **settings)
    for make in makes:
        outcomes = []
        for function in (program, compiled):
            torch.manual_seed(5)
            buffer = torch.arange(40.0)
            made = make(buffer)
            results = function(*made) if isinstance(made, tuple) else function(made)
            outcomes.append((results, buffer, torch.rand(1)))
        torch.testing.assert_close(outcomes[1], outcomes[0], rtol=0, atol=0)


@BACKENDS
def test_the_offset_in_the_storage_is_guarded_where_it_is_asked_for(backend: str) -> None:
    def asks(x: torch.Tensor) -> torch.Tensor:
        return x + x.storage_offset() + x[1:].storage_offset()

    def strides(x: torch.Tensor) -> torch.Tensor:
        return x.as_strided((2,), (1,), 3) + x.as_strided((2,), (2,))[1]

    parts = [lambda b, i=i: b[i : i + 6] for i in (0, 5, 2)]
    same(asks, backend, *parts, fullgraph=True)
    same(strides, backend, *parts, fullgraph=True)
    same(lambda x: (x * 0 + x.storage_offset(), x.as_strided((2,), (1,))), backend, *parts, dynamic=True)


def test_no_storage_offset_is_guarded_that_nobody_asks_for() -> None:
    graphs: list[Any] = []

    def backend(graph: Any, examples: Any) -> Any:
        graphs.append(graph)
        return graph

    compiled = onegraph.compile(lambda x: x[1:] + 1, backend=backend)
    for start in range(4):
        assert torch.equal(compiled(torch.arange(9.0)[start : start + 4]), torch.arange(3.0) + start + 2)
    assert len(graphs) == 1


def test_as_strided_of_any_size_is_one_graph() -> None:
    graphs: list[Any] = []

    def backend(graph: Any, examples: Any) -> Any:
        graphs.append(graph)
        return graph

    compiled = onegraph.compile(lambda x: x.as_strided((2,), (1,)) + 1, backend=backend, dynamic=True)
    for size in range(3, 8):
        assert torch.equal(compiled(torch.arange(float(size))), torch.tensor([1.0, 2.0]))
    assert len(graphs) == 1


def write_seen(x: torch.Tensor) -> Any:
    x.add_(1)
    return x.as_strided((3,), (2,)) * 2


def write_through(x: torch.Tensor) -> Any:
    x.as_strided((3,), (1,), 4).mul_(5)
    return x * 2


def write_both(x: torch.Tensor) -> Any:
    part = x.t().as_strided((2, 3), (5, 2))
    x.cumsum_(0)
    part[0] = 3
    x.mul_(2)
    part.add_(1)
    return x, part, part * 2


def write_copy(x: torch.Tensor) -> Any:
    copy = (x * 2).t()
    part = copy[1:].as_strided((2, 2), (4, 1), 2)
    part.add_(copy.sum())
    copy.mul_(3)
    return part, copy, part + 1


@BACKENDS
@pytest.mark.parametrize("program", [write_seen, write_through, write_both, write_copy])
@pytest.mark.parametrize(
    "make",
    [
        lambda b: b.view(5, 8),
        lambda b: b.view(5, 8).t(),
        lambda b: b[4:].view(4, 9),
        lambda b: b[4:20].view(4, 4).t(),
        lambda b: b.view(5, 8)[:, 2:6],
        lambda b: b.view(5, 8)[::2],
        lambda b: b.view(2, 4, 5).permute(1, 0, 2)[1],
    ],
)
def test_writes_and_views_by_strides(program: Any, make: Any, backend: str) -> None:
    same(program, backend, make, make)


@BACKENDS
def test_a_write_to_another_input_is_seen_through_strides(backend: str) -> None:
    def f(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        reaching = x.as_strided((8,), (1,), 0)
        y.mul_(10)
        return reaching + 1

    same(f, backend, lambda b: (b[:4], b[4:8]), lambda b: (b[:4], b[20:24]))


@BACKENDS
@pytest.mark.parametrize("fill", ["normal_()", "uniform_()", "bernoulli_(0.3)", "exponential_()", "random_(0, 9)"])
def test_random_numbers_in_strided_views(fill: str, backend: str) -> None:
    scope: dict[str, Any] = {}
    exec(f"def f(x):\n    x.{fill}\n    first = x * 1\n    x.{fill}\n    return first, x + 0", scope)
    views = [lambda b: b.view(5, 8)[:, :4], lambda b: b.view(8, 5).t(), lambda b: b.view(5, 8)[::2], lambda b: b[3:33]]
    same(scope["f"], backend, *views)
    exec(f"def g(x):\n    part = x.view(5, 8)[:, 1:6]\n    part.{fill}\n    part.{fill}\n    return part + 0", scope)
    same(scope["g"], backend, lambda b: b)


@BACKENDS
def test_random_numbers_go_in_the_order_of_what_was_computed(backend: str) -> None:
    def f(x: torch.Tensor) -> Any:
        x.index_fill_(0, torch.tensor([0]), 0.5)
        chances = x.clamp(0, 1).index_fill(1, torch.tensor([1]), 0.25)
        drawn = torch.bernoulli(chances), torch.nn.functional.dropout(chances, 0.4), torch.rand_like(chances)
        x.normal_()
        return drawn

    same(f, backend, lambda b: b.view(8, 5).t(), lambda b: b.view(5, 8), lambda b: b.view(5, 8)[:, 1:4])


def filled_by_mask(x: torch.Tensor) -> None:
    x.squeeze().masked_fill_(x > 3, -1)


def clamped_transposed(x: torch.Tensor) -> None:
    y = x.t()
    y.clamp_(max=3)
    y.copy_(y.sum())


def summed_up_transposed(x: torch.Tensor) -> None:
    x.unsqueeze(0).transpose(0, -1).cumsum_(0)


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "native"])
@pytest.mark.parametrize("write", [filled_by_mask, clamped_transposed, summed_up_transposed])
@pytest.mark.parametrize("transposed", [False, True])
def test_what_comes_from_a_tensor_that_was_written_to_lies_as_it_does(write, backend, transposed) -> None:
    def f(x):
        write(x)
        return x * 2, x.t() * 2

    def call(function):
        x = torch.arange(16.0).reshape(4, 4)
        return [(each.stride(), each.tolist()) for each in function(x.t() if transposed else x)]

    assert call(onegraph.compile(f, backend=backend)) == call(f)
