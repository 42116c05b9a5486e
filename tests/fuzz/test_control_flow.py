"""Branches and loops over tensors, under the sanitizer; `python -m tests.fuzz.control_flow` draws more."""

from __future__ import annotations

import pytest
from fuzz.control_flow import check, draw


@pytest.mark.parametrize("number", range(10))
def test_programs_are_those_of_python(number: int) -> None:
    assert check(number, sanitize=True) == "", draw(number)
