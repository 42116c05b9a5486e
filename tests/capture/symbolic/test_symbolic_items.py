"""Items of tensors at places that are changing numbers: one version for all that are within, and eager's results."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import onegraph
from onegraph.base import events as ev
from tests.capture.resume.test_breaks import Watch


def written(x: torch.Tensor, n: int) -> torch.Tensor:
    x = x.clone()
    x[n] = x[0]
    x[:, n - 1] += 1
    x.view(-1)[n] = 3.5
    return x


READS: dict[str, Callable[[torch.Tensor, int], torch.Tensor]] = {
    "row": lambda x, n: x[n] * 2,
    "column": lambda x, n: x[:, n] + 1,
    "two places": lambda x, n: x[n, ..., n] * 1,
    "from the end": lambda x, n: x[..., -n] * 2,
    "among slices and new dimensions": lambda x, n: x[n - 1 : n + 1, None, n] * 2,
    "one after the other": lambda x, n: x[n][n] * 2,
    "beside a number": lambda x, n: x[1, n] * 2,
    "a view": lambda x, n: x[:, n],
    "written": written,
}


@pytest.mark.parametrize("name", READS)
def test_items_at_changing_places(name: str) -> None:
    function, x = READS[name], torch.randn(12, 9, 8)
    compiled = onegraph.compile(function, backend="eager")
    with Watch() as watch:
        for n in (3, 4, 5, 6, 7, 2):
            found, expected = compiled(x, n), function(x, n)
            assert torch.equal(found, expected) and found.stride() == expected.stride()
            assert found._is_view() == expected._is_view()
    assert len(watch.of(ev.GraphCaptured)) == 2
    for n in (20, -1, 0, -15):
        assert outcome(compiled, x, n) == outcome(function, x, n)
    onegraph.reset()


def outcome(function: Callable[..., torch.Tensor], *args: Any) -> object:
    try:
        return function(*args).tolist()
    except IndexError as error:
        return str(error)
