"""Random graphs, as kernels for GPUs, equal eager; the checker runs after every pass, and each
access to memory is looked at."""

from __future__ import annotations

import pytest
from gpu.interpreted.interpreter import CHECKED, INTERPRETED

from tests.compiler.fuzz import difference


def run(seeds: range, symbolic: bool = False) -> None:
    found = {seed: text for seed in seeds if (text := difference(seed, symbolic, target=INTERPRETED, **CHECKED))}
    assert not found, found


@pytest.mark.parametrize("start", range(0, 60, 20))
def test_random_graphs(start: int) -> None:
    run(range(start, start + 20))


def test_random_graphs_of_unknown_sizes() -> None:
    run(range(200, 220), symbolic=True)


@pytest.mark.slow
@pytest.mark.parametrize("start", range(1000, 3000, 100))
def test_many_random_graphs(start: int) -> None:
    run(range(start, start + 100))


@pytest.mark.slow
@pytest.mark.parametrize("start", range(6000, 7000, 100))
def test_many_random_graphs_of_unknown_sizes(start: int) -> None:
    run(range(start, start + 100), symbolic=True)
