"""What graph breaks say of a program: none of it names the insides of the package."""

from __future__ import annotations

import ast
import builtins
import re
from functools import cache, wraps
from pathlib import Path
from typing import Any

from import_graph import ROOT, modules, parse

import onegraph
from onegraph.capture.breaks.reason import GraphBreak, Reason

#: The summaries of breaks that name some of it.
FOUND: list[str] = []
WORD, QUALIFIED = re.compile(r"(?<![\w.])[A-Za-z_]\w*"), re.compile(r"\bonegraph(?:\.|::)(\w+)")


def classes_in(paths: list[Path]) -> set[str]:
    return {node.name for path in paths for node in ast.walk(parse(path)) if isinstance(node, ast.ClassDef)}


@cache
def insides() -> frozenset[str]:
    """The names of classes that no user has met. Programs of tests have classes of the same names as some."""
    known = classes_in(list((ROOT / "tests").rglob("*.py"))) | set(dir(onegraph)) | set(dir(builtins))
    return frozenset({"FakeTensor"} | classes_in(list(modules().values())) - known)


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
