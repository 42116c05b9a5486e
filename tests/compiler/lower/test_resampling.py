"""Resampling: the positions are those that eager computes, rounded as it rounds them."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from compiler.lower.native import compiled


def check(x: torch.Tensor, **options: object) -> tuple[str, ...]:
    run = compiled(lambda x: (F.interpolate(x, **options),), x)
    (ours,) = run(x)
    theirs = F.interpolate(x, **options)
    assert ours.stride() == theirs.stride()
    torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-5)
    return run.fallbacks


@pytest.mark.parametrize("factor", [1, 2, 3, 7, 10])
def test_nearest_by_whole_factors(factor: int) -> None:
    assert check(torch.randn(2, 3, 5, 4), scale_factor=factor, mode="nearest") == ()


@pytest.mark.parametrize("factor", [41, 47, 55, 1.5, 2.3])
def test_nearest_where_positions_are_rounded(factor: float) -> None:
    """41 * (1 / 41) is below 1 in float32."""
    check(torch.randn(2, 3, 5), scale_factor=factor, mode="nearest")


@pytest.mark.parametrize("align_corners", [False, True])
@pytest.mark.parametrize("factor", [1, 1.3, 1.4, 2, 2.3, 0.5, 0.95])
@pytest.mark.parametrize("size", [1, 2, 3, 10])
def test_linear(size: int, factor: float, align_corners: bool) -> None:
    """Where the size stays the same, the factor means nothing."""
    if int(size * factor):
        options = {"scale_factor": factor, "align_corners": align_corners}
        assert check(torch.randn(2, 2, size), mode="linear", **options) == ()
        assert check(torch.randn(1, 2, size, size), mode="bilinear", **options) == ()
