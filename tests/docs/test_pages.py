"""The examples of the pages run, and print what the pages say.

A page is one program: its `python` blocks run in order, in one module, and the commands of its `console` blocks between
them. An `output` block holds what the block before it printed; `pytest --update-golden` refreshes it.
"""

from __future__ import annotations

import importlib.util
import io
import linecache
import re
import shlex
import sys
import types
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import pytest
from import_graph import ROOT

import onegraph
import onegraph.capture.capture_frame  # noqa: F401  says how to trace functions of ours, which is nothing that a page has said
from onegraph.capture.interp import functions
from onegraph.tools.cli import main

BLOCK = re.compile(r"^```(?P<kind>python|console|output)\n(?P<body>.*?)^```$", re.M | re.S)
IMPORT = re.compile(r"^ *(?:import|from) (\w+)", re.M)
LINK = re.compile(r"\]\((?P<target>[^)#:\s]*)(#(?P<part>[^)\s]*))?\)")
HEADING = re.compile(r"^#+ (.*)$", re.M)


def examples_run_here(path: Path) -> bool:
    """Whether a page has examples, of its own and of libraries that are installed. (Each kind of break has a table.)"""
    blocks = [*BLOCK.finditer(path.read_text())]
    imported = {name for block in blocks if block["kind"] == "python" for name in IMPORT.findall(block["body"])}
    return bool(blocks) and path.parent.name != "graph_breaks" and all(map(importlib.util.find_spec, imported))


PAGES = [path for path in sorted((ROOT / "docs").rglob("*.md")) if examples_run_here(path)]


@pytest.fixture(autouse=True)
def _fresh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """What a page says of functions of the standard library would hold for the tests that follow."""
    monkeypatch.chdir(tmp_path)
    onegraph.reset()
    marked = {identity for identity, row in functions._ROWS.items() if row.mark is not None}
    yield
    for identity, row in functions._ROWS.items():
        row.mark = row.mark if identity in marked else None
    onegraph.reset()


class Page:
    """The module that the blocks of a page make up. Its text grows from block to block: messages can show lines."""

    def __init__(self, name: str) -> None:
        self.file = f"{name}.py"
        self.text = ""
        self.module = types.ModuleType(f"page_{name}")
        self.module.__file__ = self.file

    def commands(self, block: str) -> str:
        """Run commands of onegraph, one a line: what they print."""
        printed = io.StringIO()
        with redirect_stdout(printed), redirect_stderr(printed):
            for line in block.splitlines():
                program, *arguments = shlex.split(line.removeprefix("$ "))
                assert program == "onegraph", f"{self.file}: {line}"
                main(arguments)
        return printed.getvalue()

    def run(self, block: str) -> str:
        """Run one block: what it prints."""
        start = self.text.count("\n")
        self.text += block
        linecache.cache[self.file] = (len(self.text), None, self.text.splitlines(keepends=True), self.file)
        printed = io.StringIO()
        with redirect_stdout(printed):
            exec(compile("\n" * start + block, self.file, "exec", dont_inherit=True), vars(self.module))
        return printed.getvalue().replace(f"{ROOT}/", "").replace(f"{Path.cwd()}/", "")


def refreshed(path: Path) -> str:
    """The page, with what its examples print now."""
    page = Page(path.stem)
    sys.modules[page.module.__name__] = page.module
    printed = ""

    def block(match: re.Match[str]) -> str:
        nonlocal printed
        if match["kind"] == "output":
            shown, printed = printed, ""
            return f"```output\n{shown}```"
        assert not printed, f"{path.name}: a block prints, and the page does not show it:\n{printed}"
        printed = page.run(match["body"]) if match["kind"] == "python" else page.commands(match["body"])
        return match[0]

    try:
        return BLOCK.sub(block, path.read_text())
    finally:
        del sys.modules[page.module.__name__]


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_examples_print_what_the_page_says(path: Path, golden, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ONEGRAPH_SHARE_VERSIONS", "1")  # as it is where a reader tries them
    onegraph.reset()
    golden(path, refreshed(path))


def parts_of(page: Path) -> set[str]:
    """What a link to a heading of the page may name."""
    headings = HEADING.findall(BLOCK.sub("", page.read_text()))
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize(
    "path", [*sorted((ROOT / "docs").rglob("*.md")), *sorted(ROOT.glob("*.md"))], ids=lambda path: path.stem
)
def test_links_lead_somewhere(path: Path) -> None:
    for match in LINK.finditer(BLOCK.sub("", path.read_text())):
        target = path.parent / match["target"] if match["target"] else path
        assert target.exists(), f"{path.name} links to {match['target']}"
        if match["part"]:
            assert match["part"] in parts_of(target), f"{path.name} links to {match['target']}#{match['part']}"


def test_the_site_lists_every_page() -> None:
    listed = re.findall(r"^ +- (?:.*: )?(\S+\.md)$", (ROOT / "mkdocs.yml").read_text(), re.M)
    pages = [path.relative_to(ROOT / "docs") for path in (ROOT / "docs").rglob("*.md")]
    assert sorted(listed) == sorted(str(page) for page in pages if page.parent.name != "graph_breaks")
