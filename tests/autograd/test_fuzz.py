"""A few dozen random programs that are trained; `python -m tests.autograd.fuzz` draws more."""

from __future__ import annotations

import pytest
from autograd.fuzz import check, difference, draw


@pytest.mark.parametrize("number", range(36))
def test_training_is_eagers(number: int) -> None:
    assert check(number) == "", draw(number)


def test_a_difference_is_seen() -> None:
    assert difference([1, (2, None)], [1, (2, None)]) == ""
    assert difference([1, (2, None)], [1, (2, 3)]) == "[1][1]: None instead of 3"
    assert difference([1], [1, 2])
    assert difference([None], [(1, 2)]) == "[0]: None instead of (1, 2)"
    assert difference([(1, 2)], [None]) == "[0]: (1, 2) instead of None"
