"""Products with weights of 8-bit integers give eager's results, and read the weight as integers."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

import onegraph
from onegraph.base.events import FusionDone, OperatorFellBack
from onegraph.compile import EVENTS

int8_product = torch.ops.aten._weight_int8pack_mm
TOLERANCE = {torch.float32: 1e-5, torch.bfloat16: 1e-2, torch.float16: 2e-3}


class Int8Linear(nn.Module):
    """A linear layer whose weight was rounded to integers, with a scale for each of its rows."""

    def __init__(self, inner: int, columns: int, dtype: torch.dtype) -> None:
        super().__init__()
        weight = torch.randn(columns, inner)
        scales = weight.abs().amax(1) / 127
        self.register_buffer("scales", (scales / inner**0.5).to(dtype))
        self.register_buffer("weight", torch.round(weight / scales[:, None]).to(torch.int8))

    def forward(self, x: Tensor) -> Tensor:
        return int8_product(x, self.weight, self.scales)


def compare(model: nn.Module, x: Tensor, calls: str = "measured") -> set[str]:
    """Compare with eager, and give the operators that fell back."""
    fallen: set[str] = set()

    def note(event: object) -> None:
        if isinstance(event, OperatorFellBack):
            fallen.add(event.operator)

    stop = EVENTS.subscribe(note)
    try:
        compiled = onegraph.compile(model, fullgraph=True, options={"library_calls": calls})
        with torch.no_grad():
            ours, theirs = compiled(x), model(x)
    finally:
        stop()
        onegraph.reset()
    assert ours.dtype is theirs.dtype and ours.shape == theirs.shape
    torch.testing.assert_close(ours, theirs, rtol=TOLERANCE[x.dtype], atol=TOLERANCE[x.dtype])
    return fallen


@pytest.mark.parametrize("calls", ["aten", "onednn", "packed", "measured"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("rows", [1, 3, 8, 9, 40])
def test_products_of_integers(rows: int, dtype: torch.dtype, calls: str) -> None:
    for inner, columns in ((64, 32), (320, 97)):
        model = nn.Sequential(Int8Linear(inner, columns, dtype), nn.GELU(approximate="tanh"))
        compare(model, torch.randn(rows, inner, dtype=dtype), calls)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_few_rows_are_sums(dtype: torch.dtype) -> None:
    model = nn.Sequential(Int8Linear(256, 320, dtype), nn.SiLU(), Int8Linear(320, 64, dtype))
    for rows in (1, 4, 8):
        assert compare(model, torch.randn(rows, 256, dtype=dtype)) == set()


def test_what_the_program_changes_is_seen() -> None:
    layer = Int8Linear(128, 48, torch.float32)
    compiled = onegraph.compile(layer)
    x = torch.randn(2, 128)
    for _ in range(3):
        torch.testing.assert_close(compiled(x), layer(x))
        layer.weight.neg_()
        layer.scales.mul_(2)
    onegraph.reset()


def test_rows_that_vary() -> None:
    layer = Int8Linear(128, 48, torch.float32)
    compiled = onegraph.compile(layer, dynamic=True)
    for rows in (2, 5, 17, 1):
        x = torch.randn(rows, 128)
        torch.testing.assert_close(compiled(x), layer(x), rtol=1e-5, atol=1e-5)
    onegraph.reset()


def test_integers_that_a_short_float_holds_are_not_rounded() -> None:
    """A weight that is widened in the program needs no rounding to bfloat16 on the way to float32."""
    texts: list[str] = []
    stop = EVENTS.subscribe(lambda event: texts.append(str(event.text())) if isinstance(event, FusionDone) else None)
    short = torch.arange(-128, 128).to(torch.int8).view(2, 128)
    long = torch.arange(-30_000, 30_000, 100).to(torch.int16)
    try:
        for weight, is_rounded in ((short, False), (short.view(torch.uint8), False), (short > 0, False), (long, True)):
            compiled = onegraph.compile(lambda w: w.to(torch.bfloat16).float() + 0.5, fullgraph=True)
            assert torch.equal(compiled(weight), weight.to(torch.bfloat16).float() + 0.5)
            assert ("bf16 = cast" in texts[-1]) is is_rounded
    finally:
        stop()
        onegraph.reset()
