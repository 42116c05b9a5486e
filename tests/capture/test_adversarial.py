"""Small programs that try to be captured wrongly: each runs in two worlds, eager and compiled, that must stay equal."""

from __future__ import annotations

import pytest

from tests.capture import twins

FILES = sorted(path.stem for path in twins.PROGRAMS.glob("*.py"))
PROGRAMS = [(stem, name) for stem in FILES for name in twins.names(stem)]


@pytest.mark.parametrize(("stem", "name"), PROGRAMS, ids=lambda part: part)
def test_program(stem: str, name: str) -> None:
    twins.check(stem, name, "eager")
