"""The pages of the documentation, which come with the package: `onegraph docs PAGE`, `onegraph explain-break KIND`."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from difflib import get_close_matches
from pathlib import Path

from rich.console import Console
from rich.markdown import Markdown

from onegraph.base.errors import InvalidArgument
from onegraph.capture.breaks import CATALOGUE

PAGES = Path(__file__).parents[1] / "docs"  # in a clone, a link to its folder docs


def titles() -> list[tuple[str, str]]:
    """The name and the title of each page; those of the kinds of graph break are left to `explain-break`."""
    paths = sorted(path for path in PAGES.rglob("*.md") if path.parent.name != "graph_breaks")
    return [
        (path.relative_to(PAGES).with_suffix("").as_posix(), path.read_text().partition("\n")[0].lstrip("# "))
        for path in paths
    ]


def page(name: str) -> str:
    """The page of that name, which may leave the folder out.

    Raises:
        InvalidArgument: if there is none.
    """
    names = [each for each, _ in titles()]
    by_file = {each.rpartition("/")[2]: each for each in names}
    found = name if name in names else by_file.get(name)
    if found is None:
        raise InvalidArgument(f"there is no page '{name}'" + _near(name, [*names, *by_file]))
    return _shown(PAGES / f"{found}.md")


def page_of_break(kind: str) -> str:
    """The page of one kind of graph break: programs that break like this, and how they are mended.

    Raises:
        InvalidArgument: if there is no such kind.
    """
    if kind not in CATALOGUE:
        raise InvalidArgument(f"there is no graph break '{kind}'" + _near(kind, CATALOGUE))
    return _shown(PAGES / "graph_breaks" / f"{kind}.md")


def _near(name: str, known: Iterable[str]) -> str:
    near = get_close_matches(name, list(dict.fromkeys(known)), n=3)
    return f" (did you mean {' or '.join(repr(each) for each in near)}?)" if near else ""


def _shown(path: Path) -> str:
    """A page for a terminal, or as it is written for everything else."""
    text = path.read_text()
    if not sys.stdout.isatty():
        return text.rstrip()
    console = Console()
    with console.capture() as captured:
        console.print(Markdown(text))
    return captured.get().rstrip()
