"""Large results come in large pages, where the system gives them to those who ask."""

from __future__ import annotations

import resource
from pathlib import Path

import pytest
import torch

import onegraph

SETTING = Path("/sys/kernel/mm/transparent_hugepage/enabled")
GIVEN = SETTING.exists() and "[never]" not in SETTING.read_text()


@pytest.mark.skipif(not GIVEN, reason="this system has no large pages")
def test_few_faults_for_a_large_result() -> None:
    x = torch.ones(12 << 20)  # 48 MB: memory that goes back to the system each time

    def faults() -> int:
        return resource.getrusage(resource.RUSAGE_SELF).ru_minflt

    run = onegraph.compile(lambda x: x * 2 + 1)
    run(x)
    before = faults()
    for _ in range(4):
        result = run(x)
    assert faults() - before < 4 * x.nbytes // 4096 // 4
    assert bool((result == 3).all())
    onegraph.reset()


@pytest.mark.skipif(not GIVEN, reason="this system has no large pages")
def test_few_faults_for_a_large_product() -> None:
    x, y = torch.ones(3 << 20, 1), torch.ones(1, 4)

    def faults() -> int:
        return resource.getrusage(resource.RUSAGE_SELF).ru_minflt

    with torch.no_grad():
        run = onegraph.compile(lambda x, y: x @ y)
        run(x, y)
        before = faults()
        for _ in range(4):
            result = run(x, y)
    assert faults() - before < 4 * result.nbytes // 4096 // 4
    assert bool((result == 1).all())
    onegraph.reset()
