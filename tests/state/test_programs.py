"""Programs that keep state, as people write them: optimizers, averages, buffers, caches, registries, schedules."""

from __future__ import annotations

import pytest

from tests.state import kept

FILES = sorted(path.stem for path in kept.PROGRAMS.glob("*.py"))
PROGRAMS = [(stem, name) for stem in FILES for name in kept.load(stem).kept]


@pytest.mark.parametrize("backend", ["lowered", pytest.param("native", marks=pytest.mark.slow)])
@pytest.mark.parametrize(("stem", "name"), PROGRAMS)
def test_ten_calls_are_as_eager(stem: str, name: str, backend: str) -> None:
    kept.check(stem, name, backend)
