"""Index expressions: integers that may depend on sizes, on loop axes, and on values loaded at run time.

    Index  = sum of  coefficient * product of atoms          (a polynomial in canonical form)
    Atom   = Symbol(name, extent, signed)
           | Quotient(a, b)       floor(a / b)
           | Remainder(a, b)      a - b * floor(a / b)
           | Least(a, b) | Greatest(a, b)

An integer constant is the polynomial without atoms, so a static size is a constant and nothing else differs. Equality
is structural. The set of atoms is closed. `b` of a quotient or remainder is positive.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache
from math import gcd
from operator import attrgetter
from typing import Final

from onegraph.ir.atoms import OPERATIONS, Named, Pair


class Symbol(Named["Index"]):
    __slots__ = ()


class Call(Pair["Index"]):
    __slots__ = ()


Atom = Symbol | Call
Monomial = tuple[Atom, ...]


class Index:
    """A polynomial: `terms` maps each product of atoms to its coefficient, in canonical order."""

    __slots__ = ("_hash", "_symbols", "terms")

    terms: tuple[tuple[Monomial, int], ...]
    _symbols: frozenset[Symbol] | None

    def __init__(self, terms: tuple[tuple[Monomial, int], ...]) -> None:
        self.terms = terms
        self._hash = hash(terms)
        self._symbols = None

    @staticmethod
    def of(value: Index | Symbol | int) -> Index:
        """The expression for an integer or a symbol."""
        if isinstance(value, Index):
            return value
        if isinstance(value, Symbol):
            return Index((((value,), 1),))
        small = _SMALL.get(value)
        if small is not None:
            return small
        return Index((((), int(value)),)) if value else Index(())

    # ---- what it is --------------------------------------------------------------------------------------------------

    @property
    def constant(self) -> int | None:
        """The integer that this is, or None."""
        terms = self.terms
        if not terms:
            return 0
        return terms[0][1] if len(terms) == 1 and not terms[0][0] else None

    @property
    def symbol(self) -> Symbol | None:
        """The symbol that this is, or None."""
        if len(self.terms) == 1 and self.terms[0][1] == 1 and len(self.terms[0][0]) == 1:
            atom = self.terms[0][0][0]
            return atom if isinstance(atom, Symbol) else None
        return None

    @property
    def is_factor(self) -> bool:
        """Whether it prints without parentheses as an operand."""
        return self.symbol is not None or (self.constant is not None and self.constant >= 0)

    @property
    def symbols(self) -> frozenset[Symbol]:
        """Every symbol that occurs in it."""
        if self._symbols is None:
            self._symbols = self._find_symbols()
        return self._symbols

    def _find_symbols(self) -> frozenset[Symbol]:
        found: set[Symbol] = set()
        for monomial, _ in self.terms:
            for atom in monomial:
                if isinstance(atom, Symbol):
                    found.add(atom)
                else:
                    found |= atom.a.symbols | atom.b.symbols
        return frozenset(found)

    def coefficient(self, symbol: Symbol) -> Index | None:
        """What multiplies the symbol, if the expression is linear in it; None if it is not."""
        found: dict[Monomial, int] = {}
        for monomial, coefficient in self.terms:
            count = 0
            for atom in monomial:
                if atom == symbol:
                    count += 1
                elif isinstance(atom, Call) and (symbol in atom.a.symbols or symbol in atom.b.symbols):
                    return None
            if count > 1:
                return None
            if count:
                found[tuple(atom for atom in monomial if atom != symbol)] = coefficient
        return _make(found)

    # ---- arithmetic --------------------------------------------------------------------------------------------------

    def __add__(self, other: Index | int) -> Index:
        other = Index.of(other)
        if not other.terms:
            return self
        if not self.terms:
            return other
        found = dict(self.terms)
        for monomial, coefficient in other.terms:
            found[monomial] = found.get(monomial, 0) + coefficient
        return _make(found)

    __radd__ = __add__

    def __neg__(self) -> Index:
        return Index(tuple((monomial, -coefficient) for monomial, coefficient in self.terms))

    def __sub__(self, other: Index | int) -> Index:
        return self + (-Index.of(other))

    def __rsub__(self, other: Index | int) -> Index:
        return Index.of(other) - self

    def __mul__(self, other: Index | int) -> Index:
        other = Index.of(other)
        factor = other.constant
        if factor is not None:
            if factor == 1:
                return self
            if factor == 0:
                return ZERO
            return Index(tuple((monomial, coefficient * factor) for monomial, coefficient in self.terms))
        if self.constant is not None:
            return other * self
        found: dict[Monomial, int] = {}
        for m, c in self.terms:
            for n, d in other.terms:
                monomial = tuple(sorted(m + n, key=_atom_key))
                found[monomial] = found.get(monomial, 0) + c * d
        return _make(found)

    __rmul__ = __mul__

    def __floordiv__(self, other: Index | int) -> Index:
        return _divide(self, Index.of(other))[0]

    def __rfloordiv__(self, other: int) -> Index:
        return Index.of(other) // self

    def __mod__(self, other: Index | int) -> Index:
        return _divide(self, Index.of(other))[1]

    def __rmod__(self, other: int) -> Index:
        return Index.of(other) % self

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if isinstance(other, int):
            return self.constant == other
        return isinstance(other, Index) and self._hash == other._hash and self.terms == other.terms

    # ---- substitution, evaluation, printing --------------------------------------------------------------------------

    def substitute(self, values: Mapping[Symbol, Index]) -> Index:
        """The same expression with symbols replaced."""
        if not values or self.symbols.isdisjoint(values):
            return self
        found: dict[Monomial, int] = {}
        for monomial, coefficient in self.terms:
            term = product([_substitute_atom(atom, values) for atom in monomial])
            if coefficient == 1 and len(self.terms) == 1:
                return term
            for other, factor in term.terms:
                found[other] = found.get(other, 0) + coefficient * factor
        return _make(found)

    def evaluate(self, values: Mapping[str, object]) -> object:
        """The value, given each symbol's (by name): integers, or anything with integer arithmetic."""
        result: object = 0
        for monomial, coefficient in self.terms:
            term: object = coefficient
            for atom in monomial:
                term = term * _evaluate_atom(atom, values)  # type: ignore[operator]
            result = result + term  # type: ignore[operator]
        return result

    def __str__(self) -> str:
        if not self.terms:
            return "0"
        pieces: list[str] = []
        for monomial, coefficient in self.terms:
            factors = [f"({a})" if isinstance(a, Call) and a.op in ("//", "%") else str(a) for a in monomial]
            if abs(coefficient) != 1 or not factors:
                factors.append(str(abs(coefficient)))
            sign = "-" if coefficient < 0 else "+"
            text = " * ".join(factors)
            pieces.append(f" {sign} {text}" if pieces else (f"-{text}" if sign == "-" else text))
        return "".join(pieces)

    __repr__ = __str__


def _term_key(term: tuple[Monomial, int]) -> tuple[bool, tuple[str, ...]]:
    return (not term[0], tuple(atom.key for atom in term[0]))


def _make(found: dict[Monomial, int]) -> Index:
    terms = [term for term in found.items() if term[1]]
    if len(terms) > 1:
        if any(isinstance(atom, Call) and atom.op == "%" for monomial, _ in terms for atom in monomial):
            rejoined = _rejoin(dict(terms))
            if rejoined is not None:
                return rejoined
        terms.sort(key=_term_key)
    return Index(tuple(terms))


def _rejoin(found: dict[Monomial, int]) -> Index | None:
    """`k * (a % b) + k * b * (a // b)` is `k * a`: undo the split of an index that was never needed."""
    for monomial, coefficient in found.items():
        for position, atom in enumerate(monomial):
            if not (isinstance(atom, Call) and atom.op == "%"):
                continue
            rest = monomial[:position] + monomial[position + 1 :]
            wanted = (atom.a // atom.b) * atom.b * Index(((rest, coefficient),))
            if len(wanted.terms) == 1 and found.get(wanted.terms[0][0]) == wanted.terms[0][1]:
                others = {m: c for m, c in found.items() if m not in (monomial, wanted.terms[0][0])}
                return _make(others) + atom.a * Index(((rest, coefficient),))
    return None


def _substitute_atom(atom: Atom, values: Mapping[Symbol, Index]) -> Index:
    if isinstance(atom, Symbol):
        return values[atom] if atom in values else Index.of(atom)
    return apply(atom.op, atom.a.substitute(values), atom.b.substitute(values))


def _evaluate_atom(atom: Atom, values: Mapping[str, object]) -> object:
    if isinstance(atom, Symbol):
        return values[atom.name]
    return OPERATIONS[atom.op](atom.a.evaluate(values), atom.b.evaluate(values))  # type: ignore[operator]


def apply(op: str, a: Index, b: Index) -> Index:
    """One of the operations of `OPERATIONS`, simplified."""
    match op:
        case "//":
            return a // b
        case "%":
            return a % b
        case "min":
            return least(a, b)
        case "max":
            return greatest(a, b)
    raise ValueError(f"unknown index operation {op!r}")


def least(a: Index | int, b: Index | int) -> Index:
    a, b = Index.of(a), Index.of(b)
    if is_at_most(a, b):
        return a
    return b if is_at_most(b, a) else _call("min", a, b)


def greatest(a: Index | int, b: Index | int) -> Index:
    a, b = Index.of(a), Index.of(b)
    if is_at_most(a, b):
        return b
    return a if is_at_most(b, a) else _call("max", a, b)


def product(factors: Iterator[Index] | tuple[Index, ...] | list[Index]) -> Index:
    result: Index | None = None
    for factor in factors:
        result = factor if result is None else result * factor
    return ONE if result is None else result


def _call(op: str, a: Index, b: Index) -> Index:
    return Index((((Call(op, a, b),), 1),))


# ---- division: floor(a / b) and its remainder, simplified by what is known of the ranges -----------------------------


@lru_cache(maxsize=1 << 14)
def _divide(a: Index, b: Index) -> tuple[Index, Index]:
    if b.constant == 1:
        return a, ZERO
    if b.constant == 0:
        raise ZeroDivisionError(f"{a} divided by zero")
    whole, rest = _split_multiple(a, b)
    if not rest.terms:
        return whole, ZERO
    if rest.constant is not None and b.constant is not None:
        return whole + rest.constant // b.constant, Index.of(rest.constant % b.constant)
    if is_within(rest, b):
        return whole, rest
    factor, outer, inner = _common_factor(rest, b)
    if factor != 1:
        quotient, remainder = _divide(outer, Index.of(_exact(b, Index.of(factor)) or b))
        return whole + quotient, remainder * factor + inner
    nested = _nested_quotient(rest, b)
    return whole + (nested if nested is not None else _call("//", rest, b)), _call("%", rest, b)


def _nested_quotient(a: Index, b: Index) -> Index | None:
    """`(x // c) // b` is `x // (c * b)`."""
    if len(a.terms) == 1 and a.terms[0][1] == 1 and len(a.terms[0][0]) == 1:
        atom = a.terms[0][0][0]
        if isinstance(atom, Call) and atom.op == "//":
            return atom.a // (atom.b * b)
    return None


def _split_multiple(a: Index, b: Index) -> tuple[Index, Index]:
    """`whole, rest` with `a == whole * b + rest`, as much as possible in `whole`."""
    if len(b.terms) == 1:
        whole: dict[Monomial, int] = {}
        rest: dict[Monomial, int] = {}
        for monomial, coefficient in a.terms:
            ratio = _exact(Index(((monomial, coefficient),)), b)
            if ratio is not None:
                whole.update(ratio.terms)
            elif not monomial and b.constant is not None and b.constant > 0:
                whole[()], rest[()] = divmod(coefficient, b.constant)
            else:
                rest[monomial] = coefficient
        return _make(whole), _make(rest)
    ratio = _exact(a, b)
    if ratio is not None:
        return ratio, ZERO
    whole_sum, rest_sum = ZERO, a
    for symbol in sorted(a.symbols - b.symbols, key=_atom_key):
        step = rest_sum.coefficient(symbol)
        if step is not None and step.terms:
            ratio = _exact(step, b)
            if ratio is not None:
                whole_sum = whole_sum + ratio * Index.of(symbol)
                rest_sum = rest_sum - step * Index.of(symbol)
    return whole_sum, rest_sum


def _exact(a: Index, b: Index) -> Index | None:
    """`a / b` if that is a polynomial, for the simple cases: None where it is not seen."""
    if len(b.terms) != 1:
        if len(a.terms) != len(b.terms):
            return None
        ratio = _exact(Index(a.terms[:1]), Index(b.terms[:1]))
        return ratio if ratio is not None and ratio * b == a else None
    (divisor, by), found = b.terms[0], {}
    for monomial, coefficient in a.terms:
        if coefficient % by:
            return None
        left = list(monomial)
        for atom in divisor:
            if atom not in left:
                return None
            left.remove(atom)
        found[tuple(left)] = coefficient // by
    return _make(found)


def _common_factor(a: Index, b: Index) -> tuple[int, Index, Index]:
    """`g, x, r` with `a == g * x + r`, `0 <= r < g` and g dividing b: then a // b is x // (b / g)."""
    scale = 0
    for _, coefficient in b.terms:
        scale = gcd(scale, coefficient)
    candidates = {gcd(scale, coefficient) for _, coefficient in a.terms} - {1, 0}
    for factor in sorted(candidates, reverse=True):
        outer, inner = {}, {}
        for monomial, coefficient in a.terms:
            if coefficient % factor == 0:
                outer[monomial] = coefficient // factor
            else:
                inner[monomial] = coefficient
        rest = _make(inner)
        if is_within(rest, Index.of(factor)):
            return factor, _make(outer), rest
    return 1, a, ZERO


# ---- ranges ----------------------------------------------------------------------------------------------------------


def is_within(a: Index, b: Index) -> bool:
    """Whether `0 <= a < b` is certain."""
    low, high = bounds(a)
    return low is not None and high is not None and _not_negative(low) and _not_negative(b - high - 1)


def is_at_most(a: Index, b: Index) -> bool:
    """Whether `a <= b` is certain."""
    low, _ = bounds(b - a)
    return low is not None and _not_negative(low)


def is_not_negative(a: Index) -> bool:
    """Whether `a >= 0` is certain."""
    low, _ = bounds(a)
    return low is not None and _not_negative(low)


def _not_negative(a: Index) -> bool:
    return all(
        coefficient >= 0 and all(not (isinstance(atom, Symbol) and atom.signed) for atom in monomial)
        for monomial, coefficient in a.terms
    )


def bounds(a: Index) -> tuple[Index | None, Index | None]:
    """The smallest and the largest value, as expressions in sizes only (None: unknown), where no axis is empty."""
    if a.constant is not None:
        return a, a
    low: Index | None = ZERO
    high: Index | None = ZERO
    for monomial, coefficient in a.terms:
        term_low, term_high = _monomial_bounds(monomial)
        if coefficient < 0:
            term_low, term_high = term_high, term_low
        low = low + term_low * coefficient if low is not None and term_low is not None else None
        high = high + term_high * coefficient if high is not None and term_high is not None else None
    return low, high


def _monomial_bounds(monomial: Monomial) -> tuple[Index | None, Index | None]:
    low: Index | None = ONE
    high: Index | None = ONE
    for atom in monomial:
        atom_low, atom_high = _atom_bounds(atom)
        if atom_low is None or not _not_negative(atom_low):
            if len(monomial) == 1:
                return atom_low, atom_high
            return None, None
        low = low * atom_low if low is not None else None
        high = high * atom_high if high is not None and atom_high is not None else None
    return low, high


def _atom_bounds(atom: Atom) -> tuple[Index | None, Index | None]:
    if isinstance(atom, Symbol):
        if atom.extent is not None:
            return ZERO, atom.extent - 1
        return (None, None) if atom.signed else (Index.of(atom), Index.of(atom))
    if atom.bounds is None:
        atom.bounds = _call_bounds(atom)
    return atom.bounds


def _call_bounds(atom: Call) -> tuple[Index | None, Index | None]:
    a_low, a_high = bounds(atom.a)
    b_low, b_high = bounds(atom.b)
    match atom.op:
        case "%":
            return ZERO, b_high - 1 if b_high is not None else None
        case "//":
            fixed = b_low if b_low is not None and b_low == b_high else None
            low = a_low // fixed if a_low is not None and fixed is not None else None
            high = a_high // fixed if a_high is not None and fixed is not None else None
            if low is None and a_low is not None and _not_negative(a_low):
                low = ZERO
            return low, high
        case "min":
            low = least(a_low, b_low) if a_low is not None and b_low is not None else None
            return low, a_high if a_high is not None else b_high
        case "max":
            high = greatest(a_high, b_high) if a_high is not None and b_high is not None else None
            return a_low if a_low is not None else b_low, high
    raise AssertionError(atom.op)


_atom_key = attrgetter("key")
_SMALL: dict[int, Index] = {}
_SMALL.update({value: Index((((), value),)) if value else Index(()) for value in range(-1, 257)})
ZERO: Final = _SMALL[0]
ONE: Final = _SMALL[1]
