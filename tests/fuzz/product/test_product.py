"""A short run of the product: `python -m tests.fuzz.product` is the long one."""

from __future__ import annotations

import warnings

import pytest
import torch

from tests.fuzz.product.cells import EVERYTHING, drawn, named
from tests.fuzz.product.running import judge, way_of

#: How many cells are run, and in one test.
COUNT, EACH = 500, 50


@pytest.mark.parametrize("start", range(0, COUNT, EACH))
def test_cells(start: int) -> None:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = {
                str(cell): judge(cell, way_of(at)) for at, cell in enumerate(drawn(COUNT, 0)[start : start + EACH])
            }
    finally:
        torch.set_num_threads(threads)
    assert {name: each.text for name, each in found.items() if each.kind in ("differs", "again")} == {}


def test_cells_are_spread_well() -> None:
    """Each piece of each axis is in some cell, and each family in as many as the others."""
    cells = drawn(COUNT, 0)
    assert len(set(map(str, cells))) == COUNT
    counts = [sum(cell.family is family for cell in cells) for family in EVERYTHING]
    assert max(counts) - min(counts) <= 1
    assert {cell.key.name for cell in cells} == {key.name for family in EVERYTHING for key in family.keys}
    assert all(cell.means_something() for cell in cells)


def test_names_of_cells() -> None:
    for cell in drawn(100, 1):
        assert named(str(cell)) == cell
