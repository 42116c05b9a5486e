"""torch.vmap over values without dimensions, with numbers and sizes that change."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch

import onegraph

OPERATIONS: dict[str, Callable[..., torch.Tensor]] = {
    "mul": lambda v, s: v * s,
    "rsub": lambda v, s: s - v,
    "rdiv": lambda v, s: s / v,
    "floordiv": lambda v, s: v // s,
    "pow": lambda v, s: v**s,
    "gt": lambda v, s: v > s,
    "where": lambda v, s: torch.where(v > 1, v, s),
    "alpha": lambda v, s: torch.add(v, v, alpha=s),
    "half": lambda v, s: v.half() * s,
    "long": lambda v, s: v.long() * s,
    "sum": lambda v, s: (v * s).sum(),
    "in place": lambda v, s: v.clone().mul_(s),
    "tensor": lambda v, s: v * torch.tensor(s),
}
NUMBERS = {"int": (2, 3, 4), "float": (2.5, 3.5, 4.25)}


@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize("numbers", NUMBERS)
def test_numbers_that_change(operation: str, numbers: str) -> None:
    def function(y: torch.Tensor, s: Any) -> torch.Tensor:
        return torch.vmap(lambda v: OPERATIONS[operation](v, s))(y)

    compiled, y = onegraph.compile(function, fullgraph=True), torch.tensor([1.0, 2.0, 5.0])
    for s in NUMBERS[numbers]:
        torch.testing.assert_close(compiled(y, s), function(y, s))


def test_gradients_where_a_number_changes() -> None:
    def function(y: torch.Tensor, s: Any) -> torch.Tensor:
        return torch.vmap(lambda v: (v * s).sin() / s)(y).sum()

    compiled = onegraph.compile(function)
    for s in (2, 3, 4):
        gradients = []
        for each in (compiled, function):
            y = torch.tensor([1.0, 2.0, 5.0], requires_grad=True)
            each(y, s).backward()
            gradients.append(y.grad)
        torch.testing.assert_close(*gradients)


def test_sizes_that_change_give_no_warning() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        return torch.vmap(lambda a: a.softmax(0) * a.sum() / x.shape[0], in_dims=1, out_dims=1)(x)

    compiled = onegraph.compile(function, fullgraph=True)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for size in (3, 2, 5):
            x = torch.arange(4.0 * size).reshape(size, 4)
            torch.testing.assert_close(compiled(x), function(x))
            torch.testing.assert_close(compiled(x.t()), function(x.t()))


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "native"])
def test_outside_of_a_level_a_tensor_is_no_dual_number(backend: str) -> None:
    """Where one is open, calls run as they are written."""
    forward_ad = torch.autograd.forward_ad

    def program(x: torch.Tensor) -> torch.Tensor:
        dual = forward_ad.unpack_dual(x * 2)
        return dual.primal + 1 if dual.tangent is None else dual.tangent

    compiled, x = onegraph.compile(program, fullgraph=True, backend=backend), torch.randn(3)
    torch.testing.assert_close(compiled(x), program(x))
    with forward_ad.dual_level():
        torch.testing.assert_close(compiled(forward_ad.make_dual(x, x + 1)), (x + 1) * 2)
    torch.testing.assert_close(compiled(x), program(x))
