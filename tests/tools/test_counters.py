"""What is counted."""

from __future__ import annotations

import torch

import onegraph


def test_what_happens_is_counted() -> None:
    def f(x):
        y = x.sin() + 1
        print("between")
        return y * 2

    compiled = onegraph.compile(f)
    onegraph.counters.clear()
    for n in (3, 4, 4):
        compiled(torch.ones(n))
    counted = onegraph.counters
    assert counted["stats"] == {"unique_graphs": 4, "calls_captured": 6}
    assert counted["frames"]["total"] == counted["frames"]["ok"] >= 4
    assert counted["graph_break"] == {"print": 2}
    assert any("`x` had size [3], has [4]" in reason for reason in counted["recompiles"])
    assert sum(counted["kernels"].values()) == 4
    assert counted["nothing"]["of it"] == 0
    onegraph.counters.clear()
    assert not onegraph.counters
