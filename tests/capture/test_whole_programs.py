"""Programs that use the standard library, each as one graph, in two worlds: eager and compiled."""

from __future__ import annotations

import pytest

from tests.capture import twins

FILES = sorted(f"whole/{path.stem}" for path in (twins.PROGRAMS / "whole").glob("*.py"))
PROGRAMS = [(stem, name) for stem in FILES for name in twins.names(stem)]


@pytest.mark.parametrize(("stem", "name"), PROGRAMS)
def test_program_is_one_graph(stem: str, name: str) -> None:
    twins.check(stem, name, "eager", fullgraph=True)
