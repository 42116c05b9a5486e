from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any

import pytest
from import_graph import ROOT

from onegraph.capture.breaks import CATALOGUE
from onegraph.tools.break_page import index, page
from tests.capture.breaks.catalogue import CASES
from tests.capture.breaks.table import Case

DOCS = ROOT / "docs"


def source_of(*things: Any) -> str:
    """The source of functions and classes without the decorators of the table."""
    return "\n\n".join("".join(kept_lines(thing)) for thing in things)


def kept_lines(thing: Any) -> Iterator[str]:
    thing = getattr(thing, "_init_fn", thing)  # of a custom operator
    for line in inspect.getsourcelines(thing)[0]:
        if not line.startswith("@breaks(") and not (line.startswith("@") and ".fixed(" in line):
            yield line


def test_the_index_is_made_from_the_catalogue(golden) -> None:
    golden(DOCS / "graph_breaks.md", index(CATALOGUE))


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.reason.code)
def test_pages_are_made_from_the_table(case: Case, golden) -> None:
    mended = [(fix.hint, source_of(*fix.uses, fix.function)) for fix in case.fixes]
    golden(
        DOCS / "graph_breaks" / f"{case.reason.code}.md",
        page(case.reason, source_of(*case.uses, case.function), mended, case.options),
    )


def test_no_page_is_left_over() -> None:
    assert {path.stem for path in (DOCS / "graph_breaks").glob("*.md")} == set(CATALOGUE)


def test_every_entry_explains_itself() -> None:
    for code, reason in CATALOGUE.items():
        assert code == reason.code
        assert reason.summary and reason.explanation and reason.hints
