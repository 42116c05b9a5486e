"""All that graphs take in, in one program, under the sanitizer; `python -m tests.fuzz.composed` draws more."""

from __future__ import annotations

import pytest
from fuzz.composed import check, draw


@pytest.mark.parametrize("number", range(16))
def test_programs_are_those_of_eager(number: int) -> None:
    assert check(number, sanitize=True) == "", draw(number)
