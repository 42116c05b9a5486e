"""Where a collective fails, and where another process finds what this one has captured."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist

import onegraph
from onegraph.base import events as ev
from onegraph.compile import EVENTS
from tests.distributed.processes import two_processes


def fail_alone() -> Any:
    group = dist.new_group([0, 1], timeout=timedelta(seconds=1))
    seen: list[Any] = []
    EVENTS.subscribe(lambda event: seen.append(event.resolved) if isinstance(event, ev.GraphFailed) else None)

    @onegraph.compile
    def f(x: torch.Tensor) -> torch.Tensor:
        x.add_(1)
        y = x * 2
        dist.all_reduce(y, group=group)
        return y + 1

    x = torch.zeros(3)
    f(x)
    if dist.get_rank() == 1:
        return None
    with pytest.raises(RuntimeError, match="(?i)time.?d? ?out"):
        f(x)
    return seen, x.tolist()


def test_an_error_reaches_the_caller_and_nothing_runs_twice() -> None:
    """What is run again would wait for the others again, and count up again."""
    (seen, x), _ = two_processes(fail_alone)
    assert seen == [False] and x[0] in (1, 2)


def find(folder: Path) -> Any:
    searched: list[Any] = []
    EVENTS.subscribe(lambda event: searched.append(event) if isinstance(event, ev.DiskSearched) else None)
    options = {"cache_dir": folder, "verify": False}

    @onegraph.compile(fullgraph=True, options=options)
    def f(x: torch.Tensor) -> torch.Tensor:
        y = x * (dist.get_rank() + 1)
        dist.all_reduce(y)
        return y + dist.get_rank()

    result = f(torch.ones(2))
    return [event.found for event in searched if event.stage == "capture"], result.tolist()


def test_captures_are_found_by_the_rank_that_they_are_of(tmp_path: Path) -> None:
    results = [[3, 3], [4, 4]]
    for _ in range(2):  # of those that store at the same time, one may be first only
        assert [result for _, result in two_processes(find, tmp_path)] == results
    assert two_processes(find, tmp_path) == [([True], result) for result in results]
