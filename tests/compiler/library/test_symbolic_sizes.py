"""Library calls are chosen for the sizes that the program has when it is compiled, and are right for all others."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import product
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import onegraph
from onegraph.base.events import GraphCaptured, MemoryPlanned
from onegraph.compile import EVENTS
from onegraph.compiler.library import convolution, linear

CALLS = ("aten", "onednn", "packed", "measured")


@pytest.fixture
def graphs() -> Iterator[list[GraphCaptured]]:
    """The graphs that are captured."""
    found: list[GraphCaptured] = []
    cancel = EVENTS.subscribe(lambda event: found.append(event) if isinstance(event, GraphCaptured) else None)
    yield found
    cancel()


def compare(target: Callable[..., Tensor], inputs: Sequence[Tensor], calls: str) -> None:
    """Compiled for symbolic sizes, called with each input."""
    compiled = onegraph.compile(target, fullgraph=True, dynamic=True, options={"library_calls": calls, "verify": True})
    with torch.no_grad():
        for x in inputs:
            result, expected = compiled(x), target(x)
            assert result.shape == expected.shape and steps(result) == steps(expected)
            tolerance: Any = {"rtol": 2e-2, "atol": 2e-2} if x.dtype is torch.bfloat16 else {"rtol": 1e-4, "atol": 1e-5}
            torch.testing.assert_close(result, expected, **tolerance)
    onegraph.reset()


def steps(x: Tensor) -> list[int]:
    """The strides that are ever used."""
    return [step for size, step in zip(x.shape, x.stride(), strict=True) if size > 1]


def layers(channels: int) -> nn.Module:
    """Every form of a convolution, with what is computed behind it."""
    return nn.Sequential(
        nn.Conv2d(channels, 8, 3, stride=2, padding=1, bias=False),
        nn.BatchNorm2d(8),
        nn.ReLU(),
        nn.Conv2d(8, 16, 1),
        nn.Hardswish(),
        nn.Conv2d(16, 16, 3, padding=2, dilation=2, groups=16),
        nn.BatchNorm2d(16),
        nn.MaxPool2d(2, 2),
        nn.Conv2d(16, 1, 1),
        nn.Conv2d(1, 4, 1, stride=2),
    ).eval()


@pytest.mark.parametrize("calls", CALLS)
@pytest.mark.parametrize("channels", [1, 3])
def test_convolutions_of_any_size(calls: str, channels: int, graphs: list[GraphCaptured]) -> None:
    torch.manual_seed(0)
    sizes = [(4, 32, 40), (2, 5, 7), (3, 3, 3), (2, 64, 3), (5, 33, 128), (64, 4, 4), (2, 200, 201)]
    model = layers(channels)
    for norm in (model[1], model[6]):
        norm.running_mean.normal_(), norm.running_var.uniform_(0.5, 2)
    compare(model, [torch.randn(n, channels, h, w) for n, h, w in sizes], calls)
    assert len(graphs) == 1


@pytest.mark.parametrize("calls", CALLS)
def test_images_with_channels_last(calls: str) -> None:
    images = [torch.randn(2, 3, n, n + 2).to(memory_format=torch.channels_last) for n in (16, 7, 64)]
    compare(layers(3), images, calls)


@pytest.mark.parametrize("calls", CALLS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_products_with_any_number_of_rows(calls: str, dtype: torch.dtype, graphs: list[GraphCaptured]) -> None:
    model = nn.Sequential(nn.Linear(64, 96), nn.GELU(), nn.Linear(96, 64, bias=False)).to(dtype)
    inputs = [torch.randn(rows, 64, dtype=dtype) for rows in (128, 2, 3, 17, 600)]
    compare(model, inputs, calls)
    assert len(graphs) == 1
    compare(lambda x: model(x[2:]), inputs, calls)  # of two rows, none is left, and of three a single one


def test_weights_of_symbolic_sizes() -> None:
    def attention(x: Tensor) -> Tensor:
        return (x @ x.t()).softmax(-1) @ x

    compare(attention, [torch.randn(n, 64) for n in (100, 2, 64, 129)], "measured")

    def filtered(x: Tensor) -> Tensor:
        return torch.conv2d(x, x[:1, :, ::2, ::2].contiguous())

    compare(filtered, [torch.randn(2, 8, n, m) for n, m in product((8, 13), (9, 30))], "packed")


@pytest.mark.parametrize("dynamic", [False, True])
def test_filters_of_one_pixel_are_arranged_for_images_of_any_size(dynamic: bool) -> None:
    """Arranged for one number of pixels, oneDNN took 25 times as long for most others."""
    texts: list[str] = []
    cancel = EVENTS.subscribe(lambda event: texts.append(event.text()) if isinstance(event, MemoryPlanned) else None)
    model = nn.Sequential(nn.Conv2d(8, 16, 1, bias=False), nn.BatchNorm2d(16), nn.Conv2d(16, 8, 1, stride=2)).eval()
    compiled = onegraph.compile(model, dynamic=dynamic, options={"library_calls": "packed"})
    with torch.no_grad():
        for size in (12, 20):
            x = torch.randn(1, 8, size, size)
            torch.testing.assert_close(compiled(x), model(x), rtol=1e-4, atol=1e-5)
    cancel()
    onegraph.reset()
    assert texts[0].count("_linear_pointwise") == (2 if dynamic else 0)


@pytest.mark.parametrize("stride", [1, 2, (2, 3)])
@pytest.mark.parametrize("form", ["plain", "product", "packed"])
def test_filters_of_one_pixel_multiply_the_pixels_that_they_meet(
    stride: int | tuple[int, int], form: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def times(what: str, *_: object) -> dict[str, float]:
        return {"copy": 0.0} if what.startswith("copy") else {"aten": 1.0, form: 0.1}

    monkeypatch.setattr(convolution, "times", times)
    model = nn.Conv2d(8, 16, 1, stride=stride)
    compare(model, [torch.randn(n, 8, h, w) for n, h, w in ((2, 12, 20), (3, 7, 4), (1, 9, 9))], "measured")
    compare(nn.Conv2d(8, 16, 1, stride=stride, bias=False), [torch.randn(2, 8, n, n + 1) for n in (6, 5)], "measured")


def test_one_row_behind_many_is_a_sum(monkeypatch: pytest.MonkeyPatch) -> None:
    """The size is a symbol that is known to be one by then: statistics ask. A sum is chosen without a timing."""
    model, timed = nn.Sequential(nn.Linear(512, 1024), nn.ReLU(), nn.Linear(1024, 512), nn.LayerNorm(512)), list[str]()
    compiled, times = onegraph.compile(model), linear.times
    monkeypatch.setattr(linear, "times", lambda what, *args: timed.append(what) or times(what, *args))
    with torch.no_grad():
        for rows in (128, 1):
            timed.clear()
            x = torch.randn(rows, 512)
            torch.testing.assert_close(compiled(x), model(x), rtol=1e-4, atol=1e-5)
    onegraph.reset()
    assert timed == []
