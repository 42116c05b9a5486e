"""Small programs that try to be captured wrongly: each runs in two worlds, eager and compiled, that must stay equal."""

from __future__ import annotations

import pytest

from tests.capture import twins

FILES = sorted(path.stem for path in twins.PROGRAMS.glob("*.py"))
PROGRAMS = [(stem, name) for stem in FILES for name in twins.names(stem)]
#: What depends on the graph, and not on Python alone, is also compiled to native code.
NATIVE = [(stem, name) for stem, name in PROGRAMS if stem in ("tensors", "modules", "gradients", "gradient_hatches")]


@pytest.mark.parametrize(("stem", "name"), PROGRAMS)
def test_program(stem: str, name: str) -> None:
    twins.check(stem, name, "eager")


@pytest.mark.parametrize(("stem", "name"), NATIVE)
def test_program_in_native_code(stem: str, name: str) -> None:
    twins.check(stem, name, "native")
