"""Autograd counts the writes to a tensor, and refuses to go back through what has changed: compiled code counts too."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F

import onegraph

WRITES: dict[str, Callable[[torch.Tensor], Any]] = {
    "once": lambda x: x.add_(1),
    "to a part": lambda x: x[:2].mul_(2),
    "of an item": lambda x: x.__setitem__(0, 1.0),
    "several": lambda x: [x.add_(i) for i in range(4)],
    "to all parts": lambda x: [part.add_(1) for part in x.unbind()],
    "through data": lambda x: x.data.add_(1),
    "through data and itself": lambda x: (x.data.add_(1), x.mul_(2)),
    "through detach": lambda x: x.detach().add_(1),
    "of itself": lambda x: x.copy_(x),
    "of nothing": lambda x: x[:0].add_(1),
    "as an output": lambda x: torch.add(x, 1, out=x),
    "statistics": lambda x: F.batch_norm(torch.ones(3, 4).cumsum(0), x, x.abs(), training=True),
    "in a list": lambda x: torch._foreach_add_([x, x.clone()], 1.0),
    "to parts in a list": lambda x: torch._foreach_mul_(list(x.unbind()), 2.0),
    "to a result": lambda x: (x * 2).add_(1).mul_(3),
    "to a new tensor": lambda x: x.new_zeros(4).copy_(x),
    "to a result and its view": lambda x: (lambda y: (y.add_(1), y[1:].mul_(2), y))(x * 2),
    "to several data": lambda x: (x.detach().add_(1), x.data.mul_(2), x.data.add_(1).mul_(2)),
    "to data and detached of a result": lambda x: (lambda y: (y, y.data.mul_(2).add_(1), y.detach().add_(1)))(x * 2),
    "to the data of a result": lambda x: (lambda y: (y.data.add_(1), y))(x * 2)[1],
}


def counts(function: Callable[..., Any]) -> list[int]:
    x = torch.arange(4.0) + 1
    result = function(x)
    results = result if isinstance(result, (tuple, list)) else [result]
    return [x._version, *(out._version for out in results if isinstance(out, torch.Tensor))]


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "native"])
@pytest.mark.parametrize("name", list(WRITES))
def test_writes_are_counted(name: str, backend: str) -> None:
    write = WRITES[name]

    def program(x: torch.Tensor) -> Any:
        return write(x), x.sum()

    assert counts(onegraph.compile(lambda x: program(x)[0], backend=backend)) == counts(lambda x: program(x)[0])


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "native"])
@pytest.mark.parametrize("through_data", [True, False])
def test_the_way_back_is_refused_when_it_is_in_eager_mode(through_data: bool, backend: str) -> None:
    @torch.no_grad()
    def halve(x: torch.Tensor) -> None:
        (x.data if through_data else x).mul_(0.5)

    def gradient(halve: Callable[[torch.Tensor], None]) -> Any:
        x = torch.arange(4.0).requires_grad_()
        square = x * x
        halve(x)
        try:
            square.sum().backward()
        except RuntimeError as error:
            return str(error)
        return x.grad

    expected, actual = gradient(halve), gradient(onegraph.compile(halve, backend=backend))
    assert isinstance(expected, str) != through_data
    assert actual == expected if isinstance(expected, str) else torch.equal(actual, expected)
