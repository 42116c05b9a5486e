"""Programs with sizes that only the data say, under the sanitizer; `python -m tests.fuzz.data_sizes` draws more."""

from __future__ import annotations

import pytest
from fuzz.data_sizes import check, draw


@pytest.mark.parametrize("number", range(16))
def test_results_are_eagers(number: int) -> None:
    assert check(number, sanitize=True) == "", draw(number)
