"""The pages that come with the package, and the commands that print them."""

from __future__ import annotations

import io
import subprocess
import sys
from pathlib import Path
from unittest import mock

import pytest
from import_graph import ROOT

from onegraph.capture.breaks import CATALOGUE
from onegraph.tools.cli import main
from onegraph.tools.pages import PAGES


def test_every_kind_of_break_has_its_page(capsys: pytest.CaptureFixture[str]) -> None:
    for kind in CATALOGUE:
        assert main(["explain-break", kind]) == 0
        assert capsys.readouterr().out == (PAGES / "graph_breaks" / f"{kind}.md").read_text()


def test_without_a_kind_all_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain-break"]) == 0
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == [*CATALOGUE]


def test_near_names_are_suggested(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain-break", "tensor-items"]) == 1
    assert "there is no graph break 'tensor-items' (did you mean 'tensor-item' or " in capsys.readouterr().err
    assert main(["docs", "dynamic_shape"]) == 1
    assert "there is no page 'dynamic_shape' (did you mean 'dynamic_shapes'" in capsys.readouterr().err


def test_pages_are_listed_and_found_with_and_without_their_folder(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["docs"]) == 0
    listed = capsys.readouterr().out
    assert "\nprogramming_model/generation " in listed and "tensor-item" not in listed
    for name in ("generation", "programming_model/generation"):
        assert main(["docs", name]) == 0
        assert capsys.readouterr().out.startswith("# Generation\n")


def test_a_terminal_shows_a_page_without_its_marks() -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    with mock.patch.object(sys, "stdout", Terminal()) as terminal:
        assert main(["explain-break", "tensor-item"]) == 0
    shown = terminal.getvalue()
    assert "Keep the value in a tensor of no dimensions" in shown
    assert "**Keep" not in shown and "```" not in shown


def test_the_package_holds_the_pages(tmp_path: Path) -> None:
    build = [sys.executable, "setup.py", "--quiet", "build_py", "--build-lib", str(tmp_path)]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True)
    built, pages = tmp_path / "onegraph" / "docs", ROOT / "docs"
    assert not built.is_symlink()
    assert {path.relative_to(built) for path in built.rglob("*.md")} == {
        path.relative_to(pages) for path in pages.rglob("*.md")
    }
