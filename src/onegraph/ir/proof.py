"""Proofs that an index expression is not negative, from others that are not.

What an axis, a quotient or a minimum consists of says where it lies; conditions say more. A goal is proven by replacing
one atom after another by what it is at least, or at most, until only sizes with positive coefficients are left. The
search is short: what it does not find is not proven, and may be true.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import product as combinations
from math import gcd
from operator import itemgetter

from onegraph.ir.index import ONE, ZERO, Atom, Call, Index, Symbol, bounds, is_not_negative

Facts = tuple[Index, ...]  # expressions that are not negative
Cases = tuple[Facts, ...]  # one of them holds

STEPS = 2000  # replacements that are tried for one goal
FEW = 100  # and to see that facts cannot all hold
DEPTHS = (1, 3, 16)  # and one after another: short proofs are looked for first
BRANCHES = 6  # minima and maxima that are told apart
MANY = 64  # cases that are gone through


def is_proven(goal: Index, assumed: Sequence[Cases] = ()) -> bool:
    """Whether `goal >= 0` follows from one case of each of the assumptions, for all of them."""
    if is_not_negative(goal):
        return True
    many = 1
    for cases in assumed:
        many *= max(len(cases), 1)
    if many > MANY:
        assumed = [cases for cases in assumed if len(cases) == 1]
    for chosen in combinations(*assumed):
        facts = tuple(dict.fromkeys(fact for case in chosen for fact in case))
        if not (_proven_in_branches(goal, facts, BRANCHES) or _contradict(facts)):
            return False
    return True


def _follows(goal: Index, facts: Facts, steps: int = STEPS) -> bool:
    return any(_Search(facts, steps).proves(goal, depth) for depth in DEPTHS)


def _contradict(facts: Facts) -> bool:
    """Whether the facts cannot all hold."""
    return any(_follows(-fact - 1, facts[:number], FEW) for number, fact in enumerate(facts))


def _proven_in_branches(goal: Index, facts: Facts, left: int) -> bool:
    """Tell apart which operand a minimum or maximum is, if the proof is not found without."""
    choice = next(_choices((goal, *facts)), None)
    if choice is None:
        return _follows(goal, facts)
    less, more = choice.b - choice.a, choice.a - choice.b  # a is at most b, b is at most a
    chosen = [(choice.a, less), (choice.b, more)] if choice.op == "min" else [(choice.a, more), (choice.b, less)]
    search = _Search(facts)
    decided = [(value, known) for value, known in chosen if search.is_known(known)][:1]
    if not decided and _follows(goal, facts):
        return True
    if not left:
        return False
    for value, known in decided or chosen:
        there = (*(_replaced(fact, choice, value) for fact in facts), known)
        if not (_proven_in_branches(_replaced(goal, choice, value), there, left - 1) or _contradict(there)):
            return False
    return True


def _choices(expressions: Iterable[Index]) -> Iterator[Call]:
    """The innermost minima and maxima."""
    for expression in expressions:
        for monomial, _ in expression.terms:
            for atom in monomial:
                if isinstance(atom, Call):
                    yield from _choices((atom.a, atom.b))
                    if atom.op in ("min", "max"):
                        yield atom


def _replaced(expression: Index, choice: Call, value: Index) -> Index:
    total = ZERO
    for monomial, coefficient in expression.terms:
        term = Index.of(coefficient)
        for atom in monomial:
            if atom == choice:
                term = term * value
            elif isinstance(atom, Call):
                a, b = _replaced(atom.a, choice, value), _replaced(atom.b, choice, value)
                same = a == atom.a and b == atom.b
                term = term * (Index((((atom,), 1),)) if same else _applied(atom.op, a, b))
            else:
                term = term * Index.of(atom)
        total = total + term
    return total


def _applied(op: str, a: Index, b: Index) -> Index:
    match op:
        case "//":
            return a // b
        case "%":
            return a % b
    return Index((((Call(op, a, b),), 1),))


class _Search:
    """The search for one goal under facts."""

    def __init__(self, facts: Facts, steps: int = STEPS) -> None:
        self.facts = facts
        quotients = {
            atom: None for fact in facts for atom in sorted(_atoms(fact), key=_height) if isinstance(atom, Call)
        }
        self.of_quotients = tuple(fact for atom in quotients for fact in _facts_of(atom))
        self.least = {size: Index.of(size) + low for size, low in sorted(_least_sizes(facts), key=itemgetter(1))}
        self.steps = steps
        self.known: dict[Atom, tuple[Index, ...]] = {}
        self.seen: set[Index] = set()

    def proves(self, goal: Index, depth: int) -> bool:
        if self.is_known(goal):
            return True
        goal = _reduced(goal)
        if goal.constant is not None or goal in self.seen or not self.steps or not depth:
            return False
        self.seen.add(goal)
        for atom in sorted(_atoms(goal), key=_height, reverse=True):
            step = _coefficient(goal, atom)
            rest = goal - step * _of(atom)
            sign = 1 if self.is_known(step) else -1 if self.is_known(-step) else 0
            for fact in self.about(atom) if sign else ():
                found = self.without(rest, step, sign, atom, fact)
                if found is not None and self.steps:
                    self.steps -= 1
                    if self.proves(found, depth - 1):
                        return True
        return False

    def is_known(self, number: Index) -> bool:
        """Whether a number is not negative: by itself, for being at least a fact, or as sizes are not too small."""
        for form in _forms(number):  # a fact may have what its terms have in common, too
            if is_not_negative(form) or any(is_not_negative(form - fact) for fact in self.facts):
                return True
        number = _reduced(number)
        low = bounds(number)[0] if self.least else None  # of sizes alone: what axes run over would not be put in
        return low is not None and is_not_negative(low.substitute(self.least))

    def without(self, rest: Index, step: Index, sign: int, atom: Atom, fact: Index) -> Index | None:
        """The goal `rest + step * atom`, made smaller by the fact, which bounds the atom on the side that it needs."""
        slope = _coefficient(fact, atom)
        if not slope.terms or not self.is_known(slope if sign > 0 else -slope):
            return None
        size = slope * sign  # the fact: size * atom + sign * others >= 0, or size * atom <= others
        others = fact - slope * _of(atom)
        ratio = _quotient(step, size)
        if ratio is not None and self.is_known(ratio * sign):
            return rest - ratio * others * sign
        divisor = atom.b if isinstance(atom, Call) and atom.op == "//" else None
        if size.constant is None and size != divisor and not is_not_negative(size - 1):
            return None
        return (rest + 1) * size - 1 - step * others * sign  # an integer is not negative if it is above -1

    def about(self, atom: Atom) -> tuple[Index, ...]:
        """The facts in which the atom occurs."""
        if atom not in self.known:
            own = tuple(_reduced(fact) for fact in (*self.rounded(atom), *_facts_of(atom)))
            self.known[atom] = tuple(
                dict.fromkeys((*(f for f in (*self.facts, *self.of_quotients) if atom in _atoms(f)), *own))
            )
        return self.known[atom]

    def rounded(self, atom: Atom) -> Iterator[Index]:
        """A fact about what is divided is one about the quotient, with rounding."""
        if not isinstance(atom, Call) or atom.op != "//" or (atom.b.constant or 0) <= 0:
            return
        for fact in self.facts:
            low, high = -1 * (fact - atom.a), fact + atom.a
            if low.constant is not None:
                yield _of(atom) - low // atom.b
            if high.constant is not None:
                yield high // atom.b - _of(atom)


def _least_sizes(facts: Facts) -> Iterator[tuple[Symbol, int]]:
    """Facts that a size is at least so much."""
    for fact in facts:
        match fact.terms:
            case (((Symbol() as size,), 1), ((), low)) | (((), low), ((Symbol() as size,), 1)) if low < 0:
                if not size.signed and size.extent is None:
                    yield size, -low


def _quotient(a: Index, b: Index) -> Index | None:
    """`a / b` where that is a polynomial."""
    if b == ONE:
        return a
    quotient = a // b
    return quotient if quotient * b == a else None


def _facts_of(atom: Atom) -> Iterator[Index]:
    """What is certain of an atom because of what it is; none of the axes around it is empty."""
    this = _of(atom)
    if isinstance(atom, Symbol):
        if atom.extent is not None:
            yield this
            yield atom.extent - 1 - this
        elif not atom.signed:
            yield this
        return
    low, high = bounds(this)
    if low is not None:
        yield this - low
    if high is not None:
        yield high - this
    match atom.op:
        case "//":
            most = bounds(atom.a)[1]
            whole = _quotient(most + 1, atom.b) if most is not None else None
            if whole is not None:
                yield whole - 1 - this
            yield atom.a - atom.b * this
            yield atom.b * this + atom.b - 1 - atom.a
        case "%":
            yield atom.b - 1 - this
            whole = atom.a // atom.b
            yield atom.a - atom.b * whole - this
            yield this - atom.a + atom.b * whole
        case "min":
            yield atom.a - this
            yield atom.b - this
        case "max":
            yield this - atom.a
            yield this - atom.b


def _reduced(goal: Index) -> Index:
    """The goal divided by what its terms have in common and is not negative."""
    *_, last = _forms(goal)
    return last


def _forms(goal: Index) -> Iterator[Index]:
    """The goal divided by more and more of what its terms have in common and is not negative.

    It is an integer, so the constant is rounded down.
    """
    common = 0
    for monomial, coefficient in goal.terms:
        if monomial:
            common = gcd(common, coefficient)
    if common > 1:
        goal = Index(tuple((m, c // common) for m, c in goal.terms if c // common))
    yield goal
    first, *others = [monomial for monomial, _ in goal.terms] or [()]
    for atom in first if others else ():
        if isinstance(atom, Symbol) and not atom.signed and all(atom in monomial for monomial in others):
            yield from _forms(_coefficient(goal, atom))
            return


def _of(atom: Atom) -> Index:
    return Index((((atom,), 1),))


def _atoms(expression: Index) -> set[Atom]:
    return {atom for monomial, _ in expression.terms for atom in monomial}


def _coefficient(expression: Index, atom: Atom) -> Index:
    """What one factor of the atom multiplies; where the atom stands in another one is that one's affair."""
    found = ZERO
    for monomial, coefficient in expression.terms:
        if atom in monomial:
            at = monomial.index(atom)
            found = found + Index(((monomial[:at] + monomial[at + 1 :], coefficient),))
    return found


def _height(atom: Atom) -> tuple[int, str]:
    """Which atom is replaced first: what is computed before what it is computed of, sizes last."""
    if isinstance(atom, Symbol):
        return (0 if atom.extent is None and not atom.signed else 1, atom.key)
    inner = [_height(other)[0] for part in (atom.a, atom.b) for other in _atoms(part)]
    return (2 + max(inner, default=0), atom.key)
