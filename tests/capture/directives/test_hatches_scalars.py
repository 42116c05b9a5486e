"""capture_scalar_outputs: numbers that are taken out of tensors stay in the graph."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import onegraph
from onegraph.base import events as ev
from tests.capture.resume.test_breaks import Watch

X = torch.tensor([1.5, -2.0, 4.0])
OPTIONS: dict[str, Any] = {"options": {"capture_scalar_outputs": True}}
backends = pytest.mark.parametrize("backend", ["eager", "aot_eager", "native"])


def check(function: Any, *inputs: torch.Tensor, backend: str = "native", whole: bool = True) -> None:
    """Eager's results for each input, by the graph that was made for the first."""
    compiled = onegraph.compile(function, backend=backend, fullgraph=whole, **OPTIONS)
    with Watch() as watch:
        for x in inputs:
            expected, result = function(x), compiled(x)
            torch.testing.assert_close(result, expected)
            assert type(result) is type(expected)
    if whole:
        assert len(watch.graphs) == 1


@backends
def test_numbers_go_on_in_operators(backend: str) -> None:
    check(lambda x: x * x.sum().item() + 1, X, -X, X * 0, backend=backend)
    check(lambda x: x + x.argmax().item() * 2 - 3, X, -X, backend=backend)
    check(lambda x: torch.full((2,), x.max().item() / 3), X, -X, backend=backend)


@backends
def test_numbers_are_returned(backend: str) -> None:
    check(lambda x: x.sum().item(), X, -X, backend=backend)
    check(lambda x: (x.argmax().item() - 5, x.sum().item() / 2, [x.max().item()], x * 2), X, -X, backend=backend)


def test_without_being_asked_it_breaks() -> None:
    with pytest.raises(onegraph.GraphBreakError, match="item"):
        onegraph.compile(lambda x: x * x.sum().item(), fullgraph=True)(X)


def test_conversions() -> None:
    check(lambda x: x * float(x.sum()) + int(x.argmin()), X, -X)
    with pytest.raises(onegraph.GraphBreakError):
        onegraph.compile(lambda x: int(x.sum()), fullgraph=True, **OPTIONS)(X)


def branch(x):
    n = x.sum().item()
    return x + 1 if n > 0 else x - 1


def size(x):
    return torch.zeros(abs(x.argmax().item()) + 1)


def text(x):
    return f"{x.sum().item():.1f}", x + 1


def divide(x):
    n = x.argmin().item() - 1
    return x + n // 2, x + n % 2, x + max(n, 0)


@pytest.mark.parametrize("function", [branch, size])
def test_what_needs_the_digits_breaks(function: Any) -> None:
    with pytest.raises(onegraph.GraphBreakError):
        onegraph.compile(function, fullgraph=True, **OPTIONS)(X)
    check(function, X, -X, X, whole=False)


def test_what_is_asked_of_an_integer_is_checked() -> None:
    """It is not negative, as sizes are; a call where it is runs as it was written."""
    check(divide, -X, X, -X)


def test_text_of_a_number_breaks() -> None:
    compiled = onegraph.compile(text, **OPTIONS)
    for x in (X, -X):
        assert compiled(x)[0] == text(x)[0]


def test_across_a_break() -> None:
    def f(x):
        n = x.sum().item()
        onegraph.graph_break()
        return x * n, n

    check(f, X, -X, X, whole=False)


def test_the_tensor_may_change_afterwards() -> None:
    def f(x):
        y = x.clone()
        n = y.sum().item()
        y.add_(1)
        return y * n

    check(f, X, -X)


def test_gradients() -> None:
    x = X.clone().requires_grad_()
    onegraph.compile(lambda x: (x * x.detach().sum().item()).sum(), fullgraph=True, **OPTIONS)(x).backward()
    assert torch.equal(x.grad, X.sum().expand(3))


@pytest.mark.parametrize("check", [torch._check, torch._check_value], ids=lambda f: f.__name__)
def test_a_check_of_a_number_is_one_of_the_graph(check: Any) -> None:
    def program(x):
        n = (x + 1).item()
        check(n >= 0)
        return x * n

    with Watch() as watch:
        assert onegraph.compile(program, **OPTIONS)(torch.tensor(2)) == 6
    assert not watch.of(ev.GraphBroken)
    with pytest.raises(Exception, match="cond to be True|Expected"):
        onegraph.compile(program, **OPTIONS)(torch.tensor(-3))


def test_torch_configuration_is_honoured() -> None:
    import torch._dynamo.config as config

    with config.patch(capture_scalar_outputs=True):
        compiled = onegraph.compile(lambda x: x * x.sum().item(), fullgraph=True)
        assert torch.equal(compiled(X), X * X.sum())
