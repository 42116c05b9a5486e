from __future__ import annotations

from import_graph import ROOT

from onegraph.capture.breaks import CATALOGUE
from onegraph.tools.break_page import page


def test_the_page_is_made_from_the_catalogue(golden) -> None:
    golden(ROOT / "docs" / "graph_breaks.md", page(CATALOGUE))


def test_every_entry_explains_itself() -> None:
    for code, reason in CATALOGUE.items():
        assert code == reason.code
        assert reason.summary and reason.explanation
