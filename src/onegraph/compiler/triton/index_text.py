"""Index expressions in Triton's language."""

from __future__ import annotations

from collections.abc import Mapping

from onegraph.base.dataclass import dataclass
from onegraph.ir.index import Atom, Index, Symbol, is_not_negative

NO_LANES: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Term:
    """An expression, and the blocks whose lanes it has one value for: of "x", "r", both or none."""

    text: str
    lanes: frozenset[str] = NO_LANES


def index_text(index: Index, values: Mapping[str, Term]) -> Term:
    """The expression, given that of each symbol by name."""
    lanes = NO_LANES.union(*(values[symbol.name].lanes for symbol in index.symbols))
    return Term(_sum(index, values), lanes)


def _sum(index: Index, values: Mapping[str, Term]) -> str:
    pieces: list[str] = []
    for monomial, coefficient in index.terms:
        factors = [_atom(atom, values) for atom in monomial]
        if abs(coefficient) != 1 or not factors:
            factors.append(str(abs(coefficient)))
        sign = "-" if coefficient < 0 else "+"
        text = " * ".join(factors)
        pieces.append(f" {sign} {text}" if pieces else f"-{text}" if coefficient < 0 else text)
    return "".join(pieces) or "0"


def _atom(atom: Atom, values: Mapping[str, Term]) -> str:
    if isinstance(atom, Symbol):
        return factor(values[atom.name].text)
    a, b = _sum(atom.a, values), _sum(atom.b, values)
    match atom.op:
        case "//" if is_not_negative(atom.a):
            return f"({factor(a)} // {factor(b)})"
        case "%" if is_not_negative(atom.a):
            return f"({factor(a)} % {factor(b)})"
        case "//":
            return f"floor_div({a}, {b})"
        case "%":
            return f"remainder({a}, {b})"
        case _:
            return f"tl.{atom.op}imum({a}, {b})"


def factor(text: str) -> str:
    """The expression as an operand."""
    return f"({text})" if " " in text else text
