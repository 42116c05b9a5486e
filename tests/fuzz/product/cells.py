"""Cells of the product: their programs, and the drawing of many that are spread well."""

from __future__ import annotations

import itertools
import random
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from tests.fuzz.product.axes import NOTHING, PLACES, Family, Key, Piece, Place, Value
from tests.fuzz.product.containers import FAMILIES
from tests.fuzz.product.facilities import FACILITIES
from tests.fuzz.product.sequences import MORE

#: Calls of a program, and before which of them the caller changes something.
CALLS, CHANGED = 5, (1, 3)
Who = Literal["caller", "program"]
From = Literal["global", "argument", "made"]
#: How often a combination that means nothing, or is there already, is drawn anew.
PATIENCE = 1000

IMPORTS = "abc argparse builtins collections collections.abc contextlib contextvars copy dataclasses enum functools \
inspect logging operator os sys threading types typing warnings weakref torch"


@dataclass(frozen=True, slots=True)
class Cell:
    """One combination."""

    family: Family
    key: Key
    container: Piece
    contents: Piece
    value: Value
    place: Place
    key_from: From
    question: Piece
    change: Piece
    who: Who

    def __str__(self) -> str:
        parts = (self.key, self.container, self.contents, self.value, self.place, self.question, self.change)
        return " / ".join((self.family.name, *(part.name for part in parts), self.key_from, self.who))

    def means_something(self) -> bool:
        """Whether each piece has what it needs of the others."""
        has = set(self.container.has)
        has |= {"weak-key"} if "weak" in self.key.has else set()
        has |= {"identity"} if "valued" not in self.key.has else set()
        has |= {"sorted"} if "sorted" in self.key.has else set()
        has |= {"pairs"} if self.family.name == "mapping" else set()
        has |= {f"{kind}-value" for kind in (*self.value.has, self.value.name)}
        has |= {"mutate"} if self.value.mutate else set()
        has |= {"patch"} if self.container.patch else set()
        has |= {"patch-key"} if self.key.patch else set()
        has |= {"outside"} if self.who == "caller" else set()
        has |= {"rebind"} if self.who == "caller" or self.place.inside or self.place.assign else set()
        has |= {"rekey"} if self.key_from == "global" or (self.key_from, self.who) == ("argument", "caller") else set()
        pieces = (self.container, self.contents, self.question, self.change)
        if self.change is NOTHING and self.who == "program" or self.key_from == "made" and "fresh" not in self.key.has:
            return False
        return all(piece.needs <= has for piece in pieces)

    def stays(self) -> bool:
        """Whether nothing changes between the calls, so that one compilation is enough."""
        return self.change is NOTHING and "pure" in self.question.has and "defaultdict" not in self.container.name

    def program(self) -> str:
        """The program, as `tests.fuzz.twin` runs it."""
        return "\n".join((self.prelude(), self.function(), *map(self.call, range(CALLS))))

    def prelude(self) -> str:
        key, value = self.key, self.value
        return f"""import {", ".join(IMPORTS.split())}
SEEN, STEP, UNRELATED = [], [0], "unrelated"
{key.setup}
K = {key.text}
OTHER, EQUAL = {key.other}, {key.equal}
{value.setup}
{self.container.setup}
def make(pairs):
{indented(self.container.text)}
    return c, alias
C, alias = make({self.filled(self.contents.text, "1")})
{self.place.setup}
"""

    def function(self) -> str:
        place, change = self.place, self.filled(self.change.text, "5")
        parameters = ["x", *filter(None, [place.parameters]), *(["k"] if self.key_from == "argument" else [])]
        by_program = self.who == "program"
        declared = ["global K, OTHER"] if by_program and "rekey" in self.change.needs else []
        rebinds = by_program and "rebind" in self.change.needs
        declared += [place.declare] if rebinds and place.declare else []
        key = {"global": ["k = K"], "argument": [], "made": [f"k = {self.key.text}"]}[self.key_from]
        read = [f"c = {place.read}", *key]
        lines = [*declared, *read, "r = []", self.filled(self.question.text, "5")]
        if by_program:
            lines += [change, *([(place.inside or place.assign).format("c")] if rebinds else []), *read]
            lines += [self.filled(self.question.text, "6")]
        lines += ["return r, x + len(r)"]
        text = f"def f({', '.join(parameters)}):\n" + indented("\n".join(lines))
        return textwrap.dedent(self.closed(text)) if place.around else text

    def closed(self, text: str) -> str:
        name = self.place.around
        return f"""
def around({name}):
{indented(text)}
    def read(): return {name}
    def write(new):
        nonlocal {name}
        {name} = new
    return f, read, write
f, read, write = around(C)
"""

    def call(self, number: int) -> str:
        place, outside = self.place, self.place.outside or self.place.read
        lines = ["global C, alias, K, OTHER, held", f"STEP[0] = {number}", f"c, k = {outside}, K"]
        if self.who == "caller" and number in CHANGED:
            change = self.filled(self.change.text, str(10 * number))
            change += f"\n{place.assign.format('c')}" if "rebind" in self.change.needs else ""
            lines += ["try:", indented(change), "except Exception as error: SEEN.append(type(error).__name__)"]
        arguments = ["torch.ones(2)", *filter(None, [place.arguments]), *(["K"] if self.key_from == "argument" else [])]
        lines += [f"SEEN.append({outside})", f"return {', '.join(arguments)},"]
        return f"def call_{number}():\n" + indented("\n".join(lines))

    def filled(self, text: str, number: str) -> str:
        text = text.replace("<patch>", self.container.patch).replace("<patch of key>", self.key.patch)
        text = text.replace("<v>", self.value.text.replace("<n>", number)).replace("<mutate>", self.value.mutate)
        return text.replace("<same>", self.value.text.replace("<n>", "1"))


def indented(text: str) -> str:
    return textwrap.indent(text, "    ")


EVERYTHING = (*FAMILIES, *FACILITIES, *MORE)
WHO: tuple[Who, ...] = ("caller", "program")
FROM: tuple[From, ...] = ("global", "argument", "made")


def axes(family: Family) -> tuple[Sequence[Any], ...]:
    """The axes of a family, in the order of the fields of a cell."""
    return (
        (family,), family.keys, family.containers, family.contents, family.values, PLACES, FROM, family.questions,
        family.changes, WHO,
    )  # fmt: skip


def enumerated() -> Iterator[Cell]:
    """All cells. There are many."""
    for family in EVERYTHING:
        cells = (Cell(*values) for values in itertools.product(*axes(family)))
        yield from (cell for cell in cells if cell.means_something())


class Deck:
    """Deals the values of an axis in a random order, again and again: each comes as often as the others."""

    def __init__(self, values: Sequence[Any], draws: random.Random) -> None:
        self.values = list(values)
        self.draws = draws
        self.left: list[Any] = []

    def deal(self) -> Any:
        if not self.left:
            self.left = self.draws.sample(self.values, len(self.values))
        return self.left.pop()


def drawn(count: int, seed: int) -> list[Cell]:
    """So many cells, from all families alike."""
    draws = random.Random(seed)
    decks = [[Deck(values, draws) for values in axes(family)] for family in EVERYTHING]
    cells: dict[str, Cell] = {}
    for family in itertools.islice(itertools.cycle(decks), PATIENCE * count):
        dealt = (Cell(*(deck.deal() for deck in family)) for _ in range(PATIENCE))
        cell = next((each for each in dealt if each.means_something() and str(each) not in cells), None)
        if cell is not None:  # else all cells of the family are drawn
            cells[str(cell)] = cell
        if len(cells) == count:
            break
    return list(cells.values())


def named(name: str) -> Cell:
    """The cell of this name."""
    family = next(each for each in EVERYTHING if name.startswith(f"{each.name} / "))
    parts = name.split(" / ")
    order = (0, 1, 2, 3, 4, 5, 8, 6, 7, 9)  # as the fields are
    chosen = []
    for place, values in zip(order, axes(family), strict=True):
        chosen.append(next(value for value in values if getattr(value, "name", value) == parts[place]))
    return Cell(*chosen)
