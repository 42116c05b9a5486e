"""Draws source text: expressions and statements are templates whose holes are filled with values of a kind.

    T  a tensor of the shape of `x`    S  a scalar tensor       V  a view of a tensor, of another shape
    I  a small int                     F  a float               B  what is true or false
    L  a list of tensors               N  a list of ints        D  a dict: numbers at a, b, c, tensors at u, v
    Q  a set of ints                   C  a string              P  a pair (tensor, int)
    O  an object of a class `Box`      K  a function T -> T     G  an iterator over tensors

The holes of a template: `<T>` is an expression, `<$T>` a variable, `<@T>` a variable that may be assigned, `<=T>` the
target of an assignment (its variable exists behind the statement), `<~T>` a target that may not be reached, and `<1>`
the text that the first hole got. The templates are in grammar.txt, compound statements in blocks.py.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

HOLE = re.compile(r"<([$@=~]?)([A-Z])>|<(\d)>")
#: How deep expressions nest.
DEPTH = 2

Rule = Callable[["Builder"], str]


@dataclass(frozen=True, slots=True)
class Template:
    """A piece of text with holes; drawn only where each of its variables exists."""

    parts: tuple[str, ...]
    holes: tuple[tuple[str, str], ...]  # ("$", "T"), ("", "T"), ("@", "I"), ("=", "T") or ("back", "1")

    def fits(self, b: Builder) -> bool:
        return all(b.known(kind, mark) for mark, kind in self.holes if mark in ("$", "@"))


def template(text: str) -> Template:
    parts, holes, at = [], [], 0
    for hole in HOLE.finditer(text):
        parts.append(text[at : hole.start()])
        holes.append(("back", hole[3]) if hole[3] else (hole[1], hole[2]))
        at = hole.end()
    return Template((*parts, text[at:]), tuple(holes))


@dataclass(frozen=True, slots=True)
class Helper:
    """A function of the program that other functions call as `call`, a template; it gives a value of a kind."""

    call: Template
    kind: str


@dataclass(slots=True)
class Grammar:
    """The rules: expressions by kind, statements by feature."""

    expressions: dict[str, list[tuple[str, Template]]] = field(default_factory=dict)
    leaves: dict[str, list[Template]] = field(default_factory=dict)
    statements: list[tuple[str, Template | Rule]] = field(default_factory=list)

    def read(self, text: str) -> None:
        """Sections `== kind feature`, and below them one template a line, with its weight and a bar before it."""
        for line in text.splitlines():
            if line.startswith("== "):
                _, kind, feature = line.split()
            elif line and not line.startswith("#"):
                weight, bar, rest = line.partition("| ")
                weighted = bool(bar) and weight.isdigit()
                entries = [template(rest if weighted else line)] * (int(weight) if weighted else 1)
                match kind, feature:
                    case "statement", _:
                        self.statements += [(feature, entry) for entry in entries]
                    case _, "leaf":
                        self.leaves.setdefault(kind, []).extend(entries)
                    case _:
                        self.expressions.setdefault(kind, []).extend((feature, entry) for entry in entries)

    def block(self, feature: str, weight: int = 1) -> Callable[[Any], Any]:
        def register(rule: Any) -> Any:
            self.statements.extend([(feature, rule)] * weight)
            return rule

        return register


GRAMMAR = Grammar()
GRAMMAR.read((Path(__file__).parent / "grammar.txt").read_text())


@dataclass(frozen=True, slots=True)
class Setting:
    """Where a statement stands."""

    loop: bool = False
    generator: bool = False
    handler: str = ""  # the name of the exception that is being handled
    returns: str = "T"
    depth: int = 0


class Builder:
    """Draws the text of one program."""

    def __init__(self, random: Random, features: frozenset[str]) -> None:
        self._random = random
        self.features = features
        self.lines: list[str] = []
        self.indent = 0
        self.count = 0
        self.scope: dict[str, list[str]] = {}
        self.assignable: set[str] = set()
        self.doubtful: dict[str, list[str]] = {}
        self.helpers: list[Helper] = []
        self.setting = Setting()
        self._expressions: dict[str, list[Template]] = {
            kind: [entry for feature, entry in entries if feature in features]
            for kind, entries in GRAMMAR.expressions.items()
        }
        self._statements = [entry for feature, entry in GRAMMAR.statements if feature in features]

    # ---- drawing -----------------------------------------------------------------------------------------------------

    def below(self, count: int) -> int:
        return 0 if count <= 1 else self._random.randrange(count)

    def chance(self, percent: int) -> bool:
        return self._random.randrange(100) < percent

    def one(self, items: Any) -> Any:
        return items[self.below(len(items))]

    # ---- variables ---------------------------------------------------------------------------------------------------

    def known(self, kind: str, mark: str = "$") -> list[str]:
        names = self.scope.get(kind, [])
        return [name for name in names if name in self.assignable] if mark == "@" else names

    def fresh(self, kind: str) -> str:
        self.count += 1
        return f"{kind.lower()}{self.count}"

    def define(self, name: str, kind: str, assignable: bool = True) -> str:
        names = self.scope.setdefault(kind, [])
        if name not in names:
            names.append(name)
        if assignable:
            self.assignable.add(name)
        return name

    def target(self, kind: str) -> str:
        known = self.known(kind, "@")
        return self.one(known) if known and self.chance(40) else self.fresh(kind)

    @contextlib.contextmanager
    def inner(self) -> Iterator[None]:
        """What is defined inside may be undefined behind."""
        before = {kind: list(names) for kind, names in self.scope.items()}
        yield
        for kind, names in self.scope.items():
            self.doubtful.setdefault(kind, []).extend(set(names) - set(before.get(kind, ())))
        self.scope = before

    @contextlib.contextmanager
    def body(self) -> Iterator[None]:
        """One step further in; never empty."""
        self.indent += 1
        length = len(self.lines)
        yield
        if len(self.lines) == length:
            self.line("pass")
        self.indent -= 1

    # ---- text --------------------------------------------------------------------------------------------------------

    def line(self, text: str) -> None:
        self.lines.append("    " * self.indent + text)

    def expr(self, kind: str, depth: int = 0) -> str:
        """An expression of this kind."""
        known = self.known(kind)
        if depth >= DEPTH or self.chance(45):
            doubtful = self.doubtful.get(kind)
            if doubtful and self.chance(2):
                return self.one(doubtful)
            leaves = GRAMMAR.leaves[kind]
            index = self.below(len(known) * 3 + len(leaves))
            return known[index // 3] if index < len(known) * 3 else self.fill(self._fitting(leaves), depth + 1)
        rules = self._expressions.get(kind, [])
        calls = [helper.call for helper in self.helpers if helper.kind == kind]
        if calls and self.chance(25):
            return self.fill(self.one(calls), depth + 1)
        return self.fill(self._fitting(rules or GRAMMAR.leaves[kind]), depth + 1)

    def _fitting(self, entries: list[Template]) -> Template:
        entry = self.one(entries)
        return entry if entry.fits(self) else self.one([entry for entry in entries if entry.fits(self)])

    def fill(self, entry: Template, depth: int = 0) -> str:
        given: list[str | None] = []
        for mark, kind in entry.holes:
            match mark:
                case "=":
                    given.append(None)
                case "~":
                    given.append(self.fresh(kind))
                case "back":
                    given.append(given[int(kind) - 1])
                case "":
                    given.append(self.expr(kind, depth))
                case _:
                    given.append(self.one(self.known(kind, mark)))
        taken: set[str] = set()
        for index, (mark, kind) in enumerate(entry.holes):
            if mark == "=":
                name = self.target(kind)
                name = self.fresh(kind) if name in taken else name
                taken.add(name)
                given[index] = self.define(name, kind)
        text = entry.parts[0]
        for hole, part in zip(given, entry.parts[1:], strict=True):
            text += str(hole) + part
        return text

    # ---- statements --------------------------------------------------------------------------------------------------

    def statements(self, most: int) -> None:
        for _ in range(1 + self.below(most)):
            self.statement()

    def statement(self) -> None:
        for _ in range(3):
            entry = self.one(self._statements)
            if isinstance(entry, Template):
                if entry.fits(self):
                    self.line(self.fill(entry))
                    return
            elif self.setting.depth < 4 and entry(self):
                return

    @contextlib.contextmanager
    def at(self, setting: Setting) -> Iterator[None]:
        before = self.setting
        self.setting = setting
        yield
        self.setting = before

    def block(self, most: int, setting: Setting) -> None:
        """A body of statements, whose new variables are doubtful behind it."""
        with self.body(), self.inner(), self.at(setting):
            self.statements(most)
