"""Conditions over sizes as text."""

from __future__ import annotations

import pytest

from onegraph.base.errors import InvalidArgument
from onegraph.export.conditions import evaluate, holds, sizes_in

SIZES = {"x": (3, 4), "y_0": (8,)}


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("x.size(0) + 1 == x.size(1)", True),
        ("2 * x.size(1) == y_0.size(0)", True),
        ("(x.size(1) // 2) == 2", True),
        ("x.size(1) % 3 != 1", False),
        ("min(x.size(0), x.size(1)) < 3", False),
        ("max(x.size(0), 2) <= 3", True),
        ("-x.size(0) > 0", False),
        ("x.size(0) // (x.size(0) - 3) == 1", False),
    ],
)
def test_what_holds(condition: str, expected: bool) -> None:
    assert holds(condition, SIZES) is expected


@pytest.mark.parametrize(
    "text",
    [
        "z.size(0) == 1",
        "x.size(7) == 1",
        "x.real == 1",
        "print(1) == 1",
        "x.size(0) ==",
    ],
)
def test_what_is_no_condition(text: str) -> None:
    with pytest.raises(InvalidArgument, match="no condition over sizes"):
        holds(text, SIZES)


def test_parts() -> None:
    assert sizes_in("x.size(1) * 2 == y_0.size(0) + x.size(1)") == (("x", 1), ("y_0", 0))
    assert evaluate("x.size(1) * 2 + 1", SIZES) == 9
