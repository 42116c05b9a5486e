"""What graph breaks say of a program: none of it names the insides of the package."""

from __future__ import annotations

import ast
import builtins
import re
from collections.abc import Iterable, Iterator
from functools import cache, wraps
from pathlib import Path
from typing import Any

from import_graph import ROOT, modules

import onegraph
from onegraph.capture.breaks.reason import GraphBreak, Reason

#: The summaries of breaks that name some of it.
FOUND: list[str] = []
WORD, QUALIFIED = re.compile(r"(?<![\w.])[A-Za-z_]\w*"), re.compile(r"\bonegraph(?:\.|::)(\w+)")
CLASS = re.compile(r"^[ \t]*class (\w+)\s*[(:]", re.MULTILINE)


def classes_in(paths: Iterable[Path], wanted: frozenset[str] | None = None) -> Iterator[str]:
    """The names of classes; a file is parsed, which takes long, where it seems to have a wanted one."""
    for path in paths:
        text = path.read_text()
        if wanted is None or not wanted.isdisjoint(CLASS.findall(text)):
            yield from (node.name for node in ast.walk(ast.parse(text)) if isinstance(node, ast.ClassDef))


@cache
def insides() -> frozenset[str]:
    """The names of classes that no user has met. Programs of tests have classes of the same names as some."""
    ours = frozenset(classes_in(modules().values()))
    return (ours - {*classes_in((ROOT / "tests").rglob("*.py"), ours), *dir(onegraph), *dir(builtins)}) | {"FakeTensor"}


def names_insides(text: str) -> bool:
    """Whether a text is, or has in it, a class of the package or a qualified name that is not public.

    A class of one word is found where it is all of the text: operators have messages that begin with one.
    """
    words = {word for word in WORD.findall(text) if word == text or sum(map(str.isupper, word)) > 1}
    return not words.isdisjoint(insides()) or not set(QUALIFIED.findall(text)) <= set(dir(onegraph))


def watch() -> None:
    """Look at each break from now on."""
    plain = GraphBreak.__init__

    @wraps(plain)
    def init(self: GraphBreak, reason: Reason, **facts: Any) -> None:
        plain(self, reason, **facts)
        if any(names_insides(str(fact)) for fact in facts.values()):
            FOUND.append(f"{reason.code}: {self.summary}")

    GraphBreak.__init__ = init  # type: ignore[method-assign]
