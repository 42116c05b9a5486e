"""Weights of 4 and 8 bits with floats: against float64, of the weights as they were rounded; how far these are off."""

from __future__ import annotations

import gc
import random
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import onegraph
from onegraph.base.events import FusionDone, ProductsQuantized
from onegraph.compile import EVENTS
from onegraph.compiler.library import short_weights
from onegraph.compiler.library.blocks import BLOCK, Blocks
from onegraph.torchlib.short_weights import GROUP

BITS = {"int4-weights": 4, "int8-weights": 8}


@pytest.fixture(autouse=True)
def _anew() -> Iterator[None]:
    torch.manual_seed(0)
    with torch.no_grad():
        yield
    onegraph.reset()


def compiled(model: Any, quantize: str, **settings: Any) -> Any:
    options = {"quantize": quantize, "library_calls": "packed", **settings.pop("options", {})}
    return onegraph.compile(model, options=options, fullgraph=True, **settings)


def as_rounded(weight: Tensor, bits: int) -> Tensor:
    """The weight of a linear layer as it is multiplied, by the arithmetic that the documentation has."""
    groups = nn.functional.pad(weight.float(), (0, -weight.shape[1] % GROUP))
    groups = groups.unflatten(1, (-1, GROUP if bits == 4 else groups.shape[1]))
    low, high = groups.amin(2, keepdim=True), groups.amax(2, keepdim=True)
    if bits == 4:
        scales = (torch.where(high > -low, high, low) / -8).bfloat16().float()
    else:
        scales = torch.maximum(high, -low) / 127
    codes = torch.round(groups * torch.where(scales == 0, 1, scales).reciprocal())
    codes = codes.clamp(*((-8, 7) if bits == 4 else (-127, 127)))
    return (codes.double() * scales.double()).flatten(1)[:, : weight.shape[1]]


def off(found: Tensor, expected: Tensor) -> float:
    return float((found - expected).norm() / expected.norm())


# ---- results ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("quantize", BITS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_layers_of_any_size(quantize: str, dtype: torch.dtype) -> None:
    draw = random.Random(f"{quantize} {dtype}")
    rounding = 1e-6 if dtype is torch.float32 else 4e-3
    for _ in range(6):
        rows, inner, columns = draw.randint(1, 8), draw.randint(64, 300), draw.randint(1, 200)
        biased = draw.random() < 0.5
        layer, x = nn.Linear(inner, columns, bias=biased).to(dtype), torch.randn(rows, inner).to(dtype)
        found = compiled(layer, quantize)(x)
        expected = x.double() @ as_rounded(layer.weight, BITS[quantize]).t() + (layer.bias.double() if biased else 0)
        assert found.dtype is dtype and found.shape == (rows, columns) and found.is_contiguous()
        assert off(found.double(), expected) < rounding, (rows, inner, columns, biased)
        onegraph.reset()


@pytest.mark.parametrize("bits", BITS.values())
def test_products_of_any_size(bits: int) -> None:
    draw = random.Random(bits)
    sizes = [(draw.randint(1, 9), draw.randint(1, 300), draw.randint(1, 200)) for _ in range(10)]
    for rows, inner, columns in [(1, 1, 1), (9, 32, 32), (2, 33, 31), *sizes]:
        weight, x = torch.randn(columns, inner), torch.randn(rows, inner)
        words = short_weights.packed(weight, False, bits)
        assert torch.equal(words, short_weights.packed(weight.t().contiguous(), True, bits))

        def product(x: Tensor, words: Tensor, inner: int = inner, columns: int = columns) -> Tensor:
            def do(target: Any, *args: Any) -> Any:
                return target(*args)

            return short_weights.product_with(do, short_weights.factors_of(do, x, bits), words, inner, columns, bits)

        expected = x.double() @ as_rounded(weight, bits).t()
        for found in (product(x, words), onegraph.compile(product, fullgraph=True)(x, words)):
            assert off(found.double(), expected) < 1e-6, (rows, inner, columns)
        onegraph.reset()


def test_the_other_factor_may_be_far_from_one() -> None:
    """It is divided by powers of 16, which must round nothing."""
    layer = nn.Linear(96, 40, bias=False)
    for scale in (1e-20, 1e-3, 1e4, 1e15):
        x = torch.randn(2, 96) * scale
        found = compiled(layer, "int4-weights")(x)
        assert off(found.double(), x.double() @ as_rounded(layer.weight, 4).t()) < 1e-6


@pytest.mark.parametrize("quantize", BITS)
def test_numbers_that_are_none(quantize: str) -> None:
    layer, x = nn.Linear(128, 40, bias=False), torch.randn(2, 128)
    layer.weight[3, 5], layer.weight[7, 100], layer.weight[9] = torch.nan, -torch.inf, 0.0
    options = {"quantize": quantize, "library_calls": "packed"}
    model = nn.Sequential(layer)
    run = onegraph.compile(model, options=options)
    words = short_weights.packed(layer.weight, False, BITS[quantize])
    floats = short_weights.as_floats(words, 128, 40, BITS[quantize])
    group = slice(0, 32) if quantize == "int4-weights" else slice(0, 128)
    assert floats[3, group].isnan().all() and floats[7, 100].isnan() and (floats[9] == 0).all()
    rest = [row for row in range(40) if row not in (3, 7)]
    assert floats[rest].isfinite().all()
    assert run(x).shape == (2, 40)  # whose error is no number: it stays in floats


# ---- how far they are off --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("quantize", "least", "most"), [("int4-weights", 0.08, 0.09), ("int8-weights", 0.004, 0.008)])
def test_the_error_of_normal_weights(quantize: str, least: float, most: float) -> None:
    layer, x = nn.Linear(512, 256, bias=False), torch.randn(4, 512)
    nn.init.normal_(layer.weight)
    events: list[ProductsQuantized] = []
    stop = EVENTS.subscribe(lambda event: events.append(event) if isinstance(event, ProductsQuantized) else None)
    try:
        found = compiled(layer, quantize)(x)
    finally:
        stop()
    (product,) = events[0].products
    assert product.error is not None and least < product.error < most
    assert abs(off(found, layer(x)) - product.error) < 0.2 * most


@pytest.mark.parametrize("bits", BITS.values())
def test_no_element_is_farther_off_than_half_a_step(bits: int) -> None:
    weight = torch.randn(96, 256)
    found = short_weights.as_floats(short_weights.packed(weight, False, bits), 256, 96, bits)
    groups = weight.unflatten(1, (-1, 32 if bits == 4 else 256))
    steps = groups.abs().amax(2, keepdim=True) / (8 if bits == 4 else 127)
    step = (steps * 1.01).expand_as(groups).flatten(1)
    beyond = (found.sign() != weight.sign()) | (found.abs() < weight.abs())  # 8 itself is no number of four bits
    assert bool(((found - weight).abs() <= torch.where(beyond, step, step / 2)).all())
    assert float(((found - weight).abs() <= step / 2).float().mean()) > 0.98


def test_what_four_bits_spoil_stays_in_floats() -> None:
    layer, x = nn.Linear(128, 64), torch.randn(2, 128)
    layer.weight[:, ::32] = 1e4  # beside them all others of a group are rounded to nothing
    x[:, ::32] = 0
    plain = onegraph.compile(layer, options={"library_calls": "packed"})(x)
    torch.testing.assert_close(compiled(layer, "int4-weights")(x), plain)


# ---- parameters ------------------------------------------------------------------------------------------------------


class Tied(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.table, self.layer = nn.Embedding(70, 96), nn.Linear(96, 96)

    def forward(self, tokens: Tensor) -> Tensor:
        return self.layer(self.table(tokens)) @ self.table.weight.t()


@pytest.mark.parametrize("quantize", BITS)
def test_a_weight_in_two_places(quantize: str) -> None:
    model, tokens = Tied(), torch.randint(70, (3,))
    x = model.table(tokens).double() @ as_rounded(model.layer.weight, BITS[quantize]).t() + model.layer.bias
    expected = x @ as_rounded(model.table.weight, BITS[quantize]).t()
    assert off(compiled(model, quantize)(tokens).double(), expected) < 1e-6


@pytest.mark.parametrize("checked", ["watch_parameters", "freeze_parameters"])
def test_weights_that_change_are_packed_anew(checked: str) -> None:
    layer, x = nn.Linear(96, 64), torch.randn(2, 96)
    run = compiled(
        layer, "int4-weights", options={name: name == checked for name in ("watch_parameters", "freeze_parameters")}
    )
    for _ in range(3):
        expected = x.double() @ as_rounded(layer.weight, 4).t() + layer.bias.double()
        assert off(run(x).double(), expected) < 1e-6
        layer.weight.mul_(-1.5)
        layer.weight[0].add_(1)


def test_calls_that_record_gradients_stay_in_floats() -> None:
    layer, x = nn.Linear(96, 64), torch.randn(2, 96)
    run = compiled(layer, "int4-weights")
    with torch.enable_grad():
        found = run(x)
        torch.testing.assert_close(found, layer(x))
        found.sum().backward()
    torch.testing.assert_close(layer.weight.grad, x.sum(0).expand(64, 96))


@pytest.mark.parametrize("quantize", BITS)
def test_more_rows_stay_in_floats(quantize: str) -> None:
    layer = nn.Linear(96, 64)
    run = compiled(layer, quantize, dynamic=True)
    for rows in (9, 2, 30):
        x = torch.randn(rows, 96)
        torch.testing.assert_close(run(x), layer(x))


def test_several_layers_share_what_they_multiply_with() -> None:
    texts: list[str] = []
    stop = EVENTS.subscribe(lambda event: texts.append(str(event.text())) if isinstance(event, FusionDone) else None)
    layers = nn.ModuleList(nn.Linear(128, 64, bias=False) for _ in range(3))
    x = torch.randn(1, 128)

    def model(x: Tensor) -> list[Tensor]:
        return [layer(x) for layer in layers]

    try:
        for found, layer in zip(compiled(model, "int4-weights")(x), layers, strict=True):
            assert off(found.double(), x.double() @ as_rounded(layer.weight, 4).t()) < 1e-6
    finally:
        stop()
    assert texts[-1].count("shr(") == 3 and texts[-1].count("store") == 5  # three results, and twice what they share


# ---- kernels ---------------------------------------------------------------------------------------------------------


def loops_of(function: Any, *given: Tensor) -> str:
    texts: list[str] = []
    stop = EVENTS.subscribe(lambda event: texts.append(str(event.text())) if isinstance(event, FusionDone) else None)
    try:
        onegraph.compile(function, fullgraph=True)(*given)
    finally:
        stop()
    return texts[-1]


@pytest.mark.parametrize("bits", BITS.values())
def test_eight_rows_unpack_the_weight_once(bits: int) -> None:
    words = short_weights.packed(torch.randn(512, 512), False, bits)

    def do(target: Any, *args: Any) -> Any:
        return target(*args)

    def product(x: Tensor, words: Tensor) -> Tensor:
        return short_weights.product_with(do, short_weights.factors_of(do, x, bits), words, 512, 512, bits)

    text = loops_of(product, torch.randn(8, 512), words)
    assert text.count("sum over") == 8
    assert text.count("shr(") == 1 and text.count("fma(") == 8 * 32 // bits


def test_a_weight_that_is_widened_for_some_rows_is_not_stored() -> None:
    weight = torch.randint(-127, 127, (512, 256), dtype=torch.int8)
    for rows in (2, 8):
        x = torch.randn(rows, 256)
        text = loops_of(lambda x, w: (x.unsqueeze(1) * w.float()).sum(2), x, weight)
        assert text.count("kernel") == 1
        onegraph.reset()


# ---- memory ----------------------------------------------------------------------------------------------------------


def test_pieces_of_a_block_lie_apart_and_keep_it() -> None:
    blocks = Blocks()
    first, second = blocks.piece((100,), torch.int32), blocks.piece((3, 5), torch.int8)
    first.fill_(1)
    second.fill_(2)
    assert first.data_ptr() % 64 == second.data_ptr() % 64 == 0 and second.data_ptr() - first.data_ptr() == 448
    assert bool((first == 1).all()) and second.is_contiguous() and second.shape == (3, 5)
    large = blocks.piece((BLOCK + 1,), torch.uint8)
    assert large.numel() == BLOCK + 1
    del first, second, large
    gc.collect()
    assert blocks._last is not None and blocks._last() is None


# ---- torch's own four bits -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_products_that_torch_packs_itself(dtype: torch.dtype) -> None:
    """Those of torchao's layers, too: its call is what is called."""
    integers = torch.randint(0, 16, (64, 128), dtype=torch.int32)
    scales = torch.randn(128 // 32, 64, 2, dtype=dtype)

    def packed(integers: Tensor) -> Tensor:
        return torch.ops.aten._convert_weight_to_int4pack_for_cpu(integers, 8)

    def product(x: Tensor, weight: Tensor, scales: Tensor) -> Tensor:
        return torch.ops.aten._weight_int4pack_mm_for_cpu(x * 2, weight, 32, scales).relu()

    weight = packed(integers)
    assert torch.equal(onegraph.compile(packed, fullgraph=True)(integers), weight)
    for rows in (1, 5, 40):
        x = torch.randn(rows, 128, dtype=dtype)
        expected = product(x, weight, scales)
        torch.testing.assert_close(onegraph.compile(product, fullgraph=True)(x, weight, scales), expected)
