"""Backward passes that are looked at, or given something else than plain tensors: each is eager's."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.autograd import forward_ad
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

import onegraph

BACKENDS = ["aot_eager", "native"]


def powers(x: Tensor) -> Tensor:
    return (x**3).cumsum(0)


def dropped(x: Tensor) -> Tensor:
    return F.dropout(x.exp() * 2, 0.5)


def normalized(x: Tensor) -> Tensor:
    return F.layer_norm(x.sin() @ torch.ones(3, 3) + x, (3,))


def written(x: Tensor) -> Tensor:
    y = x * 2
    y[1:] *= x[1:]
    return y


PROGRAMS = [powers, dropped, normalized, written]
GIVEN = torch.tensor([0.5, -1.0, 2.0])


def batched(f: Callable[..., Tensor]) -> list[Any]:
    x = GIVEN.clone().requires_grad_()
    return [*torch.autograd.grad(f(x), x, torch.eye(3), is_grads_batched=True)]


def batched_twice(f: Callable[..., Tensor]) -> list[Any]:
    x = GIVEN.clone().requires_grad_()
    (first,) = torch.autograd.grad(f(x), x, torch.eye(3), is_grads_batched=True, create_graph=True)
    return [first.detach(), *torch.autograd.grad(first.sum(), x)]


def jacobian(f: Callable[..., Tensor]) -> list[Any]:
    return [torch.autograd.functional.jacobian(f, GIVEN.clone(), vectorize=True)]


def hessian(f: Callable[..., Tensor]) -> list[Any]:
    return [torch.autograd.functional.hessian(lambda x: f(x).sum(), GIVEN.clone(), vectorize=True)]


def mapped(f: Callable[..., Tensor]) -> list[Any]:
    x = GIVEN.clone().requires_grad_()
    y = f(x)
    return [torch.vmap(lambda v: torch.autograd.grad(y, x, v, retain_graph=True)[0])(torch.eye(3))]


def mapped_by_rows(f: Callable[..., Tensor]) -> list[Any]:
    x = GIVEN.clone().requires_grad_()
    y = f(x)
    rows = torch.vmap(torch.vmap(lambda v: torch.autograd.grad(y, x, v, retain_graph=True)[0]), in_dims=1)
    return [rows(torch.randn(3, 2, 3, generator=torch.Generator().manual_seed(0)))]


def given(gradient: Callable[[], Tensor]) -> Callable[[Callable[..., Tensor]], list[Any]]:
    def take(f: Callable[..., Tensor]) -> list[Any]:
        x = GIVEN.clone().requires_grad_()
        f(x).backward(gradient())
        return [x.grad]

    return take


def along(f: Callable[..., Tensor]) -> list[Any]:
    x = GIVEN.clone().requires_grad_()
    y = f(x)
    with forward_ad.dual_level():
        (found,) = torch.autograd.grad(y, x, forward_ad.make_dual(torch.ones(3), torch.arange(3.0)))
        return [*forward_ad.unpack_dual(found)]


class Watching(TorchDispatchMode):
    """Notes the operators, and changes one of them."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[str] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.seen.append(str(func))
        result = func(*args, **(kwargs or {}))
        return result * 10 if func is torch.ops.aten.cos.default else result


class Counting(TorchFunctionMode):
    calls = 0

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.calls += 1
        return func(*args, **(kwargs or {}))


def watched(f: Callable[..., Tensor]) -> list[Any]:
    x = GIVEN.clone().requires_grad_()
    y = f(x).sum()
    with Watching() as mode:
        y.backward()
    return [x.grad, {name: torch.tensor(mode.seen.count(name)) for name in mode.seen}]


def counted(f: Callable[..., Tensor]) -> list[Any]:
    x = GIVEN.clone().requires_grad_()
    y = f(x).sum()
    with Counting() as mode:
        y.backward(torch.ones(()))
    return [x.grad, mode.calls]


WAYS: dict[str, Callable[[Callable[..., Tensor]], list[Any]]] = {
    "batched": batched,
    "batched-twice": batched_twice,
    "jacobian": jacobian,
    "hessian": hessian,
    "mapped": mapped,
    "mapped-twice": mapped_by_rows,
    "zeros-without-memory": given(lambda: torch._efficientzerotensor((3,))),
    "conjugated": given(lambda: torch.ones(3, dtype=torch.complex64).conj().imag),
    "expanded": given(lambda: torch.ones(()).expand(3)),
    "tangents": along,
    "watched": watched,
    "counted": counted,
}


@contextmanager
def seeded() -> Iterator[None]:
    torch.manual_seed(3)
    yield


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda f: f.__name__)
@pytest.mark.parametrize("way", WAYS)
def test_gradients_are_eagers(way: str, program: Callable[..., Tensor], backend: str) -> None:
    compiled = onegraph.compile(program, backend=backend)
    with seeded():
        expected = WAYS[way](program)
        after = torch.rand(3)
    with seeded():
        result = WAYS[way](compiled)
        assert torch.equal(torch.rand(3), after)
    torch.testing.assert_close(result, expected, equal_nan=True)
