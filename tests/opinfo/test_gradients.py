"""Gradients of compiled operators are eager's: `python -m tests.opinfo gradients` asks all operators."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from opinfo.gradients import check_gradients, compare, trained
from opinfo.harness import operators
from torch import Tensor


def named(op: Any) -> str:
    return op.formatted_name


SOME = "addmm cumprod index_add max_reduction_with_dim nn_functional_gelu nn_functional_layer_norm var_mean".split()


@pytest.mark.parametrize(
    "op", [op for op in operators() if op.formatted_name in SOME], ids=lambda op: op.formatted_name
)
def test_gradients_are_eagers(op: Any) -> None:
    assert check_gradients(op, torch.float64, limit=2) > 0


class Doubled(torch.autograd.Function):
    """As it is, but for its gradient."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x * 1

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        return gradient * 2


WRONG: dict[str, Callable[[Tensor], Any]] = {
    "gradient": lambda x: (Doubled.apply(x),),
    "no gradient": lambda x: (x.detach() * 1,),
    "result": lambda x: (x * 1.001,),
    "layout": lambda x: (x.t().contiguous().t(),),
}


@pytest.mark.parametrize("wrong", WRONG.values(), ids=WRONG)
def test_a_difference_is_seen(wrong: Any) -> None:
    x = torch.arange(6.0, dtype=torch.float64).view(2, 3).requires_grad_()
    expected = trained(lambda x: (x * 1,), [x])
    compare(trained(lambda x: (x * 1,), [x]), expected, expected, expected, x.dtype)
    with pytest.raises(AssertionError):
        compare(trained(wrong, [x]), expected, expected, expected, x.dtype)


def test_an_exception_must_be_the_same() -> None:
    x = torch.ones(2, dtype=torch.float64, requires_grad=True)
    expected = trained(lambda x: (x @ torch.ones(3, dtype=x.dtype),), [x])
    compare(expected, expected, expected, expected, x.dtype)
    with pytest.raises(AssertionError):
        compare(trained(lambda x: (x,), [x]), expected, expected, expected, x.dtype)
