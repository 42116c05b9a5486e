"""Sampling, resampling by tables, windows as columns, distances and searches, against eager."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from compiler.lower.native import check

import onegraph

aten = torch.ops.aten
CLOSE = {"rtol": 1e-5, "atol": 1e-5}


@pytest.mark.parametrize("align_corners", [False, True])
@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("mode", ["bilinear", "nearest", "bicubic"])
def test_grid_sample(mode: str, padding: str, align_corners: bool) -> None:
    def sample(x: torch.Tensor, grid: torch.Tensor) -> torch.Tensor:
        return F.grid_sample(x, grid, mode, padding, align_corners)

    grid = torch.randn(2, 6, 5, 2) * 1.5
    grid[0, 0, 0] = torch.tensor([float("inf"), -1e30])
    check(sample, torch.randn(2, 3, 7, 9), torch.randn(2, 6, 5, 2) * 1.5, **CLOSE)
    check(sample, torch.randn(2, 3, 1, 1), torch.randn(2, 6, 5, 2), **CLOSE)
    if mode != "bicubic":
        check(sample, torch.randn(2, 3, 4, 5, 6), torch.randn(2, 3, 4, 5, 3), **CLOSE)


@pytest.mark.parametrize("size", [(3, 17), (7, 9), (20, 4), (1, 1)])
@pytest.mark.parametrize("mode", ["nearest", "nearest-exact", "bicubic"])
def test_resampling_to_any_size(mode: str, size: tuple[int, int]) -> None:
    x = torch.randn(2, 3, 7, 9)
    check(lambda x: F.interpolate(x, size, mode=mode), x, **CLOSE)
    check(lambda x: F.interpolate(x, size, mode=mode), x.to(memory_format=torch.channels_last), **CLOSE)
    if mode == "bicubic":
        check(lambda x: F.interpolate(x, size, mode=mode, align_corners=True), x, **CLOSE)


@pytest.mark.parametrize("size", [(3, 17), (7, 9), (20, 4)])
@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
def test_antialiased(mode: str, size: tuple[int, int]) -> None:
    check(lambda x: F.interpolate(x, size, mode=mode, antialias=True), torch.randn(2, 3, 7, 9), **CLOSE)


@pytest.mark.parametrize(
    ("kernel", "dilation", "padding", "stride"), [(2, 1, 0, 1), (3, 1, 1, 2), ((2, 3), (2, 1), (0, 2), (1, 2))]
)
def test_windows_as_columns(kernel: object, dilation: object, padding: object, stride: object) -> None:
    def there(x: torch.Tensor) -> torch.Tensor:
        return F.unfold(x, kernel, dilation, padding, stride)

    x = torch.randn(2, 3, 9, 10)
    check(there, x)
    check(lambda y: F.fold(y, (9, 10), kernel, dilation, padding, stride), there(x), **CLOSE)


@pytest.mark.parametrize("p", [0.0, 1.0, 2.0, 3.5, float("inf")])
def test_distances(p: float) -> None:
    x, y = torch.randn(2, 9, 5), torch.randn(2, 12, 5)
    check(lambda x, y: torch.cdist(x, y, p), x, y, **CLOSE)
    check(lambda x: F.pdist(x, p), torch.randn(40, 6), **CLOSE)
    check(lambda x, y: torch.dist(x, y, p), x, x + 1, **CLOSE)


@pytest.mark.parametrize("right", [False, True])
def test_searches(right: bool) -> None:
    bounds = torch.tensor([-1.0, 0.0, 0.0, 0.5, 2.0])
    x = torch.tensor([-2.0, -1.0, -0.0, 0.1, 0.5, 2.0, 9.0, float("nan"), float("inf")])
    check(lambda x, b: torch.bucketize(x, b, right=right), x, bounds)
    rows = torch.randn(3, 33).sort().values
    check(lambda b, x: torch.searchsorted(b, x, right=right, out_int32=True), rows, torch.randn(3, 8))
    check(lambda x, y: torch.isin(x, y, invert=right), torch.randint(0, 9, (5, 40)), torch.tensor([1, 7]))


def test_a_sorter_is_left_to_the_operator_which_looks_at_all_of_it_first() -> None:
    shuffled, x = torch.randn(3, 33), torch.randn(3, 8)
    compiled = onegraph.compile(lambda b, x, o: torch.searchsorted(b, x, sorter=o), fullgraph=True)
    assert torch.equal(
        compiled(shuffled, x, order := shuffled.argsort()), torch.searchsorted(shuffled, x, sorter=order)
    )
    with pytest.raises(RuntimeError, match="sorter index out of range"):
        compiled(shuffled, x, order + 1)
