"""16-bit floats: every operator rounds its operands and its result where eager does, also inside of a fused kernel."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from compiler.graphs import record
from compiler.lower.native import check
from torch import Tensor

import onegraph
from onegraph.base.config import Config
from onegraph.base.context import Context
from onegraph.compiler import compile_graph
from onegraph.compiler.cpu import CPU

PROGRAMS: dict[str, Callable[[Tensor], Tensor]] = {
    "add": lambda x: x + 0.3,
    "sub": lambda x: x - 0.3,
    "rsub": lambda x: 0.3 - x,
    "add, alpha": lambda x: torch.add(x, x * x, alpha=0.3),
    "mul": lambda x: x * 1.1,
    "div": lambda x: x / 0.3,
    "floor_divide": lambda x: x // 0.3,
    "remainder": lambda x: x % 0.3,
    "fmod": lambda x: torch.fmod(x, 0.3),
    "pow": lambda x: x.abs() ** 1.3,
    "comparisons": lambda x: (x > 0.3) | (x == -0.3) | (x.clamp(-1, 1) * 2 < -1.7),
    "clamp": lambda x: x.clamp(-0.3, 0.3),
    "lerp": lambda x: torch.lerp(x, x * x, 0.3),
    "addcmul": lambda x: torch.addcmul(x, x, x, value=0.3),
    "hardshrink": lambda x: F.hardshrink(x, 0.3),
    "leaky_relu": lambda x: F.leaky_relu(x, 0.3),
    "silu": lambda x: F.silu(x),
    "chain": lambda x: ((x * 1.1 + 0.3) * x - x.abs()).relu() / 3,
    "largest": lambda x: x * 3 == (x * 3).amax(),
}


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("name", PROGRAMS)
def test_rounds_where_eager_rounds(name: str, dtype: torch.dtype) -> None:
    check(PROGRAMS[name], torch.randn(4000).to(dtype))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("name", ["add", "sub", "mul", "div", "gt", "eq", "remainder", "maximum"])
def test_operands_of_other_types(name: str, dtype: torch.dtype) -> None:
    """Tensors without dimensions, and integers, which the short type may not hold."""
    operator = getattr(torch, name)
    x = torch.randn(3000).to(dtype)
    check(operator, x, torch.tensor(0.3))
    check(operator, x, torch.tensor(0.3, dtype=torch.float64))
    check(operator, x, torch.arange(1, 3001))
    check(operator, x, torch.tensor(257))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_roundings_between_operators_can_be_left_out(dtype: torch.dtype) -> None:
    """What is computed in one kernel is then rounded once, at its end."""

    def chain(x: Tensor) -> tuple[Tensor, Tensor]:
        y = (x * 1.5 + 0.25) * x - x.abs()
        return y, y.softmax(-1)

    x = torch.randn(64, 100).to(dtype)
    eager, wide = chain(x), chain(x.double())
    graph = compile_graph(record(chain, x), Context(Config(verify=True, cache=False, eager_rounding=False)), CPU)
    assert graph.kernels == 1
    for ours, theirs, exact in zip(graph(x), eager, wide, strict=True):
        assert ours.dtype is dtype
        assert (ours - exact).abs().sum() < 0.7 * (theirs - exact).abs().sum()
    plain = compile_graph(record(chain, x), Context(Config(verify=True, cache=False)), CPU)
    assert graph.text("fused").count(": f32 = cast") < plain.text("fused").count(": f32 = cast") / 2


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("count", [32, 33, 63])
def test_one_value_is_stored_everywhere(count: int, dtype: torch.dtype) -> None:
    """Under a mask where vectors do not fit; LLVM ended the process on that."""
    x = torch.randn(1).to(dtype).expand(count)
    check(lambda x: (x.sin(), x.sin().mean(0, keepdim=True)), x, rtol=1e-2, atol=1e-2)


def test_every_bfloat16_survives_arithmetic() -> None:
    """All bit patterns, NaNs of every payload among them, alone and beside each other."""
    x = torch.arange(-(1 << 15), 1 << 15, dtype=torch.int32).to(torch.int16).view(torch.bfloat16)
    y = x.flip(0).roll(12345)

    def function(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return x * y + x, torch.where(x > y, x, y).abs().sqrt(), torch.maximum(x, y) / 3, -x

    for ours, theirs in zip(onegraph.compile(function)(x, y), function(x, y), strict=True):
        assert torch.equal(ours.isnan(), theirs.isnan())
        assert torch.equal(ours[~ours.isnan()], theirs[~theirs.isnan()])


def test_a_nan_of_low_bits_alone_stays_one() -> None:
    """What a NaN of float32 says in its lower half is lost by rounding, and with it that it is one."""
    bits = torch.tensor([0x7F800001, 0x7FFFFFFF, -1, 0x7F807FFF, 0x7F800000, 0x7F7FFFFF], dtype=torch.int64)
    x, y = bits.to(torch.int32).view(torch.float32), torch.ones(6, dtype=torch.bfloat16)
    for function in (lambda x, y: x.bfloat16(), lambda x, y: (x.abs() * y).bfloat16()):
        ours, theirs = onegraph.compile(function)(x, y), function(x, y)
        assert torch.equal(ours.isnan(), theirs.isnan())
        assert torch.equal(ours[~ours.isnan()], theirs[~theirs.isnan()])
