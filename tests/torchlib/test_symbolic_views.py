"""Views whose sizes are symbols have eager's sizes and strides for any sizes, with no more guards than are needed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

import onegraph
from onegraph.base import events as ev
from onegraph.torchlib.fake import FakeMode
from onegraph.torchlib.symbolic_views import contiguous_view
from tests.capture.resume.test_breaks import Watch

VIEWS: dict[str, Callable[[Tensor], Tensor]] = {
    "split": lambda x: x.view(x.shape[0], 3, 4),
    "joined": lambda x: x.view(-1),
    "joined and split": lambda x: x.view(x.shape[0] * 2, 6),
    "with ones": lambda x: x.view(1, x.shape[0], 1, 12, 1),
    "inferred": lambda x: x.view(-1, 2, 3),
    "inferred inside": lambda x: x.view(2, -1, x.shape[0]),
    "of a part": lambda x: x[1:].view(-1, 4),
    "of columns": lambda x: x[:, 2:8].unflatten(1, (2, 3)),
    "of a transposed": lambda x: x.t().unflatten(0, (3, 4)),
    "of a product": lambda x: torch.cat([x, x]).view(2, x.shape[0], -1),
    "may be empty": lambda x: x[2:].view(-1, 3, 4),
    "of one column": lambda x: x[:, :1].view(-1),
    "of a transposed batch": lambda x: x[None].transpose(1, 2).reshape(1, 12, x.shape[0], 1),
    "of two dimensions as one": lambda x: x[None, :, :6].transpose(0, 1).unflatten(2, (1, 2, 3)),
    "of what is repeated": lambda x: x[:, None].expand(x.shape[0], 2, 12).unflatten(2, (3, 4)),
    "conjugated": lambda x: torch.complex(x, x).conj().view(-1, 6).resolve_conj().real,
}
#: torch asks of their sizes whether they are one, zero, or another one, and eager's strides depend on that.
ASKING = ("inferred inside", "of a part", "may be empty", "conjugated")


@pytest.mark.parametrize("how", VIEWS)
def test_views_of_any_size(how: str) -> None:
    def f(x: Tensor) -> Any:
        found = VIEWS[how](x)
        return found, found + 1, found.stride(), found.shape, found.is_contiguous()

    compiled = onegraph.compile(f, dynamic=True, fullgraph=True)
    with Watch() as watch:
        for length in (4, 2, 7, 12, 3):
            x = torch.arange(12.0 * length).view(length, 12)
            (view, added, *rest), (expected, plus, *others) = compiled(x), f(x)
            assert torch.equal(view, expected) and torch.equal(added, plus) and rest == others
            shares = view.untyped_storage().data_ptr() == x.untyped_storage().data_ptr()
            assert shares or how in ("of a product", "conjugated")
    assert how in ASKING or len(watch.of(ev.GraphCaptured)) == 1


def test_a_map_of_tokens_goes_into_a_convolution_as_eager_lays_it_out() -> None:
    """The strides of the batch, of size 1, decide which layout the convolution gives."""
    layer = torch.nn.Conv2d(4, 3, 3, padding=1)

    def f(x: Tensor) -> Tensor:
        side = int(x.shape[1] ** 0.5)
        return layer((x * 2).transpose(1, 2).reshape(1, 4, side, side))

    compiled = onegraph.compile(f, fullgraph=True)
    with torch.no_grad():
        for count in (64, 256, 100, 400):
            x = torch.rand(1, count, 4)
            assert compiled(x).stride() == f(x).stride()


def test_a_view_that_cannot_be_is_an_error_as_in_eager() -> None:
    def f(x: Tensor) -> Tensor:
        return x.view(-1, 5)

    compiled = onegraph.compile(f, dynamic=True)
    for length in (5, 4, 10, 7):
        x = torch.zeros(length, 12)
        if length % 5:
            for function in (f, compiled):
                pytest.raises(RuntimeError, function, x).match("invalid for input of size")
        else:
            assert compiled(x).shape == f(x).shape


def test_what_is_known_without_a_question() -> None:
    mode = FakeMode()
    rows = mode.sizes.new(5, "rows")
    x = mode.fakeify(torch.empty(5, 12), {0: rows})

    def view(given: Tensor, *shape: Any) -> Tensor | None:
        return contiguous_view(mode.sizes, torch.ops.aten.view.default, (given, shape))

    for shape in ([rows, 3, 4], [-1, 4], [rows * 12], [1, 2, rows, 6], [-1, rows]):
        found = view(x, *shape)
        assert found is not None and found.is_contiguous()
    for shape in ([-1, 5], [-1, -1, rows * 12], [-1, 0], [60], [rows - 5, 12]):
        assert view(x, *shape) is None
    assert view(x.t(), 12, rows) is None
    assert mode.sizes.guards == ()
