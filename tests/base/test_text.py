from __future__ import annotations

import doctest

from onegraph.base import text
from onegraph.base.text import Printer, columns, plural


def test_examples_in_the_documentation() -> None:
    assert doctest.testmod(text).failed == 0


def test_printer_indents_every_line_and_leaves_empty_ones_empty() -> None:
    out = Printer()
    with out.indented(), out.indented():
        out.lines(["a\n\nb", "c"])
    out.line("d")
    assert out.text() == "    a\n\n    b\n    c\nd"


def test_columns_of_ragged_rows() -> None:
    assert columns([("a",), ("bb", "c", "d"), ("x", "yyy")]) == "a\nbb  c  d\nx   yyy"


def test_plural() -> None:
    assert [plural(n, "graph") for n in (0, 1, 2)] == ["0 graphs", "1 graph", "2 graphs"]
