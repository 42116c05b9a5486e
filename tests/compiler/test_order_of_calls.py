"""Library calls that do more than give results stay in their order, whatever is fused around them."""

from __future__ import annotations

from typing import Any

import torch

import onegraph
from onegraph.torchlib.aten import functional_form, has_effect

SEEN: list[str] = []


@torch.library.custom_op("order_of_calls::noted", mutates_args=())
def noted(x: torch.Tensor, name: str) -> torch.Tensor:
    SEEN.append(name)
    return x.clone()


@noted.register_fake
def _(x: torch.Tensor, name: str) -> torch.Tensor:
    return torch.empty_like(x)


@torch.library.custom_op("order_of_calls::noted_in", mutates_args=("x",))
def noted_in(x: torch.Tensor, name: str) -> None:
    SEEN.append(name)


def with_seed(f: Any, *inputs: torch.Tensor) -> torch.Tensor:
    torch.manual_seed(3)
    return f(*inputs)


def test_random_numbers_are_drawn_in_order() -> None:
    """The loops behind the second draw are fused with some that come before the first one."""

    def f(a: torch.Tensor, b: torch.Tensor, c: torch.Tensor) -> Any:
        scaled = b.mT / c.unsqueeze(-2)
        first = torch.empty(1).normal_()
        second = torch.empty(3).normal_()
        return a + (b @ first.unsqueeze(-1)).squeeze(-1) + c.sqrt() * second, scaled @ b

    inputs = torch.randn(3), torch.randn(3, 1), torch.rand(3)
    expected, found = (with_seed(function, *inputs) for function in (f, onegraph.compile(f, fullgraph=True)))
    torch.testing.assert_close(found, expected)


def test_custom_operators_are_called_in_order() -> None:
    def f(x: torch.Tensor, y: torch.Tensor) -> Any:
        scaled = y.mT / x.unsqueeze(-2)
        first = noted(torch.zeros(1), "first")
        second = noted(torch.zeros(3), "second")
        return x + (y @ first.unsqueeze(-1)).squeeze(-1) + second * x, scaled @ y

    SEEN.clear()
    onegraph.compile(f, fullgraph=True)(torch.rand(3), torch.rand(3, 1))
    assert SEEN == ["first", "second"]


def test_a_custom_operator_whose_writes_nobody_reads_is_called() -> None:
    def f(x: torch.Tensor) -> torch.Tensor:
        noted_in(torch.zeros(2), "unread")
        return x + 1

    SEEN.clear()
    onegraph.compile(f, fullgraph=True)(torch.rand(4))
    assert SEEN == ["unread"]
    assert has_effect(functional_form(torch.ops.order_of_calls.noted_in.default))
    assert not has_effect(functional_form(torch.ops.aten._foreach_add_.Scalar))
