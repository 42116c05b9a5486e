"""The page on sizes that change shows the table of what needs the digits of a number."""

from __future__ import annotations

import re

from import_graph import ROOT

from tests.capture.symbolic.digits import NEEDS

PAGE = ROOT / "docs" / "programming_model" / "dynamic_shapes.md"


def test_the_page_shows_the_table() -> None:
    rows = [f"| {need.what} | {need.why} |" for need in NEEDS]
    shown = re.findall(r"^\| (?!what |---).*$", PAGE.read_text(), re.M)
    assert shown == rows
