"""Compositions of transforms, under the sanitizer; `python -m tests.fuzz.transforms` draws more."""

from __future__ import annotations

import pytest
from fuzz.transforms import check, draw


@pytest.mark.parametrize("number", range(8))
def test_transforms_are_eagers(number: int) -> None:
    assert check(number, sanitize=True) == "", draw(number)
