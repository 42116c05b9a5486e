from __future__ import annotations

import torch
from autograd.programs import check, operators
from torch import Tensor

from onegraph.autograd.duplicates import fingerprint


def test_unused_operators_go_and_random_ones_stay() -> None:
    def program(x: Tensor) -> tuple[Tensor, ...]:
        x.sin()
        torch.rand(3)
        return (x + 1,)

    assert operators(check(program, torch.randn(3))) == ["rand", "add.Tensor"]


def test_equal_expressions_are_computed_once() -> None:
    graph = check(lambda x: (x.sin() + x.sin() * 2,), torch.randn(3))
    assert operators(graph) == ["sin", "mul.Tensor", "add.Tensor"]


def test_random_expressions_are_not_equal() -> None:
    graph = check(lambda x: (torch.rand_like(x) - torch.rand_like(x),), torch.randn(3))
    assert operators(graph) == ["rand_like", "rand_like", "sub.Tensor"]


def test_what_differs_only_in_type_or_sign_is_not_equal() -> None:
    values = [1, 1.0, True, 0.0, -0.0, (1,), [1], "1", None, slice(1, 2), complex(0.0, -0.0), complex(0.0, 0.0)]
    different = [v for v in values if v != [1]]
    assert len({fingerprint(v) for v in different}) == len(different)


def test_copies_that_nobody_writes_to_go() -> None:
    graph = check(lambda x: (x.clone() + 1, (x * 2).contiguous().to(torch.float32)), torch.randn(3))
    assert operators(graph) == ["add.Tensor", "mul.Tensor"]


def test_expressions_of_literals_are_computed_at_once() -> None:
    graph = check(lambda x: (x * (torch.tensor([1.0, 2.0]) - 0.5).exp(),), torch.randn(2))
    assert operators(graph) == ["mul.Tensor"]
