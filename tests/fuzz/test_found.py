"""Programs that once differed from eager, as the fuzzer found them and made them small."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fuzz.twin import Way, compare

FOUND = sorted(Path(__file__).parent.glob("found/*.py"))
WAYS = [Way("eager", check_unchanged=True), Way("eager", dynamic=True), Way("native")]


@pytest.mark.parametrize("way", WAYS, ids=lambda way: f"{way.backend}-{'dynamic' if way.dynamic else 'automatic'}")
@pytest.mark.parametrize("path", FOUND, ids=lambda path: path.stem)
def test_program(path: Path, way: Way) -> None:
    difference = compare(path.read_text(), way)
    assert difference is None, difference.text
