"""Twenty steps of whole models, in all ways in which processes share the work: a table of (model x way x processes).

With the backend eager parameters are bitwise those of the program that is not compiled. Kernels round in another way.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterable
from functools import partial
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import nn

import onegraph
from tests.distributed import zoo
from tests.distributed.models import compile_shared, eagerly, import_what_children_need
from tests.distributed.processes import two_processes

STEPS = 20
Cell = tuple[str, str, bool]
#: Ways of which a whole model is one graph; blocks are one in each.
WHOLE = ("data", "tensor", "sequence")


@pytest.fixture(scope="module", autouse=True)
def _imported() -> None:
    """What DistributedDataParallel imports when one is made takes seconds: here once, not in each process."""
    importlib.import_module("torch._dynamo")
    import_what_children_need()


def cells(ways: Iterable[str], hows: Iterable[bool]) -> list[Cell]:
    """Model, way, and whether blocks are compiled, not the whole."""
    of_ways = [(name, way) for way in ways for name in zoo.MODELS if (name, way) not in zoo.MISSING]
    return [(name, way, how) for name, way in of_ways for how in hows]


def compared(table: list[Cell], backend: str, steps: int) -> dict[Cell, tuple[int, int]]:
    """Train in each way, eager and compiled. How many graphs and breaks that took, beside hooks of shards."""
    found = {}
    for name, way, by_blocks in table:
        wanted = zoo.trained(name, way, by_blocks, steps, eagerly)
        onegraph.reset()
        onegraph.counters.clear()
        results = zoo.trained(name, way, by_blocks, steps, partial(compile_shared, backend=backend))
        close = {"atol": 0, "rtol": 0} if backend == "eager" else {"atol": 1e-5, "rtol": 1e-4}
        torch.testing.assert_close(results, wanted, **close, msg=lambda text, of=(name, way): f"{of}: {text}")
        breaks = sum(onegraph.counters["graph_break"].values())
        assert not {"autograd", "backward"} & {*onegraph.counters["fallbacks"]}, (name, way, by_blocks)
        found[name, way, by_blocks] = onegraph.counters["stats"]["unique_graphs"], breaks
    return found


def check(table: list[Cell], backend: str = "native", size: int = 2, steps: int = STEPS) -> None:
    for counts in two_processes(compared, table, backend, steps, size=size):
        for (name, way, by_blocks), (graphs, breaks) in counts.items():
            # A look-up in a table of which each process has some rows breaks the graph.
            if way in WHOLE and not by_blocks and (name, way) != ("language", "sequence"):
                assert (graphs, breaks) == (1, 0), (name, way)
            elif by_blocks:  # equal blocks share a version
                assert graphs == (2 if name == "experts" or (name, way) == ("language", "sequence") else 1), (name, way)


@pytest.mark.parametrize(
    ("way", "by_blocks"), [("data", False), ("sharded", True), ("tensor", False), ("sequence", False)]
)
def test_twenty_steps_are_eagers(way: str, by_blocks: bool) -> None:
    check(cells((way,), (by_blocks,)))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("way", "by_blocks"), [("data", True), ("sharded", False), ("tensor", True), ("sequence", True)]
)
def test_twenty_steps_otherwise(way: str, by_blocks: bool) -> None:
    check(cells((way,), (by_blocks,)))


@pytest.mark.slow
@pytest.mark.parametrize("way", ["data", "sharded", "tensor", "sequence"])
def test_they_are_bitwise_eagers_without_kernels(way: str) -> None:
    check(cells((way,), (False, True)), "eager")


@pytest.mark.slow
@pytest.mark.parametrize("way", ["data", "sharded", "tensor", "sequence", "hybrid", "sharded tensor"])
@pytest.mark.parametrize("by_blocks", [False, True])
def test_four_processes(way: str, by_blocks: bool) -> None:
    check(cells((way,), (by_blocks,)), size=4)


# ---- how many versions -----------------------------------------------------------------------------------------------


def many_blocks(way: str) -> tuple[int, int]:
    onegraph.reset()
    onegraph.counters.clear()
    model = nn.Sequential(*[zoo.Feed() for _ in range(24)])
    before, behind = zoo.ways()[way]
    before(model)
    zoo.compile_blocks(model, compile_shared)
    behind(model)(torch.randn(2, 8, zoo.WIDTH)).sum().backward()
    dist.barrier()
    return onegraph.counters["stats"]["unique_graphs"], len({*onegraph.counters["fallbacks"]} & {"backward"})


def many() -> dict[str, Any]:
    return {way: many_blocks(way) for way in ("sharded", "tensor")}


def test_24_blocks_are_two_versions() -> None:
    """The input of the first one gets no gradient. Hooks of equal blocks have other numbers, which mean nothing."""
    assert two_processes(many) == [{"sharded": (2, 0), "tensor": (2, 0)}] * 2
