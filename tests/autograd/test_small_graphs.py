"""Graphs that record gradients are compiled if that is faster: not a few operators on little."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

import onegraph
from onegraph.base import events as ev
from tests.capture.resume.test_breaks import Watch


def chain(x: Tensor, count: int) -> Tensor:
    for _ in range(count):
        x = x.sin()
    return x


@pytest.mark.parametrize(
    ("count", "shape", "recorded", "compiled"),
    [
        (4, (3, 5), True, False),
        (5, (3, 5), True, True),
        (1, (100, 100), True, True),
        (1, (3, 5), False, True),
    ],
    ids=["few", "more", "large", "without gradients"],
)
def test_what_is_small_runs_by_operators(count: int, shape: tuple[int, ...], recorded: bool, compiled: bool) -> None:
    x = torch.randn(shape, requires_grad=recorded)
    function = onegraph.compile(chain, fullgraph=True, dynamic=False, options={"smallest_recorded_graph": 5})
    with Watch() as watch:
        result = function(x, count)
    assert bool(watch.of(ev.KernelsCompiled)) == compiled
    torch.testing.assert_close(result, chain(x, count))
    if recorded:
        ours, theirs = (torch.autograd.grad(f(x, count).sum(), x) for f in (function, chain))
        torch.testing.assert_close(ours, theirs)
