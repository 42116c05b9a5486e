"""Large results come in large pages, where the system gives them to those who ask."""

from __future__ import annotations

import mmap
import resource
from collections.abc import Callable

import pytest
import torch

import onegraph

SIZE = 48 << 20  # bytes of a result, whose memory goes back to the system each time
PAGE = 4096


def faults() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt


def faults_of(calls: int, function: Callable[[], object]) -> int:
    before = faults()
    for _ in range(calls):
        function()
    return faults() - before


def touch() -> None:
    """Write to memory for which large pages were asked."""
    memory = mmap.mmap(-1, SIZE, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    memory.madvise(mmap.MADV_HUGEPAGE)
    for at in range(0, SIZE, PAGE):
        memory[at] = 1
    memory.close()


def compare(function: Callable[[], torch.Tensor]) -> None:
    """The system gives large pages while it has some: asked before and after."""
    few = 4 * SIZE // PAGE // 4
    function()
    found = [faults_of(4, each) for each in (touch, function, touch)]
    if max(found[0], found[2]) >= few:
        pytest.skip("this system has no large pages to give")
    assert found[1] < few
    onegraph.reset()


def test_few_faults_for_a_large_result() -> None:
    x = torch.ones(SIZE // 4)
    run = onegraph.compile(lambda x: x * 2 + 1)
    compare(lambda: run(x))
    assert bool((run(x) == 3).all())


def test_few_faults_for_a_large_product() -> None:
    # Of float64: for float32 a library that makes its results itself may be the fastest.
    x, y = (torch.ones(shape, dtype=torch.float64) for shape in ((SIZE // 32768, 1), (1, 4096)))
    run = onegraph.compile(lambda x, y: x @ y)
    with torch.no_grad():
        compare(lambda: run(x, y))
        assert bool((run(x, y) == 1).all())
