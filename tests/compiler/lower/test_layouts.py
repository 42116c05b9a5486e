"""Empty, zero-dimensional, expanded, flipped and strided tensors: as in eager, with eager's strides."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from compiler.lower.native import check
from torch import Tensor

LAYOUTS: dict[str, Callable[[], Tensor]] = {
    "contiguous": lambda: torch.randn(4, 6),
    "transposed": lambda: torch.randn(6, 4).t(),
    "sliced": lambda: torch.randn(8, 20)[1::2, 2:14:2],
    "expanded": lambda: torch.randn(4, 1).expand(4, 6),
    "expanded twice": lambda: torch.randn(()).expand(4, 6),
    "flipped": lambda: torch.randn(4, 6).flip(0, 1),
    "permuted": lambda: torch.randn(6, 2, 4).permute(2, 1, 0)[:, 1],
    "one row": lambda: torch.randn(1, 6),
    "one column": lambda: torch.randn(7, 1),
    "empty": lambda: torch.randn(0, 6),
    "empty columns": lambda: torch.randn(4, 0),
    "offset": lambda: torch.randn(40)[3:27].view(4, 6),
}
PROGRAMS: dict[str, Callable[[Tensor], object]] = {
    "pointwise": lambda x: (x * 2 + 1).relu(),
    "with a row": lambda x: x + torch.arange(x.shape[1]),
    "with its transpose": lambda x: (x.t() * 2, x.t().contiguous()),
    "sum of rows": lambda x: (x.sum(1), x.sum(0), x.sum(), x.sum(1, keepdim=True)),
    "mean": lambda x: x.mean(0),
    "softmax": lambda x: (F.softmax(x, 1), F.softmax(x, 0)),
    "layer norm": lambda x: F.layer_norm(x, x.shape[-1:]),
    "cat": lambda x: (torch.cat([x, x * 2]), torch.cat([x, x], 1), torch.stack([x, x], 2)),
    "pad": lambda x: F.pad(x, (1, 2, 0, 1), value=3.0),
    "slice": lambda x: (x[1:] * 2, x[:, ::2] + 1, x[..., -1:] * 1.0),
    "reshape": lambda x: (x.reshape(-1) + 1, x.unsqueeze(1) * 2, x[None].expand(3, -1, -1) + 1),
    "where": lambda x: torch.where(x > 0, x, -x),
    "type": lambda x: (x.double() + 1, x.to(torch.bfloat16) * 2, x > 0),
    "write": lambda x: torch.slice_scatter(x, x[:, :1] * 0, 1, 0, 1) if x.shape[1] else x + 1,
    "roll": lambda x: (x.flip(0) + 1, x.tril() + 1),
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("program", PROGRAMS)
def test_layout(layout: str, program: str) -> None:
    check(PROGRAMS[program], LAYOUTS[layout](), rtol=2e-6, atol=1e-6)


def test_zero_dimensional() -> None:
    x, y = torch.tensor(2.0), torch.tensor(3)
    check(
        lambda x, y: (x + y, x * 2, x.sum(), x.exp(), torch.softmax(x, 0), x.max(), x.view(1), y // 2), x, y, rtol=1e-6
    )


def test_mixed_types_promote_as_in_eager() -> None:
    f, d, i, b, h = (
        torch.tensor([1.5, 2.5]),
        torch.tensor([0.1, 0.2], dtype=torch.float64),
        torch.tensor([3, 4]),
        torch.tensor([True, False]),
        torch.tensor([1.0, 2.0], dtype=torch.bfloat16),
    )
    check(lambda f, d, i, b, h: (f + d, f * i, i + b, i / 2, b + b, h * f, h * 2.5, i * 1.5, d[0] * f), f, d, i, b, h)


def test_channels_last() -> None:
    x = torch.randn(2, 3, 4, 5).contiguous(memory_format=torch.channels_last)
    check(
        lambda x: (x + 1, x.relu(), F.batch_norm(x, torch.zeros(3), torch.ones(3)), x.sum(1)), x, rtol=2e-6, atol=1e-6
    )


def test_the_same_tensor_twice() -> None:
    x = torch.randn(5)
    check(lambda x, y: (x + y, x * y), x, x)
