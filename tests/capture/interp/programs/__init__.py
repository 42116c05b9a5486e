"""Programs that the interpreter must run as CPython does: plain functions without arguments, gathered by `program`."""

from __future__ import annotations

from collections.abc import Callable

PROGRAMS: list[Callable[[], object]] = []


def program(function: Callable[[], object]) -> Callable[[], object]:
    PROGRAMS.append(function)
    return function
