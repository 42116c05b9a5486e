"""docs/one_function.md is true: each of its blocks marked `stage:NAME` is what that stage prints today.

The prose is edited in the document; `pytest --update-golden` refreshes the blocks.
"""

from __future__ import annotations

import re

import torch
from import_graph import ROOT

import onegraph
from onegraph.compile import EVENTS
from onegraph.tools.record import recording
from onegraph.tools.stages import STAGES, Section, sections, source_section
from onegraph.tools.target import load

DOCUMENT = ROOT / "docs" / "one_function.md"
BLOCK = re.compile(
    r"^```\w+ stage:(?P<stage>\w+)( from:(?P<start>\S+))?( lines:(?P<lines>\d+))?\n.*?^```$", re.M | re.S
)
# One cpu for all machines: the native code is part of the document.
OPTIONS = {"target_cpu": "x86-64-v3", "threads": 2, "cache": False}


def observe() -> list[Section]:
    target = load(str(ROOT / "examples" / "one_function.py") + "::normalize")
    with recording(EVENTS, STAGES.values()) as recorded, torch.no_grad():
        result = onegraph.compile(target.function, options=OPTIONS)(*target.args)
        torch.testing.assert_close(result, target.function(*target.args))
    return [source_section(target.function), *sections(recorded)]


def refresh(document: str, found: list[Section]) -> str:
    """The document with each marked block replaced by what its stage printed.

    A block may ask for a part: `from:TEXT` begins at the first line that contains TEXT, `lines:N` shows N lines.
    """
    texts = {section.stage: section.text.replace(f"{ROOT}/", "") for section in found}

    def block(match: re.Match[str]) -> str:
        lines = texts[match["stage"]].split("\n")
        lines = lines[next(i for i, line in enumerate(lines) if (match["start"] or "") in line) :]
        limit = int(match["lines"] or len(lines))
        more = [f"... {len(lines) - limit} more lines"] if len(lines) > limit else []
        body = "\n".join([*lines[:limit], *more])
        return f"{match[0].partition(chr(10))[0]}\n{body}\n```"

    return BLOCK.sub(block, document)


def test_the_document_shows_what_happens(golden) -> None:
    golden(DOCUMENT, refresh(DOCUMENT.read_text(), observe()))


def test_every_stage_of_one_graph_is_in_the_document() -> None:
    shown = {match["stage"] for match in BLOCK.finditer(DOCUMENT.read_text())}
    assert shown == {"source", *STAGES} - {"break", "gradients"}  # it is one graph, without gradients


def test_blocks_are_refreshed_and_prose_is_kept() -> None:
    document = "Before.\n```text stage:graph{}\n{}\n```\nAfter.\n```python\nkept\n```\n"
    found = [Section("graph", "", "first\nsecond\nthird")]
    for part, shown in [
        ("", "first\nsecond\nthird"),
        (" lines:1", "first\n... 2 more lines"),
        (" from:sec lines:1", "second\n... 1 more lines"),
        (" from:third lines:9", "third"),
    ]:
        assert refresh(document.format(part, "old"), found) == document.format(part, shown)
