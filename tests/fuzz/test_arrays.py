"""Programs on NumPy's arrays, under the sanitizer; `python -m tests.fuzz.arrays` draws more."""

from __future__ import annotations

import pytest
from fuzz.arrays import check, draw


@pytest.mark.parametrize("number", range(20))
def test_arrays_are_numpys(number: int) -> None:
    assert check(number, sanitize=True) == "", draw(number)
