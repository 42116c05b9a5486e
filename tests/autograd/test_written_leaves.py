"""Leaves that are written to where nothing is recorded, in graphs that record gradients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

import onegraph
from onegraph.base.events import OperatorFellBack
from tests.capture.resume.test_breaks import Watch

WEIGHT = torch.nn.Parameter(torch.ones(3))


def before_its_use(x: Tensor) -> Any:
    with torch.no_grad():
        WEIGHT.mul_(2)
    return (WEIGHT * x).sin().sum()


def behind_its_use(x: Tensor) -> Any:
    y = (WEIGHT + x).sin().sum()
    with torch.no_grad():
        WEIGHT.add_(1)
    return y


def behind_a_use_that_keeps_it(x: Tensor) -> Any:
    y = (WEIGHT * x).sin().sum()
    with torch.no_grad():
        WEIGHT.add_(1)
    return y


def between_its_uses(x: Tensor) -> Any:
    y = (WEIGHT + x).sin()
    with torch.no_grad():
        WEIGHT.mul_(2)
    return (y * 2 + WEIGHT.cos() * x).sum()


def through_its_data(x: Tensor) -> Any:
    WEIGHT.data.mul_(2)
    return (WEIGHT * x).sum()


def through_its_data_between_uses(x: Tensor) -> Any:
    y = WEIGHT * x
    WEIGHT.data.mul_(2)
    return (y + WEIGHT * x).sum()


def as_a_whole(x: Tensor) -> Any:
    with torch.no_grad():
        WEIGHT.copy_(x.detach() * 2)
    return (WEIGHT * x).pow(2).sum()


def in_part(x: Tensor) -> Any:
    with torch.no_grad():
        WEIGHT[1:] = 5
    return (WEIGHT * x).pow(2).sum()


def and_returned(x: Tensor) -> Any:
    with torch.no_grad():
        WEIGHT.mul_(2)
    return WEIGHT * x, WEIGHT


def and_viewed(x: Tensor) -> Any:
    with torch.no_grad():
        WEIGHT.mul_(2)
    return WEIGHT * x, WEIGHT[1:]


def without_a_use(x: Tensor) -> Any:
    with torch.no_grad():
        WEIGHT.mul_(2)
    return (x * 3).sum()


#: What eager has kept has changed, or is known to have.
AS_EAGER = (behind_a_use_that_keeps_it, through_its_data, through_its_data_between_uses)
PROGRAMS = (
    before_its_use, behind_its_use, behind_a_use_that_keeps_it, between_its_uses, through_its_data, as_a_whole, in_part,
    and_returned, and_viewed, without_a_use, through_its_data_between_uses,
)  # fmt: skip


def outcome(function: Callable[[Tensor], Any]) -> list[Any]:
    """Of three calls: results, gradients, errors, the parameter, and how often autograd has counted a write to it."""
    found: list[Any] = []
    with torch.no_grad():
        WEIGHT.fill_(1)
    WEIGHT.grad, counted = None, WEIGHT._version
    for _ in range(3):
        x = torch.linspace(0, 1, 3).requires_grad_()
        results = function(x)
        results = results if isinstance(results, tuple) else (results,)
        found += [*(each.detach().clone() for each in results), [each.is_leaf for each in results]]
        try:
            sum(each.sum() for each in results).backward()
        except RuntimeError as error:
            found.append("modified by an inplace operation" in str(error))
        found += [x.grad, None if WEIGHT.grad is None else WEIGHT.grad.clone(), WEIGHT.detach().clone()]
        found.append(WEIGHT._version - counted)
    return found


@pytest.mark.parametrize("backend", ["aot_eager", "native"])
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_results_are_eagers(program: Callable[[Tensor], Any], backend: str) -> None:
    expected = outcome(program)
    with Watch() as watch:
        found = outcome(onegraph.compile(program, fullgraph=True, backend=backend))
    torch.testing.assert_close(found, expected)
    assert bool(watch.of(OperatorFellBack)) is (program in AS_EAGER)
