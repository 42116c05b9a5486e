"""Sums of many values are as exact as eager's, whatever runs in vectors and however the loops nest."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from compiler.graphs import compiled

ULP = 2.0**-24
SHAPES: dict[str, tuple[tuple[int, ...], Any]] = {
    "few rows": ((100, 256), 0),
    "columns": ((20_000, 32), 0),
    "long columns": ((600_000, 17), 0),
    "three columns": ((600_000, 3), 0),
    "rows": ((32, 100_000), 1),
    "all": ((1_000_003,), 0),
    "two outer axes": ((3, 700, 40, 16), (0, 1, 2)),
    "around the channels": ((64, 8, 196), (0, 2)),
    "short rows in long columns": ((200_000, 3, 2), (0, 2)),
}


@pytest.mark.parametrize("sizes", ["known", "symbolic"])
@pytest.mark.parametrize("case", SHAPES)
def test_sums(case: str, sizes: str) -> None:
    shape, dims = SHAPES[case]
    x = torch.rand(shape, generator=torch.Generator().manual_seed(0))
    run = compiled(lambda x: (x.sum(dims),), x, symbolic={(0, 0): "n"} if sizes == "symbolic" else None)
    (ours,) = run(x)
    error = (ours.double() / x.double().sum(dims) - 1).abs()
    assert error.mean() < 2 * ULP and error.max() < 6 * ULP


@pytest.mark.parametrize("length", [15, 16, 17, 31, 32, 33, 34, 47, 48, 512, 513, 544, 545, 8193])
def test_every_value_is_in_one_block(length: int) -> None:
    """Blocks end where the axis does: small integers add up exactly in any order."""
    x = torch.randint(0, 9, (length, 5)).float()
    (columns, rows, both) = compiled(lambda x: (x.sum(0), x.t().contiguous().sum(1), x.sum()), x)(x)
    assert torch.equal(columns, x.sum(0)) and torch.equal(rows, x.sum(0)) and both == x.sum()
