"""A rank that dies, stops, raises or compiles alone does not hold up the others, and leaves the cache as it was."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.distributed.faults import STEPS, Fault, check, check_cache, run


@pytest.mark.parametrize("kind", ["dies", "raises", "compiles alone"])
def test_the_other_rank_comes_to_an_end(kind: str, tmp_path: Path) -> None:
    assert check(Fault(kind, 1, 1, True, False, 8), tmp_path) == ("goes on" if kind == "compiles alone" else "raises")


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_fifty_faults() -> None:
    assert run(50, 1).total() == 50


def test_a_rank_that_dies_while_it_compiles_leaves_no_broken_entry(tmp_path: Path) -> None:
    check(Fault("dies while it compiles", 0, STEPS, True, False, 8), tmp_path)
    check_cache(tmp_path)
