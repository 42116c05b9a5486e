"""A few of the random programs over sizes."""

from __future__ import annotations

import random

import pytest

from tests.capture.symbolic.random_sizes import SIZES, program, run


@pytest.mark.parametrize("seed", range(40))
def test_few_versions(seed: int) -> None:
    """Sizes from two on, and numbers that are not negative: at most three versions, unless the program branches."""
    found = run(program(seed, signed=False), random.Random(seed).sample(SIZES[2:], 10), "eager")
    assert not found.different
    assert not found.too_many


@pytest.mark.parametrize("seed", [*range(40), 214, 312, 713])
def test_any_sizes(seed: int) -> None:
    found = run(program(seed, signed=True), random.Random(seed).sample(SIZES, 10), "native")
    assert not found.different
    assert not found.too_many
