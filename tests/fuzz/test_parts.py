"""Writes to parts of batched tensors, under the sanitizer; `python -m tests.fuzz.parts` draws more."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from fuzz.parts import check, difference, draw
from torch import Tensor

import onegraph


@pytest.mark.parametrize("number", range(12))
def test_writes_to_parts_are_eagers(number: int) -> None:
    assert check(number, sanitize=True) == "", draw(number)


def test_a_difference_is_seen() -> None:
    one = torch.ones(2, 2)
    seen = [(one, one.stride(), one.dtype)]
    assert difference(seen, seen) == ""
    assert "instead of" in difference([(one * 2, *seen[0][1:])], seen)
    assert "instead of" in difference([(one, (1, 2), one.dtype)], seen)
    assert "instead of" in difference(["RuntimeError"], seen)
    assert "instead of" in difference([None], ["RuntimeError"])


def windows_of_another_layout(x: Tensor, y: Tensor) -> Tensor:
    x.index_put_((torch.arange(x.shape[0]),), y)
    x.unfold(-1, 3, 3).add_(1.5)
    return x * 2


def windows_behind_a_row(x: Tensor, y: Tensor) -> Tensor:
    x[..., 2, :3] = y[..., 2, :3].flip(0)
    x.unfold(2, 2, 2)[..., 0].masked_fill_(y.unfold(2, 2, 2)[..., 0] > 0, -1)
    return x.sum(2)


def rows_of_windows_that_overlap(x: Tensor, y: Tensor) -> Tensor:
    x.copy_(y)
    x.unfold(-1, 3, 1)[..., 2, :].mul_(2)
    return x + 1


def filled_through_an_expanded_view(x: Tensor, y: Tensor) -> Tensor:
    x.copy_(y)
    x[:, :, :1].expand(-1, -1, 4, -1)[:, :, 2].fill_(3)
    return x + 1


def twice_by_strides(x: Tensor, y: Tensor) -> Tensor:
    x.mul_(2)
    x.as_strided((x.shape[0], 2), (x.stride(0), x.stride(2) + x.stride(3)), 2).mul_(3)
    return y + 1


def diagonals(x: Tensor, y: Tensor) -> Tensor:
    x.diagonal(1, -2, -1).mul_(2)
    y.diagonal(-2, -1, -2).add_(x.diagonal(2, -2, -1).mean(0))
    return x + y


def masked(x: Tensor, y: Tensor) -> Tensor:
    x.masked_scatter_(x > y, y)
    return x + 1


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("layout", ["contiguous", "transposed", "padded"])
@pytest.mark.parametrize(
    "function",
    [
        windows_of_another_layout,
        windows_behind_a_row,
        rows_of_windows_that_overlap,
        filled_through_an_expanded_view,
        twice_by_strides,
        diagonals,
        masked,
    ],
)
def test_parts_by_their_positions(function: Callable[..., Tensor], layout: str, dynamic: bool) -> None:
    """A part is where its view says, however the tensor lies; nothing is read behind the end of a diagonal."""
    compiled = onegraph.compile(function, dynamic=dynamic, options={"sanitize": True, "raise_compiler_errors": True})
    layouts: dict[str, Callable[[Tensor], Tensor]] = {
        "contiguous": Tensor.clone,
        "transposed": lambda x: x.mT.contiguous().mT,
        "padded": lambda x: torch.nn.functional.pad(x, (0, 3, 0, 2))[..., : x.shape[2], : x.shape[3]],
    }
    ours, theirs = ([layouts[layout](torch.randn(2, 1, 8, 8)), torch.randn(2, 1, 8, 8)] for _ in range(2))
    for mine, other in zip(ours, theirs, strict=True):
        mine.copy_(other)
    torch.testing.assert_close(compiled(*ours), function(*theirs))
    torch.testing.assert_close(ours, theirs)
