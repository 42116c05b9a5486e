"""Sizes 0 and 1 are served by the version for all others, unless what an operator does depends on them."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

import onegraph
from onegraph.base import events as ev
from onegraph.torchlib.shapes import Condition, Sizes
from tests.capture.resume.test_breaks import Watch
from tests.capture.symbolic.random_sizes import outcome, same

#: Two versions serve all sizes: the first one, and all others.
GENERAL: dict[str, Callable[[Tensor], Any]] = {
    "number": lambda x: x * 2 + 1,
    "operands": lambda x: x * x + torch.sigmoid(x),
    "row": lambda x: x + x.sum(0),
    "column": lambda x: x - x.mean(1, keepdim=True),
    "where": lambda x: torch.where(x > 1, x, 0.0),
    "sums": lambda x: (x.sum(), x.sum(0), x.sum(1), x.prod()),
    "mean of nothing": lambda x: (x.mean(), x.mean(0)),
    "scan": lambda x: x.cumsum(0),
    "rows as columns": lambda x: x.new_ones(2, x.shape[0]) * 2,
    "flat": lambda x: (x.view(-1) + 1, x.reshape(-1) * 2, x.flatten() - 1),
    "copies": lambda x: (x.clone(), x.to(torch.int32)),
    "in place": lambda x: x.clone().add_(1).mul_(x),
    "new": lambda x: x.new_zeros(x.shape[0], 2) + 1,
    "column of items": lambda x: x[:, 1] * 2,
    "a number of it": lambda x: x.sum() + x.numel(),
    "product": lambda x: x @ torch.ones(3, 4),
    "product over it": lambda x: torch.ones(2, x.shape[0]) @ x,
    "its own product": lambda x: x @ x.t(),
    "vectors": lambda x: (x @ torch.ones(3), torch.dot(x[:, 0], x[:, 1])),
    "layer": lambda x: F.linear(x, torch.ones(4, 3), torch.ones(4)),
    "batch of products": lambda x: torch.baddbmm(torch.ones(1, 4, 1), x.t()[None], torch.ones(1, x.shape[0], 1)),
    "embedded": lambda x: F.embedding(x.long()[:, 0].clamp(0, 4), torch.ones(5, 3)),
    "other order": lambda x: (x[:, None], x.t(), x[None].permute(1, 0, 2).clone(), x.transpose(0, 1).to(torch.int32)),
    "made like another order": lambda x: (torch.zeros_like(x.t()), torch.full_like(x[None].permute(1, 0, 2), 2.0)),
    "sorted": lambda x: (x.sort(0), x.t().sort(-1, stable=True), x.flip(0)),
}
#: What 0 or 1 has a version of its own for, by the operator.
OWN: dict[str, Callable[[Tensor], Any]] = {
    "largest": lambda x: x.amax(0),
    "place": lambda x: x.argmax(0),
    "first": lambda x: x[0] * 2,
    "rest": lambda x: x[1:] + 1,
    "transposed": lambda x: x.t() * 1.0,
    "gathered": lambda x: x.t().contiguous(),
    "squeezed": lambda x: x.squeeze(),
    "inferred": lambda x: x.view(x.shape[0], -1),
    "joined": lambda x: torch.cat([x, x]),
    "softmax": lambda x: x.softmax(0),
    "variance": lambda x: x.var(0),
    "branch": lambda x: x + 1 if x.shape[0] else x - 1,
    "other order and a number": lambda x: x[None].permute(1, 0, 2) + 1,
    "attention": lambda x: F.scaled_dot_product_attention(torch.ones(1, 2, 4, 3), *[x.expand(1, 2, *x.shape)] * 2),
    "pairs": lambda x: x[:, None] * x,
    "expanded": lambda x: torch.ones(3).expand(x.shape[0], 3) + x,
}
ORDERS = ((5, 7, 1, 0, 2), (0, 1, 5, 7), (1, 0, 2), (1, 5, 0), (5, 1, 0, 7), (5, 0, 7, 1))


def layout(value: Any) -> Any:
    if isinstance(value, tuple):
        return tuple(map(layout, value))
    return (value.shape, value.stride(), value.dtype, value.storage_offset()) if isinstance(value, Tensor) else value


def versions(f: Callable[[Tensor], Any], sizes: tuple[int, ...], backend: str) -> int:
    onegraph.reset()
    compiled = onegraph.compile(f, backend=backend)
    with Watch() as watch, torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for n in sizes:
            x = torch.arange(3.0 * n).reshape(n, 3)
            expected, result = outcome(f, x), outcome(compiled, x)
            assert same(expected, result) and layout(expected) == layout(result), n
    return len(watch.of(ev.FrameStarted))


@pytest.mark.parametrize("backend", ["eager", "native"])
@pytest.mark.parametrize("name", GENERAL)
def test_zero_and_one_are_sizes_as_all_others(name: str, backend: str) -> None:
    assert [versions(GENERAL[name], sizes, backend) for sizes in ORDERS] == [2] * len(ORDERS)


@pytest.mark.parametrize("name", OWN)
def test_what_depends_on_small_sizes_is_asked(name: str) -> None:
    for sizes in ORDERS:
        assert versions(OWN[name], sizes, "native") <= len({*sizes} & {0, 1}) + 2


@pytest.mark.parametrize(
    "made",
    [
        lambda n: torch.arange(3.0).expand(n, 3),
        lambda n: torch.arange(3.0 * n).reshape(3, n).t(),
        lambda n: torch.arange(6.0 * n).reshape(n, 2, 3)[:, 1],
    ],
)
def test_tensors_that_are_not_contiguous(made: Callable[[int], Tensor]) -> None:
    """One that is expanded is read before the loop over its rows."""

    def f(x: Tensor) -> tuple[Tensor, ...]:
        return x[:, 1] * 2, x * 2, x + x.sum(1, keepdim=True)

    for sizes in ORDERS:
        onegraph.reset()
        compiled = onegraph.compile(f)
        for n in sizes:
            expected, result = f(made(n)), compiled(made(n))
            assert same(list(expected), list(result)) and layout(expected) == layout(result), n


def test_gradients_of_small_sizes() -> None:
    def f(x: Tensor, w: Tensor) -> Tensor:
        return (F.relu(x * w) + x.sum(0)).sum()

    compiled = onegraph.compile(f)
    for n in (5, 7, 0, 1, 3):
        gradients = []
        for function in (f, compiled):
            x, w = torch.arange(3.0 * n).reshape(n, 3).requires_grad_(), torch.ones(3, requires_grad=True)
            gradients.append(torch.autograd.grad(function(x, w), (x, w)))
        torch.testing.assert_close(*gradients)


def test_a_question_excludes_what_has_another_answer() -> None:
    sizes = Sizes()
    n, m, k = (sizes.new(hint, name, may_be_small=True).node.index for hint, name in ((5, "n"), (7, "m"), (0, "k")))
    assert sizes.certain(Condition("<=", 0 * n, n)) and sizes.certain(Condition("<", 0 * n, n)) is None
    a = sizes.new(1, "a", may_be_small=True).node.index  # which no small number decides
    assert not sizes.holds(Condition("==", n, n * 0 + 1))
    assert sizes.small.of(n.symbol) == {0} and sizes.certain(Condition("==", n, n * 0 + 1)) is False
    assert sizes.holds(Condition("<", m * 0 + 1, m)) and not sizes.small.of(m.symbol)
    assert sizes.holds(Condition("!=", m, m * 0)) and not sizes.guards
    assert sizes.holds(Condition("==", k, k * 0)) and sizes.simplify(k * 3 + 1) == 1
    assert sizes.holds(Condition("<=", a * a, a * 14)) and sizes.simplify(a) == a and sizes.guards


@pytest.mark.parametrize("backend", ["eager", "native"])
def test_a_size_that_would_divide_by_zero_is_none_of_the_graph(backend: str) -> None:
    def program(x: Tensor, y: Tensor) -> list[Tensor]:
        n, m = x.shape[0], y.shape[0]
        return [x.sum(), x[: abs(2 // (n * 2) + (m * m) % (m % 16)) % n + 1].sum(0), y[abs(m >> 1 >> 3) % 2 :]]

    compiled = onegraph.compile(program, backend=backend, options={"raise_compiler_errors": True})
    for n, m in ((32, 3), (7, 8), (64, 13), (31, 33), (16, 5), (5, 16), (33, 31), (3, 0)):
        x, y = torch.arange(float(n)), torch.arange(float(m))
        assert same(outcome(program, x, y), outcome(compiled, x, y))
