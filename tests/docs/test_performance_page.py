"""The charts of the page on performance are those of the stored results."""

from __future__ import annotations

import re
from collections.abc import Callable
from xml.etree import ElementTree

from import_graph import ROOT

from benchmarks.charts import CHARTS, pictures


def test_the_charts_are_current(golden: Callable[..., None]) -> None:
    for name, content in pictures().items():
        ElementTree.fromstring(content)
        golden(CHARTS / name, content)


def test_the_page_shows_each_chart() -> None:
    shown = re.findall(r"\]\(performance/(.*)\)", (ROOT / "docs" / "performance.md").read_text())
    assert sorted(shown) == sorted(pictures()) == sorted(path.name for path in CHARTS.iterdir())
