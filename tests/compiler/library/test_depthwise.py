"""Depthwise convolutions, those of few channels and of few pixels are loops of ours, with eager's results."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import onegraph
from onegraph.base import events as ev
from onegraph.compile import EVENTS
from onegraph.compiler.cpu import CPU
from onegraph.compiler.library import convolution
from onegraph.compiler.library.convolution_tiles import ConvolutionTiler
from tests.compiler.library.test_convolution_tiles import OPTIONS, TILED, normalized, run

WIDTH = CPU.machine.tile_columns
LIBRARY = "extern aten.convolution"


def depthwise(channels: int, size: Any = 3, **options: Any) -> nn.Conv2d:
    return nn.Conv2d(channels, channels, size, groups=channels, **options)


WINDOWS: list[tuple[Any, dict[str, Any]]] = [
    (3, {"padding": 1}),
    (3, {"padding": 1, "stride": 2}),
    (5, {"padding": 2, "stride": 2, "bias": False}),
    (5, {"padding": (2, 0)}),
    ((1, 7), {"padding": (0, 3), "stride": (2, 1)}),
    (3, {"padding": 2, "dilation": 2}),
    (3, {"padding": (0, 4), "dilation": (1, 3)}),
    (1, {}),
    (2, {"padding": 1}),
]


@pytest.mark.parametrize("count", [1, 3])
@pytest.mark.parametrize("size, options", WINDOWS)
@pytest.mark.parametrize("order", [torch.contiguous_format, torch.channels_last])
def test_any_window(count: int, size: Any, options: dict[str, Any], order: torch.memory_format) -> None:
    channels = WIDTH + WIDTH // 8
    x = torch.randn(count, channels, 11, 13).to(memory_format=order)
    text, _ = run(depthwise(channels, size, **options), x)
    assert (TILED in text) == (size != 1) and LIBRARY not in text  # there is nothing to add up
    assert LIBRARY not in run(normalized(depthwise(channels, size, **options)), x, verify=False)[0]


def test_shapes_at_random() -> None:
    choose = random.Random(7).choice
    for _ in range(25):
        channels, factor = choose([1, 2, 3, 8, 15, WIDTH, WIDTH + 1, 3 * WIDTH - 5]), choose([1, 1, 1, 2, 3])
        layer = nn.Conv2d(
            channels, channels * factor, (choose([1, 3, 5]), choose([1, 2, 3])), (choose([1, 2, 3]), choose([1, 2])),
            (choose([0, 1, 2]), choose([0, 1])), (choose([1, 2]), choose([1, 2])), channels, choose([True, False]),
        )  # fmt: skip
        x = torch.randn(choose([1, 2]), channels, choose([9, 10, 13]), choose([6, 9]))
        if choose([True, False]):
            x = x.to(memory_format=torch.channels_last)
        run(choose([normalized, nn.Sequential])(layer), x, verify=False)


class Inverted(nn.Module):
    """A block of a mobile network: expanded, depthwise, with or without a factor for each channel, and reduced."""

    def __init__(self, channels: int, inner: int, stride: int, squeezed: bool) -> None:
        super().__init__()
        self.expand = normalized(nn.Conv2d(channels, inner, 1, bias=False))
        self.deep = normalized(depthwise(inner, stride=stride, padding=1, bias=False))
        self.reduce = normalized(nn.Conv2d(inner, channels, 1, bias=False))[:2]  # type: ignore[index]
        self.less, self.more = nn.Conv2d(inner, 16, 1), nn.Conv2d(16, inner, 1)
        self.squeezed, self.residual = squeezed, stride == 1

    def forward(self, x: Tensor) -> Tensor:
        y = self.deep(F.hardswish(self.expand(x)))
        if self.squeezed:
            y = y * F.hardsigmoid(self.more(F.relu(self.less(F.adaptive_avg_pool2d(y, 1)))))
        return x + self.reduce(y) if self.residual else self.reduce(y)


@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("squeezed", [False, True])
@pytest.mark.parametrize("count", [1, 3])
def test_blocks(stride: int, squeezed: bool, count: int) -> None:
    x = torch.randn(count, WIDTH, 9, 7).to(memory_format=torch.channels_last)
    text, _ = run(Inverted(WIDTH, 2 * WIDTH, stride, squeezed), x)
    assert "extern aten" not in text and "extern mkldnn" not in text
    if not squeezed:
        assert text.count("kernel ") == 4  # three convolutions, and the zeros around one image


def test_zeros_are_put_around_an_image_where_it_is_made() -> None:
    """Also where something else wants it, too, and where it is a sum."""

    class Both(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.deep = nn.Conv2d(16, WIDTH, 1), depthwise(WIDTH, 3, padding=1)
            self.second = nn.Conv2d(WIDTH, WIDTH, 3, padding=1)

        def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
            y = F.relu(self.first(x))
            z = F.silu(self.deep(y) + y)
            return y, self.second(z) + z

    class Flat(nn.Module):
        def __init__(self, both: nn.Module) -> None:
            super().__init__()
            self.both = both

        def forward(self, x: Tensor) -> Tensor:
            return torch.cat([y.contiguous().flatten() for y in self.both(x)])

    text, _ = run(Flat(Both()), torch.randn(2, 16, 7, 8).to(memory_format=torch.channels_last))
    assert text.count("_border(") == 2 and text.count(" if ") == 0


def test_numbers_that_are_none_stay_where_the_filter_sees_them() -> None:
    x = torch.randn(2, WIDTH, 7, 7)
    x[0, 3, 2, 2], x[1, 0, 0, 6], x[1, 5, 4, 4] = torch.nan, torch.inf, -torch.inf
    for model in (depthwise(WIDTH, 3, padding=1), nn.Sequential(depthwise(WIDTH, 5, stride=2, padding=2), nn.ReLU())):
        with torch.no_grad():
            compiled = onegraph.compile(model, fullgraph=True, options=OPTIONS)
            torch.testing.assert_close(compiled(x), model(x), equal_nan=True)
        onegraph.reset()


@pytest.mark.parametrize("dynamic", [None, True])
def test_images_of_any_size_and_number(dynamic: bool | None) -> None:
    model = nn.Sequential(normalized(depthwise(WIDTH, 3, stride=2, padding=1)), nn.Conv2d(WIDTH, WIDTH, 1))
    compiled = onegraph.compile(model, fullgraph=True, dynamic=dynamic, options=OPTIONS)
    with torch.no_grad():
        for shape in [(2, 9, 9), (3, 9, 9), (1, 9, 9), (2, 12, 7), (5, 31, 5)]:
            x = torch.randn(shape[0], WIDTH, *shape[1:])
            torch.testing.assert_close(compiled(x), model(x))
    onegraph.reset()


def test_weights_that_change_are_arranged_again() -> None:
    model = normalized(depthwise(WIDTH))
    compiled = onegraph.compile(model, fullgraph=True, options=OPTIONS)
    x = torch.randn(2, WIDTH, 7, 7)
    layer, norm, _ = model
    changes: list[Callable[[], object]] = [
        lambda: None,
        lambda: layer.weight.mul_(2),
        lambda: layer.weight.data.add_(1),
        lambda: norm.running_var.add_(1),
        lambda: norm.bias.sub_(3),
    ]
    with torch.no_grad():
        for change in changes:
            change()
            torch.testing.assert_close(compiled(x), model(x), atol=1e-5, rtol=1e-5)
    onegraph.reset()


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float64])
def test_other_types_are_left_to_a_library(dtype: torch.dtype) -> None:
    model, x = normalized(depthwise(WIDTH)).to(dtype), torch.randn(1, WIDTH, 7, 7).to(dtype)
    assert TILED not in run(model, x)[0]


def test_training_is_eagers() -> None:
    model, x = nn.Sequential(Inverted(WIDTH, WIDTH, 1, True), nn.Conv2d(WIDTH, 3, 1)), torch.randn(2, WIDTH, 6, 6)
    gradients = []
    for step in (model, onegraph.compile(model, options=OPTIONS)):
        model.zero_grad()
        step(x).square().sum().backward()
        gradients.append([parameter.grad.clone() for parameter in model.parameters() if parameter.grad is not None])
    for theirs, ours in zip(*gradients, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-4 * float(theirs.abs().max()))
    onegraph.reset()


@pytest.mark.parametrize("threads", [1, 2])
def test_code_with_fences(threads: int) -> None:
    model = nn.Sequential(Inverted(WIDTH, WIDTH + 8, 1, True), depthwise(WIDTH, 5, stride=2, padding=2))
    run(model, torch.randn(2, WIDTH, 7, 7), sanitize=True, threads=threads)


@pytest.mark.parametrize("inputs, outputs", [(3, WIDTH // 4), (3, WIDTH // 2), (8, 3 * WIDTH // 8), (5, WIDTH + 1)])
@pytest.mark.parametrize("order", [torch.contiguous_format, torch.channels_last])
def test_few_channels(inputs: int, outputs: int, order: torch.memory_format) -> None:
    """Of which an image stays in its order."""
    x = torch.randn(2, inputs, 13, 11).to(memory_format=order)
    for options in ({"stride": 2, "padding": 1}, {"padding": (0, 2)}):
        text, _ = run(normalized(nn.Conv2d(inputs, outputs, 3, **options)), x)  # type: ignore[arg-type]
        assert TILED in text and LIBRARY not in text


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("count", [1, 5])
def test_few_pixels_are_sums(bias: bool, count: int) -> None:
    for inputs, outputs in ((8, 24), (24, 8), (96, 33)):
        model = nn.Sequential(nn.Conv2d(inputs, outputs, 1, bias=bias), nn.ReLU())
        text, _ = run(model, torch.randn(count, inputs, 1, 1), library_calls="measured")
        assert "extern" not in text and "sum over" in text


def test_the_faster_of_tiles_and_a_library_is_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    known = {"aten": 1.0, "packed": 0.5}
    monkeypatch.setattr(convolution, "times", lambda what, *_: {"copy": 0.1} if what.startswith("copy") else known)
    layer, x = depthwise(WIDTH), torch.randn(1, WIDTH, 7, 7)
    for seconds, tiled in ((0.4, True), (0.6, False)):
        monkeypatch.setattr(ConvolutionTiler, "seconds", lambda *_, seconds=seconds: seconds)
        assert (TILED in run(layer, x, library_calls="measured")[0]) == tiled


@pytest.mark.parametrize("skipped", [("onegraph.tiled_convolution",), ("onegraph.tiled_convolution.default",)])
def test_a_library_does_what_is_not_lowered(skipped: tuple[str, ...]) -> None:
    for layer in (depthwise(WIDTH, 3, padding=1), nn.Conv2d(WIDTH, WIDTH + 3, 3, stride=2)):
        run(normalized(layer), torch.randn(2, WIDTH, 9, 7), skipped_lowerings=skipped)


def test_kernels_share_the_loops_of_their_tiles() -> None:
    class Several(nn.Module):
        """Products that differ in sizes, and in what is computed of them."""

        def __init__(self) -> None:
            super().__init__()
            sizes = (WIDTH, 2 * WIDTH, 3 * WIDTH, WIDTH)
            self.layers = nn.ModuleList(nn.Conv2d(a, b, 1) for a, b in zip(sizes, sizes[1:], strict=False))
            self.deep = nn.ModuleList(depthwise(size, 3, padding=1) for size in (2 * WIDTH, 3 * WIDTH))

        def forward(self, x: Tensor) -> Tensor:
            first, second, third = self.layers
            return F.silu(third(self.deep[1](F.relu(second(self.deep[0](F.gelu(first(x))))))))

    texts: list[str] = []
    unsubscribe = EVENTS.subscribe(
        lambda event: texts.append(event.text()) if isinstance(event, ev.KernelsCompiled) else None
    )
    x = torch.randn(1, WIDTH, 8, 9).to(memory_format=torch.channels_last)
    model = Several()
    with torch.no_grad():
        compiled = onegraph.compile(model, fullgraph=True, options=OPTIONS)
        torch.testing.assert_close(compiled(x), model(x), rtol=1e-4, atol=1e-5)
    unsubscribe()
    onegraph.reset()
    (text,) = (text for text in texts if "@og.tile" in text)
    assert text.count("call void @og.tile") == 5
    assert text.count("define internal void @og.tile") == 3  # of products of few, of many pixels, of depthwise ones


@pytest.mark.parametrize("size, inputs", [(1, 600), (3, 16), (3, 300), (2, 2100)])
def test_shared_loops_add_up_in_the_same_order(size: int, inputs: int) -> None:
    """As loops that are written out do: those of code with fences are."""
    layer, x = nn.Conv2d(inputs, WIDTH + 5, size), torch.randn(1, inputs, 6, 5)
    assert torch.equal(run(layer, x)[1], run(layer, x, sanitize=True)[1])
    deep = depthwise(inputs, size)
    assert torch.equal(run(deep, x)[1], run(deep, x, sanitize=True)[1])
