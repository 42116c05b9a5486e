"""Products that are loops of ours give eager's results, with what is computed around them."""

from __future__ import annotations

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

OPTIONS = {"library_calls": "tiles", "verify": True, "raise_compiler_errors": True}
WIDTH = CPU.machine.tile_columns


def fused(function: Callable[..., Any], *args: Tensor, **options: Any) -> str:
    """The loops of a function, whose result is as near to that in float64 as eager's."""
    texts: list[str] = []
    unsubscribe = EVENTS.subscribe(
        lambda event: texts.append(event.text()) if isinstance(event, ev.FusionDone) else None
    )
    compiled = onegraph.compile(function, fullgraph=True, options=OPTIONS | options)
    with torch.no_grad():
        ours, theirs = compiled(*args), function(*args)
        model = function if not isinstance(function, nn.Module) else function.double()
        right = model(*(x.double() for x in args))
    unsubscribe()
    assert ours.shape == theirs.shape and ours.stride() == theirs.stride() and ours.dtype is theirs.dtype
    allowed = 2 * (theirs - right).abs().max() + 1e-6 * right.abs().max()
    assert (ours - right).abs().max() <= allowed
    if isinstance(function, nn.Module):
        function.float()
    onegraph.reset()
    return "".join(texts)


Function = Callable[[Tensor], Tensor]


class Around(nn.Module):
    """A layer with something before it and something behind it."""

    def __init__(
        self, inner: int, columns: int, before: Callable[[Tensor], Tensor], behind: Callable[[Tensor], Tensor]
    ):
        super().__init__()
        self.layer, self.before, self.behind = nn.Linear(inner, columns), before, behind

    def forward(self, x: Tensor) -> Tensor:
        return self.behind(self.layer(self.before(x)))


def same(x: Tensor) -> Tensor:
    return x


@pytest.mark.parametrize("rows", [1, 2, 5, 6, 7, 11, 13, 67])
@pytest.mark.parametrize("inner", [1, 17, 600])
def test_any_number_of_rows(rows: int, inner: int) -> None:
    text = fused(nn.Linear(inner, 2 * WIDTH), torch.randn(rows, inner))
    assert ("dot over" in text) == (rows > 1 and inner > 1)


@pytest.mark.parametrize("rows", [2, 61, 200, 203])
@pytest.mark.parametrize("inner", [769, 800, 1152])
def test_long_sums_are_made_in_blocks_that_several_tiles_go_through(rows: int, inner: int) -> None:
    text = fused(Around(inner, 9 * WIDTH + 3, same, F.gelu), torch.randn(rows, inner), sanitize=True)
    assert text.count("dot over") > 0


def test_long_sums_are_as_exact_as_in_eager_mode() -> None:
    layer, x = nn.Linear(3072, 2 * WIDTH, bias=False), torch.randn(60, 3072)
    with torch.no_grad():
        exact = F.linear(x.double(), layer.weight.double())
        ours, theirs = (call(x).double() - exact for call in (onegraph.compile(layer, options=OPTIONS), layer))
    assert ours.square().mean() <= 1.2 * theirs.square().mean()
    onegraph.reset()


BEHIND = {
    "nothing": same,
    "gelu": F.gelu,
    "normalized": lambda y: F.layer_norm(y, y.shape[1:]),
    "softmax": lambda y: y.softmax(1),
    "heads": lambda y: y.view(y.shape[0], -1, 16).transpose(0, 1),
    "transposed": lambda y: y.t().contiguous(),
    "sum": lambda y: y.sum(1),
    "gated": lambda y: y[:, :WIDTH].sigmoid() * y[:, WIDTH:],
}


@pytest.mark.parametrize("before", [same, lambda x: x * 2, lambda x: F.layer_norm(x, x.shape[1:])])
@pytest.mark.parametrize("behind", BEHIND)
def test_what_is_computed_around_it(before: Function, behind: str) -> None:
    text = fused(Around(48, 2 * WIDTH, before, BEHIND[behind]), torch.randn(20, 48))
    assert "dot over" in text


def test_an_activation_is_part_of_the_tile() -> None:
    text = fused(Around(48, 2 * WIDTH, same, F.gelu), torch.randn(12, 48))
    assert text.count("kernel k") == 1 and "gelu(" in text


@pytest.mark.parametrize("x", [torch.randn(48, 20).t(), torch.randn(20, 96)[:, ::2], torch.randn(20, 50)[:, 2:]])
def test_rows_that_lie_apart(x: Tensor) -> None:
    fused(nn.Linear(48, WIDTH), x)


def test_a_weight_whose_rows_are_summed_over() -> None:
    weight, bias = nn.Parameter(torch.randn(48, WIDTH)), nn.Parameter(torch.randn(WIDTH))

    class Tall(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight, self.bias = weight, bias

        def forward(self, x: Tensor) -> Tensor:
            return torch.addmm(self.bias, x, self.weight)

    assert "dot over" in fused(Tall(), torch.randn(20, 48))


def test_rows_that_change() -> None:
    layer = Around(48, 2 * WIDTH, same, F.gelu)
    compiled = onegraph.compile(layer, fullgraph=True, dynamic=True, options=OPTIONS)
    with torch.no_grad():
        for rows in (2, 5, 6, 7, 24, 100, 3):
            x = torch.randn(rows, 48)
            torch.testing.assert_close(compiled(x), layer(x))
    onegraph.reset()


def test_weights_that_change_are_packed_again() -> None:
    layer = nn.Linear(48, WIDTH)
    compiled = onegraph.compile(layer, fullgraph=True, options=OPTIONS)
    x = torch.randn(20, 48)
    with torch.no_grad():
        for change in (lambda: None, lambda: layer.weight.mul_(2), lambda: layer.weight.data.add_(1)):
            change()
            torch.testing.assert_close(compiled(x), layer(x))
    onegraph.reset()


def test_numbers_that_are_none_stay_in_their_rows() -> None:
    layer = nn.Linear(48, WIDTH)
    x = torch.randn(20, 48)
    x[3, 5], x[7, 0], x[19, 47] = torch.nan, torch.inf, -torch.inf
    with torch.no_grad():
        ours, theirs = onegraph.compile(layer, fullgraph=True, options=OPTIONS)(x), layer(x)
    torch.testing.assert_close(ours, theirs, equal_nan=True)
    onegraph.reset()


@pytest.mark.parametrize("columns", [8 * WIDTH + 1, 9 * WIDTH - 1, 9 * WIDTH + WIDTH // 2])
def test_columns_that_do_not_fill_the_last_panel(columns: int) -> None:
    text = fused(Around(48, columns, same, F.gelu), torch.randn(13, 48))
    assert text.count("kernel k") == 2 and "dot over" in text
    fused(Around(48, columns, same, lambda y: y[:, 1:-1].softmax(1)), torch.randn(12, 48))


def test_columns_that_fill_less_than_a_panel_are_left_to_a_library() -> None:
    assert "dot over" not in fused(nn.Linear(48, WIDTH - 1), torch.randn(20, 48))


def test_products_that_the_program_writes_as_sums() -> None:
    def product(x: Tensor, y: Tensor) -> Tensor:
        return (x[:, :, None] * y[None]).sum(1)

    def batched(x: Tensor, y: Tensor) -> Tensor:
        return (x[:, :, :, None] * y[:, None]).sum(2).relu()

    def tokens(x: Tensor, y: Tensor) -> Tensor:
        return (x[:, :, :, None] * y).sum(2).relu()

    def windows(x: Tensor, y: Tensor) -> Tensor:
        return (x.unfold(1, 4, 3)[..., None] * y).sum((2, 3))

    assert "dot over" in fused(product, torch.randn(20, 30), torch.randn(30, 70))
    assert "dot over" in fused(tokens, torch.randn(3, 7, 30), torch.randn(30, 70))
    assert "dot over" in fused(tokens, torch.randn(30, 3, 7).permute(2, 1, 0), torch.randn(30, 70))
    assert "dot over" in fused(windows, torch.randn(5, 20, 8), torch.randn(8, 4, 70))
    assert "dot over" in fused(batched, torch.randn(3, 20, 30), torch.randn(3, 30, 70))


def test_sums_of_other_things() -> None:
    def squares(x: Tensor, y: Tensor) -> Tensor:
        return ((x[:, :, None] - y[None]) ** 2).sum(1)

    def distances(x: Tensor, y: Tensor) -> Tensor:
        return (x[:, :, None] - y[None]).abs().sum(1)

    assert "dot over" in fused(squares, torch.randn(20, 30), torch.randn(30, 70))
    assert "dot over" not in fused(distances, torch.randn(20, 30), torch.randn(30, 70))


@pytest.mark.parametrize("threads", [1, 2])
def test_code_with_fences(threads: int) -> None:
    fused(Around(70, 3 * WIDTH, same, F.gelu), torch.randn(13, 70), sanitize=True, threads=threads)
