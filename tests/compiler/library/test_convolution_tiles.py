"""Convolutions that are loops of ours give eager's results, with what is computed of them."""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import onegraph
from onegraph.base import events as ev
from onegraph.base.config import Config
from onegraph.compile import EVENTS
from onegraph.compiler.cpu import CPU
from onegraph.compiler.library import convolution
from onegraph.compiler.library.convolution_tiles import ConvolutionTiler
from onegraph.compiler.library.window import Window

OPTIONS = {"library_calls": "tiles", "verify": True, "raise_compiler_errors": True}
WIDTH = CPU.machine.tile_columns
TILED = "dot over"


def run(model: nn.Module, *args: Tensor, fullgraph: bool = True, **options: Any) -> tuple[str, Tensor]:
    """The loops of a model, and its result, which is as near to that in float64 as eager's."""
    texts: list[str] = []
    unsubscribe = EVENTS.subscribe(
        lambda event: texts.append(event.text()) if isinstance(event, ev.FusionDone) else None
    )
    compiled = onegraph.compile(model, fullgraph=fullgraph, options=OPTIONS | options)
    with torch.no_grad():
        ours, theirs = compiled(*args), model(*args)
        right = model.double()(*(x.double() for x in args))
    unsubscribe()
    model.to(args[0].dtype)
    onegraph.reset()
    assert ours.shape == theirs.shape and ours.stride() == theirs.stride() and ours.dtype is theirs.dtype
    allowed = 2 * (theirs - right).abs().max() + 1e-6 * right.abs().max()
    assert (ours - right).abs().max() <= allowed
    return "".join(texts), ours


def normalized(layer: nn.Conv2d) -> nn.Module:
    norm = nn.BatchNorm2d(layer.out_channels)
    for value in (norm.weight, norm.bias, norm.running_mean):
        nn.init.normal_(value)  # type: ignore[arg-type]
    nn.init.uniform_(norm.running_var, 0.5, 2)  # type: ignore[arg-type]
    return nn.Sequential(layer, norm, nn.ReLU()).eval()


SHAPES = [  # input channels, output channels, filter, and how it moves
    (16, WIDTH, 1, {}),
    (64, 2 * WIDTH, 1, {"stride": 2}),
    (40, WIDTH + 8, 1, {"stride": (1, 2), "bias": False}),
    (16, WIDTH, 3, {"padding": 1}),
    (24, WIDTH // 2, 3, {"padding": 1, "stride": 2}),
    (3, WIDTH, 7, {"padding": 3, "stride": 2}),
    (16, WIDTH, (3, 1), {"padding": (1, 0), "dilation": (2, 1)}),
    (20, 2 * WIDTH + 3, 2, {"dilation": 3, "padding": (0, 3), "stride": (2, 1)}),
    (16, WIDTH, 1, {"padding": 1}),
]


@pytest.mark.parametrize("count", [1, 3])
@pytest.mark.parametrize("inputs, outputs, size, options", SHAPES)
@pytest.mark.parametrize("order", [torch.contiguous_format, torch.channels_last])
def test_any_window(
    count: int, inputs: int, outputs: int, size: Any, options: dict[str, Any], order: torch.memory_format
) -> None:
    x = torch.randn(count, inputs, 11, 13).to(memory_format=order)
    layer = nn.Conv2d(inputs, outputs, size, **options)
    assert TILED in run(layer, x)[0]
    assert TILED in run(normalized(layer), x)[0]


def test_shapes_at_random() -> None:
    choose = random.Random(3).choice
    for _ in range(25):
        size, dilation = (choose([1, 1, 2, 3]), choose([1, 2, 3])), (choose([1, 2]), choose([1, 1, 2]))
        padding = tuple(choose([0, 1, 2]) for _ in range(2))
        layer = nn.Conv2d(
            choose([1, 5, 16, 33]), choose([WIDTH // 2, WIDTH - 1, WIDTH, WIDTH + 17]), size,
            (choose([1, 2, 3]), choose([1, 2])), padding, dilation, bias=choose([True, False]),
        )  # fmt: skip
        x = torch.randn(choose([1, 2]), layer.in_channels, choose([6, 7, 12]), choose([6, 9]))
        run(choose([normalized, nn.Sequential])(layer), x, verify=False)


class Block(nn.Module):
    """As in a residual network: an activation between, a sum and another activation behind."""

    def __init__(self, channels: int, inner: int, stride: int) -> None:
        super().__init__()
        self.first = normalized(nn.Conv2d(channels, inner, 1, bias=False))
        self.second = normalized(nn.Conv2d(inner, inner, 3, stride, 1, bias=False))
        self.third = normalized(nn.Conv2d(inner, channels, 1, bias=False))[:2]  # type: ignore[index]
        self.beside = nn.Conv2d(channels, channels, 1, stride) if stride > 1 else nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        return F.relu(self.third(self.second(self.first(x))) + self.beside(x))


@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("count", [1, 2])
def test_blocks(stride: int, count: int) -> None:
    text, _ = run(nn.Sequential(Block(128, 64, 1), Block(128, 64, stride)), torch.randn(count, 128, 7, 9))
    tiles = 6 + (stride > 1)
    assert sum(TILED in kernel for kernel in text.split("kernel ")[1:]) == tiles
    assert text.count("kernel ") == tiles + 3  # the copy with channels last, and the zeros around two images


@pytest.mark.parametrize("activation", [F.relu, F.hardswish, F.gelu, F.silu, partial(F.leaky_relu, negative_slope=0.1)])
def test_an_activation_is_part_of_the_tile(activation: Callable[[Tensor], Tensor]) -> None:
    class Activated(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Conv2d(32, WIDTH, 1)

        def forward(self, x: Tensor) -> Tensor:
            return activation(self.layer(x))

    text, _ = run(Activated(), torch.randn(1, 32, 6, 7).to(memory_format=torch.channels_last))
    assert text.count("kernel ") == 1 and TILED in text


class Pooled(nn.Module):
    def __init__(self, pool: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.layer, self.pool = normalized(nn.Conv2d(32, WIDTH, 1)), pool

    def forward(self, x: Tensor) -> Tensor:
        return self.pool(self.layer(x))


@pytest.mark.parametrize(
    "pool",
    [
        partial(F.max_pool2d, kernel_size=3, stride=2, padding=1),
        partial(F.adaptive_avg_pool2d, output_size=1),
        lambda y: y.mean((2, 3)),
        lambda y: y.flatten(2).softmax(2),
        lambda y: torch.cat([y, y * 2], 1),
        lambda y: F.interpolate(y, scale_factor=2, mode="nearest"),
        lambda y: y.unfold(2, 3, 1)[..., 1] * 2,
        lambda y: y.unfold(3, 4, 2).sum(-1),
    ],
)
def test_what_is_computed_of_the_result(pool: Callable[[Tensor], Tensor]) -> None:
    assert TILED in run(Pooled(pool), torch.randn(2, 32, 8, 9))[0]


def test_numbers_that_are_none_stay_where_the_filter_sees_them() -> None:
    for model in (nn.Conv2d(16, WIDTH, 3, padding=1), nn.Sequential(nn.Conv2d(16, WIDTH, 1, 2), nn.ReLU())):
        x = torch.randn(2, 16, 7, 7)
        x[0, 3, 2, 2], x[1, 0, 0, 6], x[1, 5, 4, 4] = torch.nan, torch.inf, -torch.inf
        with torch.no_grad():
            compiled = onegraph.compile(model, fullgraph=True, options=OPTIONS)
            torch.testing.assert_close(compiled(x), model(x), equal_nan=True)
        onegraph.reset()


def test_any_number_of_images() -> None:
    model = nn.Sequential(
        normalized(nn.Conv2d(16, WIDTH, 3, 2, 1)), normalized(nn.Conv2d(WIDTH, WIDTH, 1)), nn.Conv2d(WIDTH, WIDTH, 1, 2)
    )
    texts: list[str] = []
    unsubscribe = EVENTS.subscribe(
        lambda event: texts.append(event.text()) if isinstance(event, ev.FusionDone) else None
    )
    compiled = onegraph.compile(model, fullgraph=True, options=OPTIONS)
    with torch.no_grad():
        for count in (2, 5, 3, 17, 1):
            x = torch.randn(count, 16, 9, 7)
            torch.testing.assert_close(compiled(x), model(x))
    unsubscribe()
    assert len(texts) > 1 and all(TILED in text for text in texts)
    onegraph.reset()


def test_images_of_any_size_are_left_to_a_library() -> None:
    model = nn.Sequential(normalized(nn.Conv2d(16, WIDTH, 3, 2, 1)), nn.Conv2d(WIDTH, WIDTH, 1))
    compiled = onegraph.compile(model, fullgraph=True, dynamic=True, options=OPTIONS)
    with torch.no_grad():
        for shape in [(2, 16, 9, 9), (3, 16, 12, 7), (2, 16, 31, 5)]:
            x = torch.randn(shape)
            torch.testing.assert_close(compiled(x), model(x))
    onegraph.reset()


def test_weights_that_change_are_packed_again() -> None:
    model = normalized(nn.Conv2d(16, WIDTH, 3))
    compiled = onegraph.compile(model, fullgraph=True, options=OPTIONS)
    x = torch.randn(2, 16, 7, 7)
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


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64])
def test_other_types_are_left_to_a_library(dtype: torch.dtype) -> None:
    model, x = normalized(nn.Conv2d(32, WIDTH, 1)).to(dtype), torch.randn(1, 32, 7, 7).to(dtype)
    assert TILED not in run(model, x)[0]


def test_groups_and_few_channels_are_left_to_a_library() -> None:
    x = torch.randn(1, 64, 7, 7)
    assert TILED not in run(nn.Conv2d(64, 2 * WIDTH, 1, groups=2), x)[0]
    assert TILED not in run(nn.Conv2d(64, WIDTH // 8 - 1, 1), x)[0]
    assert TILED not in run(nn.Conv2d(4, WIDTH, 7), x[:, :4])[0]  # one pixel


def test_training_is_eagers() -> None:
    model, x = nn.Sequential(Block(WIDTH, WIDTH, 1), nn.Conv2d(WIDTH, 3, 1)), torch.randn(2, WIDTH, 6, 6)
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
    model = nn.Sequential(Block(WIDTH, WIDTH, 1), nn.Conv2d(WIDTH, WIDTH + 5, 1, 2))
    run(model, torch.randn(2, WIDTH, 7, 7), sanitize=True, threads=threads)


def test_results_written_over_what_is_added_are_added_once() -> None:
    class Sum(nn.Module):
        """The sum may be written over what a library gives; a tile that is not full computes the last row again."""

        def __init__(self) -> None:
            super().__init__()
            self.layer, self.grouped = nn.Conv2d(WIDTH, WIDTH, 1), nn.Conv2d(WIDTH, WIDTH, 1, groups=WIDTH)

        def forward(self, x: Tensor) -> Tensor:
            return self.layer(x) + self.grouped(x)

    for size in (1, 7, 11, 13):
        x = torch.randn(1, WIDTH, size, 13).to(memory_format=torch.channels_last)
        assert TILED in run(Sum(), x)[0]


def test_the_faster_of_tiles_and_a_library_is_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    known = {"aten": 1.0, "packed": 0.5}
    monkeypatch.setattr(convolution, "times", lambda what, *_: {"copy": 0.1} if what.startswith("copy") else known)
    layer, x = nn.Conv2d(32, WIDTH, 1), torch.randn(1, 32, 7, 7)
    for seconds, tiled in ((0.4, True), (0.6, False)):
        monkeypatch.setattr(ConvolutionTiler, "seconds", lambda *_, seconds=seconds: seconds)
        assert (TILED in run(layer, x, library_calls="measured")[0]) == tiled
        digests = run(layer, x, library_calls="measured", watch_parameters=False)[0]
        assert TILED not in digests  # of weights that are read in every call


def test_the_speed_of_tiles_is_measured_once(monkeypatch: pytest.MonkeyPatch) -> None:
    timed: list[str] = []

    def times(what: str, *_: Any) -> dict[str, float]:
        timed.append(what)
        return {"tiles": 1.0}

    monkeypatch.setattr("onegraph.compiler.library.convolution_tiles.times", times)
    tiler = ConvolutionTiler(lambda module: lambda *_: (), CPU.machine, Config(cache=False))
    window = Window((0, 0), (1, 1), (1, 1), 1)
    fits = partial(tiler.fits, w=window)
    assert fits((WIDTH, 32, 1, 1), pixels=100) and not fits((WIDTH, 32, 1, 1), pixels=1)
    assert not fits((WIDTH, 1 << 20, 3, 3), pixels=100)

    def seconds(filters: tuple[int, ...], pixels: int, padded: int = 0, w: Window = window) -> float:
        return tiler.seconds(None, filters, w, pixels, padded)

    whole = [seconds((WIDTH, inner, 1, 1), 600) for inner in (64, 128, 1024)]
    assert whole == sorted(whole) and len(set(timed)) == 1
    assert seconds((WIDTH + 1, 64, 1, 1), 600) > whole[0]
    assert seconds((WIDTH, 64, 1, 1), 600, 10_000) > whole[0]
    assert seconds((WIDTH, 64, 1, 1), 601) > whole[0]
    deep = Window((0, 0), (1, 1), (1, 1), WIDTH)
    assert tiler.fits((WIDTH, 1, 3, 3), deep, 100) and not tiler.fits((2 * WIDTH, 1, 3, 3), deep, 100)
    assert seconds((WIDTH, 1, 3, 3), 600, w=deep) < seconds((WIDTH, 1, 5, 5), 600, w=deep)
    assert len(set(timed)) == 2  # depthwise ones are timed by themselves
