"""The table of functions."""

from __future__ import annotations

import gc
from typing import Any

from onegraph.capture.interp import functions
from onegraph.capture.interp.functions import NOTHING_KNOWN, passing_row_for, row_for, row_of, unmark


def said(*args: Any) -> str:
    return "said"


def test_a_function_without_a_row_is_not_known() -> None:
    assert row_of(lambda: None) is NOTHING_KNOWN


def test_a_function_takes_its_row_along() -> None:
    known = len(functions._ROWS)
    for _ in range(3):
        function = lambda: None  # noqa: E731 - it dies
        passing_row_for(function).mark = said
        assert row_of(function).mark is said
        assert len(functions._ROWS) == known + 1
        del function
        gc.collect()
        assert len(functions._ROWS) == known


def test_what_has_no_weak_references_is_kept_until_nothing_is_said_of_it() -> None:
    class Callable:
        __slots__ = ()

        def __call__(self) -> None: ...

    known, kept = len(functions._ROWS), Callable()
    passing_row_for(kept).mark = said
    assert row_of(kept).function is kept
    unmark(kept)
    assert len(functions._ROWS) == known


def test_what_the_program_says_leaves_the_rest_of_a_row() -> None:
    def function() -> None: ...

    row_for(function).depth = "level"
    passing_row_for(function).mark = said
    unmark(function)
    assert row_of(function).mark is None
    assert row_of(function).depth == "level"
    del functions._ROWS[id(function)]


def test_nothing_said_is_nothing_to_take_back() -> None:
    unmark(test_nothing_said_is_nothing_to_take_back)
    assert row_of(test_nothing_said_is_nothing_to_take_back) is NOTHING_KNOWN
