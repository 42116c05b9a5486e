"""16-bit floats: every operator rounds its operands and its result where eager does, also inside of a fused kernel."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from compiler.lower.native import check
from torch import Tensor

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
