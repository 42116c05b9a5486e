"""Random graphs equal eager; the checker runs after every pass."""

from __future__ import annotations

import pytest

from tests.compiler.fuzz import difference


def run(seeds: range, symbolic: bool = False) -> None:
    found = {seed: text for seed in seeds if (text := difference(seed, symbolic))}
    assert not found, found


@pytest.mark.parametrize("start", range(0, 120, 20))
def test_random_graphs(start: int) -> None:
    run(range(start, start + 20))


def test_a_part_of_a_tensor_that_nobody_reads() -> None:
    """Its other part joins the kernel of what it is made of."""
    run(range(193, 194))


@pytest.mark.slow
@pytest.mark.parametrize("start", range(1000, 6000, 100))
def test_many_random_graphs(start: int) -> None:
    run(range(start, start + 100))


@pytest.mark.parametrize("seeds", [range(200, 230), pytest.param(range(6000, 7000), marks=pytest.mark.slow)])
def test_random_graphs_of_unknown_sizes(seeds: range) -> None:
    run(seeds, symbolic=True)
