"""Lazy modules: the first call, which gives parameters their sizes, runs as it is written; then they are one graph."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import onegraph
from onegraph.base import events as ev
from tests.capture.resume.test_breaks import Watch


class Lazy(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.LazyLinear(4)
        self.drop = nn.Dropout(0.5)
        self.second = nn.LazyLinear(2)

    def forward(self, x):
        return self.second(self.drop(self.first(x).relu()))


@pytest.mark.parametrize("fullgraph", [False, True])
def test_second_call_is_one_graph(fullgraph: bool) -> None:
    plain, lazy = Lazy(), Lazy()
    compiled = onegraph.compile(lazy, fullgraph=fullgraph)
    x = torch.randn(3, 8)
    with Watch() as watch:
        for seed in (1, 2, 3):  # the parameters are drawn in the first call, before and behind the dropout's numbers
            torch.manual_seed(seed)
            found = compiled(x)
            torch.manual_seed(seed)
            torch.testing.assert_close(found, plain(x))
    assert len(watch.of(ev.FrameSkipped)) == 1 and not watch.of(ev.GraphBroken)
    assert len(watch.graphs) == 1
    assert type(lazy.first) is nn.Linear


def test_each_of_several_is_completed() -> None:
    apply = onegraph.compile(lambda module, x: module(x) * 2)
    x = torch.randn(3, 8)
    for seed in range(4):
        plain, lazy = Lazy().eval(), Lazy().eval()
        for _ in range(2):
            torch.manual_seed(seed)
            found = apply(lazy, x)
            torch.manual_seed(seed)
            torch.testing.assert_close(found, plain(x) * 2)
