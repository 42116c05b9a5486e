"""Images that are resized from and to sizes that change, and evenly spaced numbers: one version for all sizes."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

import onegraph
from onegraph.base import events as ev
from tests.capture.resume.test_breaks import Watch

SIZES = ((8, 7), (12, 9), (13, 11), (21, 16), (41, 33), (35, 5), (64, 100))
MODES = {1: ("nearest", "nearest-exact", "area", "linear"),
         2: ("nearest", "nearest-exact", "area", "bilinear", "bicubic"),
         3: ("nearest", "nearest-exact", "area", "trilinear")}  # fmt: skip


def compare(function: Callable[..., Any], inputs: Iterable[tuple[Any, ...]], versions: int | None = 2) -> None:
    """Compiled without breaks, at most so many times; None where the program raises errors."""
    compiled = onegraph.compile(function)
    with Watch() as watch:
        for given in inputs:
            try:
                expected = function(*given)
            except (RuntimeError, ValueError, NotImplementedError) as error:
                with pytest.raises(type(error)) as raised:
                    compiled(*given)
                assert str(raised.value) == str(error)
                continue
            result = compiled(*given)
            torch.testing.assert_close(result, expected, rtol=1e-4, atol=1e-5, check_stride=True)
        assert versions is None or len(watch.of(ev.FrameStarted)) <= versions
        assert versions is None or not watch.of(ev.GraphBroken)
    onegraph.reset()


@pytest.mark.parametrize(("rank", "mode"), [(rank, mode) for rank, modes in MODES.items() for mode in modes])
@pytest.mark.parametrize("scale", [2, 0.5, 1.5, 0.3])
def test_by_a_factor(rank: int, mode: str, scale: float) -> None:
    if rank == 1:
        inputs = [(torch.randn(2, 3, n),) for n, _ in SIZES]
    else:
        inputs = [(torch.randn(2, 3, *size, *[6] * (rank - 2)),) for size in SIZES]
    compare(lambda x: F.interpolate(x, scale_factor=scale, mode=mode), inputs)


@pytest.mark.parametrize("options", [{"align_corners": True}, {"antialias": True}, {"recompute_scale_factor": True}])
@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
def test_with_options(mode: str, options: dict[str, Any]) -> None:
    inputs = [(torch.randn(2, 3, *size),) for size in SIZES]
    compare(lambda x: F.interpolate(x, scale_factor=(1.7, 0.5), mode=mode, **options), inputs)


@pytest.mark.parametrize("mode", ["nearest", "bilinear", "area"])
def test_to_the_size_of_another(mode: str) -> None:
    inputs = [(torch.randn(1, 2, *size), torch.randn(1, 2, size[1], size[0])) for size in SIZES]
    compare(lambda x, y: F.interpolate(x, size=y.shape[2:], mode=mode) + y, inputs)
    compare(lambda x, y: F.interpolate(x, (y.shape[2] * 2, 7), mode=mode), inputs)


def test_channels_last() -> None:
    inputs = [(torch.randn(2, 3, *size).to(memory_format=torch.channels_last),) for size in SIZES]
    compare(torch.nn.Upsample(scale_factor=2, mode="bilinear"), inputs)


def test_gradients() -> None:
    def gradient(function: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
        x = x.clone().requires_grad_()
        function(x).square().sum().backward()
        assert x.grad is not None
        return x.grad

    for mode in ("nearest", "bilinear", "area"):

        def resized(x: Tensor, mode: str = mode) -> Tensor:
            return F.interpolate(x, scale_factor=1.5, mode=mode) * 2

        compiled = onegraph.compile(resized, options={"raise_compiler_errors": True})
        for size in SIZES:
            x = torch.randn(2, 3, *size)
            torch.testing.assert_close(gradient(compiled, x), gradient(resized, x), rtol=1e-4, atol=1e-4)
        onegraph.reset()


def test_what_is_refused() -> None:
    inputs = [(torch.randn(2, 3, *size),) for size in SIZES]
    for options in ({"scale_factor": 0.05}, {"scale_factor": -1.0}, {"scale_factor": 2, "size": 3}, {}):
        for mode in ("nearest", "bilinear"):
            compare(lambda x, given={**options, "mode": mode}: F.interpolate(x, **given), inputs, versions=None)
    compare(lambda x: F.interpolate(x, scale_factor=2, mode="trilinear"), inputs, versions=None)
    compare(lambda x: F.interpolate(x, scale_factor=2, mode="nearest", align_corners=True), inputs, versions=None)


@pytest.mark.parametrize("dtype", [None, torch.float64, torch.int64])
def test_evenly_spaced_numbers(dtype: torch.dtype | None) -> None:
    inputs = [(torch.randn(n),) for n, _ in SIZES]
    versions = 2 if dtype in (None, torch.float64) else len(SIZES)
    compare(lambda x: torch.linspace(-1, 1, x.shape[0], dtype=dtype), inputs, versions)
    compare(lambda x: torch.linspace(0.1, x.shape[0], steps=x.shape[0] * 2 + 1, dtype=dtype), inputs, versions)
    compare(lambda x: torch.linspace(0, 1, steps=x.shape[0] - 7, dtype=dtype), inputs, max(versions, 3))
