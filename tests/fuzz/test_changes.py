"""A short run of the worlds that change."""

from __future__ import annotations

import pytest

from tests.fuzz.changes import CHANGES, difference, statements


@pytest.mark.parametrize("start", range(0, 200, 25))
def test_worlds_that_change(start: int) -> None:
    changes = statements(CHANGES)
    assert [text for seed in range(start, start + 25) if (text := difference(seed, changes))] == []
