"""Running totals and extremes: against eager, with values that need care, along every dimension."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from compiler.lower.native import check
from torch import Tensor

INF, NAN = float("inf"), float("nan")

SCANS: dict[str, Callable[[Tensor, int], object]] = {
    "cumsum": lambda x, d: x.cumsum(d),
    "cumprod": lambda x, d: x.cumprod(d),
    "cummax": lambda x, d: tuple(x.cummax(d)),
    "cummin": lambda x, d: tuple(x.cummin(d)),
    "logcumsumexp": lambda x, d: torch.logcumsumexp(x, d),
}


@pytest.mark.parametrize("scan", SCANS)
@pytest.mark.parametrize("dim", [0, 1, -1])
def test_along_every_dimension(scan: str, dim: int) -> None:
    x = torch.randn(5, 9, 33)
    for layout in (x, x.transpose(0, 2), x[:, ::2], x[:1].expand(4, 9, 33)):
        check(lambda x: SCANS[scan](x, dim), layout, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("scan", SCANS)
def test_special_values(scan: str) -> None:
    x = torch.tensor(
        [[1.0, -0.0, 0.0, INF, 2.0], [-0.0, -INF, INF, 1.0, NAN], [NAN, 1.0, NAN, INF, 0.0], [-INF, -INF, 1, 2, 2]]
    )
    check(lambda x: SCANS[scan](x, 1), x, rtol=1e-6)
    check(lambda x: SCANS[scan](x, 0), x, rtol=1e-6)


@pytest.mark.parametrize("scan", ["cumsum", "cumprod", "cummax", "cummin"])
@pytest.mark.parametrize("dtype", [torch.bool, torch.uint8, torch.int32, torch.int64, torch.bfloat16, torch.float64])
def test_types(scan: str, dtype: torch.dtype) -> None:
    check(lambda x: SCANS[scan](x, 1), torch.randint(0, 3, (4, 20)).to(dtype))


def test_long_sums_are_as_exact_as_in_eager() -> None:
    check(lambda x: x.cumsum(0), torch.rand(100_000))


def test_what_surrounds_a_scan_joins_it() -> None:
    check(lambda x: (x * 2).cumsum(1) + 1, torch.randn(6, 40), rtol=1e-6, atol=1e-6)
    check(lambda x: x.cumsum(0).flip(0).cumsum(0), torch.randn(6, 40), rtol=1e-5, atol=1e-5)
    check(lambda x: x.cumsum(1), torch.randn(6, 1))
    check(lambda x: x.cumsum(0), torch.randn(()))
    check(lambda x: x.cumsum(1), torch.randn(3, 0))


def test_extremes_of_a_constant() -> None:
    check(lambda x: torch.nn.functional.pad(x, (1, 2))[:, :, -1].cummax(1)[0] + 0, torch.randn(4, 7, 7))
    check(lambda x: torch.zeros_like(x).cummin(0)[0] + x.cummax(0)[0], torch.randn(4, 7))
