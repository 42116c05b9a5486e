"""`forward_ad.dual_level` inside of compiled code, outside of any transform."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.autograd.forward_ad as forward

import onegraph


def level(x: torch.Tensor, w: torch.Tensor) -> Any:
    with forward.dual_level():
        found = forward.unpack_dual(forward.make_dual(x, torch.ones_like(x)).sin() * w)
        return found.primal, found.tangent


def by_functions(x: torch.Tensor, w: torch.Tensor) -> Any:
    number = forward.enter_dual_level()
    found = forward.unpack_dual(forward.make_dual(x, w, level=number).exp(), level=number)
    forward.exit_dual_level(level=number)
    return found.tangent * 2, found.primal


def derivative(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    with forward.dual_level():
        return forward.unpack_dual(forward.make_dual(x, w).tanh().sum()).tangent


def twice(x: torch.Tensor, w: torch.Tensor) -> Any:
    return derivative(x, w) + derivative(w, x)


def handled(x: torch.Tensor, w: torch.Tensor) -> Any:
    z = x + 1
    try:
        with forward.dual_level():
            forward.make_dual(z, w)
            raise ValueError
    except ValueError:
        pass
    return z * 3


def outliving(x: torch.Tensor, w: torch.Tensor) -> Any:
    with forward.dual_level():
        dual = forward.make_dual(x, w)
        found = forward.unpack_dual(torch.nn.functional.linear(dual.unsqueeze(0), torch.outer(w, w)).relu())
    return found.tangent.sum(), dual.sin()


def over_gradients(x: torch.Tensor, w: torch.Tensor) -> Any:
    with forward.dual_level():
        gradient = torch.func.grad(lambda t: (t**3).sum())(forward.make_dual(x, w))
        return forward.unpack_dual(gradient).tangent


WHOLE = [level, by_functions, twice, handled, outliving, over_gradients]


def broken(x: torch.Tensor, w: torch.Tensor) -> Any:
    y = x * 2
    with forward.dual_level():
        dual = forward.make_dual(y, w)
        onegraph.graph_break()
        tangent = forward.unpack_dual(dual.cos()).tangent
    return tangent + 1


def decided(x: torch.Tensor, w: torch.Tensor) -> Any:
    z = x + 1
    with forward.dual_level():
        dual = forward.make_dual(z, w)
        return forward.unpack_dual(dual * 2 if dual.sum() > 0 else dual * 3).tangent


def left_open(x: torch.Tensor, w: torch.Tensor) -> Any:
    forward.enter_dual_level()
    return forward.unpack_dual(forward.make_dual(x, w).sin()).tangent


def nested(x: torch.Tensor, w: torch.Tensor) -> Any:
    with forward.dual_level(), forward.dual_level():
        return x


@pytest.mark.parametrize("recorded", [False, True], ids=["", "gradients"])
@pytest.mark.parametrize("backend", ["eager", "aot_eager", "native"])
@pytest.mark.parametrize("program", [*WHOLE, broken, decided, left_open, nested], ids=lambda each: each.__name__)
def test_tangents_are_eagers(program: Callable[..., Any], backend: str, recorded: bool) -> None:
    compiled = onegraph.compile(program, backend=backend, fullgraph=program in WHOLE)
    found: list[Any] = []
    for function in (program, compiled, compiled):
        torch.manual_seed(0)
        x, w = torch.randn(4, requires_grad=recorded), torch.randn(4, requires_grad=recorded)
        try:
            result = function(x, w)
        except RuntimeError as error:
            result = str(error)
        opened = torch.autograd.forward_ad._current_level + 1
        for _ in range(opened):
            forward.exit_dual_level()
        results = result if isinstance(result, tuple) else (result,)
        total = sum(each.sum() for each in results if isinstance(each, torch.Tensor) and each.requires_grad)
        if isinstance(total, torch.Tensor):
            total.backward()
        found.append((results, opened, x.grad, w.grad))
    for other in found[1:]:
        if isinstance(found[0][0][0], str):
            assert other == found[0]
        else:
            torch.testing.assert_close(other, found[0])
