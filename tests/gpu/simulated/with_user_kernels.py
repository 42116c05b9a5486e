"""Kernels of the user in compiled code on a device: among kernels of the compiler, in operators, with gradients."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import triton
import triton.language as tl
from gpu.simulated import kernels
from torch import Tensor

import onegraph

driver = kernels.driver  # a fixture
pytestmark = pytest.mark.usefixtures("driver")


@triton.jit
def scale_kernel(x, out, factor, n, B: tl.constexpr):
    at = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(out + at, tl.load(x + at, mask=at < n) * factor, mask=at < n)


@triton.jit
def add_in_place_kernel(x, y, n, B: tl.constexpr):
    at = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(x + at, tl.load(x + at, mask=at < n) + tl.load(y + at, mask=at < n), mask=at < n)


def scaled(x: Tensor, factor: float) -> Tensor:
    out = torch.empty_like(x)
    torch.library.wrap_triton(scale_kernel)[lambda meta: (triton.cdiv(x.numel(), meta["B"]),)](
        x, out, factor, x.numel(), B=64
    )
    return out


scale = torch.library.triton_op("onegraph_tests::scale", mutates_args={})(scaled)


@scale.register_fake
def _(x: Tensor, factor: float) -> Tensor:
    return torch.empty_like(x)


def keep_factor(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    ctx.factor = inputs[1]


scale.register_autograd(lambda ctx, grad: (scale(grad, ctx.factor), None), setup_context=keep_factor)


class Scale(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, factor: float) -> Tensor:
        ctx.factor = factor
        return scaled(x, factor)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        return scaled(grads[0].contiguous(), ctx.factor), None


def equal(function: Any, *inputs: Any) -> None:
    """The results of the compiled function, and what it writes to its inputs, are eager's."""
    mine = [x.clone() if isinstance(x, Tensor) else x for x in inputs]
    compiled = onegraph.compile(function, fullgraph=True)
    torch.testing.assert_close(compiled(*mine), function(*inputs))
    torch.testing.assert_close(mine, list(inputs))


def test_between_kernels() -> None:
    equal(lambda x: scaled(x.sin() + 1, 3.0).cos() * 2, torch.randn(200, device="cuda"))


def test_sizes_that_change() -> None:
    compiled = onegraph.compile(lambda x: scaled(x + 1, 3.0) * 2, fullgraph=True)
    for size in (100, 70, 64):
        x = torch.randn(size, device="cuda")
        torch.testing.assert_close(compiled(x), (x + 1) * 6)


def test_an_input_that_is_written() -> None:
    def f(x: Tensor, y: Tensor) -> Tensor:
        add_in_place_kernel[(2,)](x, y * 2, x.numel(), B=64)
        return x.exp()

    equal(f, torch.randn(100, device="cuda"), torch.randn(100, device="cuda"))


def test_a_view_that_is_written() -> None:
    def f(x: Tensor, y: Tensor) -> Tensor:
        whole = x + 1
        add_in_place_kernel[(1,)](whole[1], y, 30, B=32)
        return whole * 2

    equal(f, torch.randn(3, 30, device="cuda"), torch.randn(30, device="cuda"))


@pytest.mark.parametrize("function", [scale, Scale.apply], ids=["triton_op", "autograd.Function"])
def test_gradients(function: Any) -> None:
    def f(x: Tensor) -> Tensor:
        return (function(x.sin(), 2.5) ** 2).sum()

    mine, other = (torch.linspace(-1, 1, 90, device="cuda", requires_grad=True) for _ in range(2))
    onegraph.compile(f, fullgraph=True)(mine).backward()
    f(other).backward()
    torch.testing.assert_close(mine.grad, other.grad)
