"""Every spelling of autocast is a node of the graph, with eager's types."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch

import onegraph

pytestmark = pytest.mark.filterwarnings("ignore")


class OwnAutocast(torch.autocast):
    def __init__(self) -> None:
        super().__init__("cpu", dtype=torch.float16)


SPELLINGS: dict[str, Callable[[], Any]] = {
    "autocast": lambda: torch.autocast("cpu", dtype=torch.float16),
    "without a type": lambda: torch.amp.autocast("cpu"),
    "torch.cpu.amp": lambda: torch.cpu.amp.autocast(dtype=torch.bfloat16),
    "torch.cpu.amp, off": lambda: torch.cpu.amp.autocast(enabled=False),
    "torch.cuda.amp": lambda: torch.cuda.amp.autocast(),
    "a subclass": OwnAutocast,
}
Make = Callable[[], Any]


def within(make: Make) -> Callable[..., Any]:
    def function(a: torch.Tensor) -> Any:
        with make():
            b = a @ a
        return b, a @ a

    return function


def within_another(make: Make) -> Callable[..., Any]:
    def function(a: torch.Tensor) -> Any:
        with torch.autocast("cpu", dtype=torch.float16):
            with make():
                b = a @ a
            return b, a @ a

    return function


def decorating_inside(make: Make) -> Callable[..., Any]:
    def function(a: torch.Tensor) -> Any:
        @make()
        def product() -> torch.Tensor:
            return a @ a

        return product(), a @ a

    return function


def decorating_outside(make: Make) -> Callable[..., Any]:
    @make()
    def product(a: torch.Tensor) -> torch.Tensor:
        return a @ a

    return lambda a: (product(a), a @ a)


def made_outside(make: Make) -> Callable[..., Any]:
    context = make()

    def function(a: torch.Tensor) -> Any:
        with context:
            b = a @ a
        return b, a @ a

    return function


@pytest.mark.parametrize("spelling", SPELLINGS)
@pytest.mark.parametrize("form", [within, within_another, decorating_inside, decorating_outside, made_outside])
def test_types_in_autocast_are_eagers(spelling: str, form: Callable[[Make], Callable[..., Any]]) -> None:
    function, x = form(SPELLINGS[spelling]), torch.rand(4, 4)
    compiled = onegraph.compile(function, fullgraph=True, backend="eager")
    for _ in range(2):
        assert [t.dtype for t in compiled(x)] == [t.dtype for t in function(x)]


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_a_break_in_autocast(spelling: str) -> None:
    def function(a: torch.Tensor) -> Any:
        with SPELLINGS[spelling]():
            onegraph.graph_break()
            b = a @ a
        return b, a @ a

    x = torch.rand(4, 4)
    assert [t.dtype for t in onegraph.compile(function)(x)] == [t.dtype for t in function(x)]


def test_the_type_that_autocast_finds_is_guarded() -> None:
    function, x = within(lambda: torch.autocast("cpu")), torch.rand(4, 4)
    compiled = onegraph.compile(function, fullgraph=True, backend="eager")
    before = torch.get_autocast_dtype("cpu")
    for dtype in (torch.float16, torch.bfloat16):
        torch.set_autocast_dtype("cpu", dtype)
        assert compiled(x)[0].dtype == dtype
    torch.set_autocast_dtype("cpu", before)


def test_autocast_that_is_not_available_warns_in_each_call() -> None:
    compiled = onegraph.compile(within(SPELLINGS["torch.cuda.amp"]), fullgraph=True, backend="eager")
    for _ in range(2):
        with warnings.catch_warnings(record=True) as given:
            warnings.simplefilter("always")
            compiled(torch.rand(4, 4))
        assert any("Disabling autocast" in str(each.message) for each in given)


def test_custom_functions_that_cast() -> None:
    class Product(torch.autograd.Function):
        @staticmethod
        @torch.amp.custom_fwd(device_type="cpu", cast_inputs=torch.float32)
        def forward(ctx: Any, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
            ctx.save_for_backward(a, b)
            return a @ b

        @staticmethod
        @torch.amp.custom_bwd(device_type="cpu")
        def backward(ctx: Any, g: torch.Tensor) -> Any:
            a, b = ctx.saved_tensors
            return g @ b.t(), a.t() @ g

    def function(a: torch.Tensor) -> Any:
        with torch.autocast("cpu"):
            return Product.apply(a @ a, a), Product.apply(a, a)  # type: ignore[no-untyped-call]

    def trained(function: Callable[..., Any]) -> Any:
        a = torch.linspace(-1, 1, 16).reshape(4, 4).requires_grad_()
        results = function(a)
        sum(each.float().sum() for each in results).backward()
        return [each.dtype for each in results], a.grad

    types, gradient = trained(function)
    found = trained(onegraph.compile(function, fullgraph=True, backend="eager"))
    assert found[0] == types
    torch.testing.assert_close(found[1], gradient)


@pytest.mark.parametrize("records", [False, True])
@pytest.mark.parametrize("backend", ["eager", "aot_eager", "native"])
def test_a_block_without_autocast_in_one_with_it(backend: str, records: bool) -> None:
    """The graph has its casts in it: the autocast around its call casts nothing more."""

    def program(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        with torch.autocast("cpu", enabled=False):
            y = x.float() @ x.float().t()
        return y, x @ x.t()

    compiled = onegraph.compile(program, backend=backend, fullgraph=True)
    with torch.autocast("cpu", torch.bfloat16):
        x = torch.randn(3, 4, requires_grad=records)
        assert [y.dtype for y in compiled(x)] == [torch.float32, torch.bfloat16]
