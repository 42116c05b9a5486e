"""Sizes that only the data say: those of `torch.nonzero(x)`, and integers in tensors that are used as sizes.

They are symbols whose hint is none of theirs, and never a guard. What operators ask of them is what they need in order
to work: it is answered so that they do, and becomes a check in the graph. What the program asks breaks the graph.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Protocol

import torch

from onegraph.base.dataclass import dataclass
from onegraph.base.errors import UNEXPECTED
from onegraph.ir.index import ONE, ZERO, Atom, Call, Index, Symbol, is_not_negative
from onegraph.torchlib.size_expression import COMPARE, LARGEST, Computed, Condition
from onegraph.torchlib.size_node import SizeNode
from onegraph.torchlib.small_sizes import SMALL, SmallSizes

#: In the `meta` of nodes: the sizes of data that the operator makes, in their order.
BORN = "born"
#: What a size is taken for: more than what programs ask for by number; and an integer: no more than sizes are.
SOME_SIZE, SOME_NUMBER = 1009, 2
NOTHING = frozenset({0})
#: How many sizes are followed, each limited by the one before it.
DEEPEST = 16


def is_expected(left: int, right: int, op: str) -> None:
    """Raise where a size is not what the graph was made for: the call then runs as it was written."""
    if not COMPARE[op](left, right):
        raise RuntimeError(f"{UNEXPECTED}: {left} {op} {right}")


@dataclass(frozen=True, slots=True)
class Birth:
    """A number that an operator makes: the size of one of its results along a dimension, or the one that it gives."""

    symbol: Symbol
    result: int = 0
    dim: int = 0

    def of(self, results: Any) -> Any:
        """The result that has the size."""
        return results[self.result] if isinstance(results, tuple | list) else results


class NotOfData(RuntimeError):
    """An operator makes a size that depends on data, where there are none."""


class NotKnown(RuntimeError):
    """Something is asked of a number that only the running program has, when it is too late to break the graph."""


def unknown_number(value: Any) -> Any:
    raise NotKnown("a number that is not known while tracing")


class Sizes(Protocol):
    """What is asked of the sizes of the trace: `shapes.Sizes`, which says what each answer is."""

    hints: dict[Symbol, int]
    small: SmallSizes
    unknown: set[Symbol]
    replacements: dict[Symbol, Index]
    sealed: bool
    refuse: Callable[[Any], Any]

    def value(self, expression: Any) -> Any: ...
    def simplify(self, value: Index) -> Index: ...
    def certain(self, condition: Condition, without: frozenset[int]) -> bool | None: ...
    def exclude(self, symbol: Symbol, numbers: frozenset[int]) -> None: ...
    def remember(self, condition: Condition, answer: bool) -> None: ...


class DataSizes:
    """Those of one trace."""

    def __init__(self) -> None:
        self.symbols: set[Symbol] = set()
        #: Numbers that come from data, sizes or not, in the order in which they are known.
        self.ages: dict[Symbol, int] = {}
        #: What is true of them by what operators do, and needs no check.
        self.bounds: set[Condition] = set()
        #: What they are no larger than, by what operators do or by what the graph checks.
        self.limits: dict[Symbol, Index] = {}
        #: Those which operators have just made.
        self.newborn: list[Birth] = []
        #: Those that the operator makes which is run again, in a graph that is recorded of the captured one.
        self.reborn: list[Symbol] = []
        #: Whether the graph can check what is asked of such numbers, and whether operators may make such sizes now.
        self.is_checkable: Callable[[frozenset[Symbol]], bool] = lambda symbols: False
        self.are_wanted: Callable[[], bool] = lambda: False
        #: Whether torch is told that nothing is known of them where it asks to save work.
        self.are_spared = False

    @contextmanager
    def sparing(self) -> Iterator[None]:
        """In backward passes, where all gradients are new tensors, of sizes that the forward pass has settled."""
        before, self.are_spared = self.are_spared, True
        try:
            yield
        finally:
            self.are_spared = before

    def close(self) -> None:
        """The graph has its checks: nothing more can be asked."""
        self.is_checkable, self.are_wanted = lambda symbols: False, lambda: False

    def reopen(self) -> None:
        """Another graph is made of the captured one: it can have more checks, and its backward pass more such sizes."""
        self.is_checkable, self.are_wanted = lambda symbols: True, lambda: True

    def new(self, sizes: Any, at_most: Any = None, result: int = 0, dim: int = 0) -> torch.SymInt:
        """A size that only the data say: that of a result along a dimension, and no larger than what is given.

        Raises:
            NotOfData: there are none here.
        """
        if self.reborn:
            symbol = self.reborn.pop(0)
        elif self.are_wanted():
            symbol = Symbol(f"m{len(self.symbols)}")
            self.note(symbol)
            limit = at_most.node.index if isinstance(at_most, torch.SymInt) else at_most
            most = SOME_SIZE if limit is None else sizes.value(Index.of(limit))
            self._add(sizes, symbol, max(2, most // 2) if most < SOME_SIZE else SOME_SIZE)
            if limit is not None:
                bound = Condition("<=", Index.of(symbol), Index.of(limit))
                self.bounds.add(bound)
                sizes.remember(bound, True)
        else:
            raise NotOfData
        self.newborn.append(Birth(symbol, result, dim))
        return torch.SymInt(SizeNode(sizes, Index.of(symbol)))

    def note(self, number: Symbol) -> None:
        self.ages[number] = len(self.ages)

    def among(self, symbols: list[Symbol]) -> list[Symbol]:
        """The symbols in the order in which one may be said by those before it: those of data come last."""
        return sorted(symbols, key=lambda symbol: self.ages.get(symbol, -1))

    def _add(self, sizes: Sizes, symbol: Symbol, hint: int) -> None:
        self.symbols.add(symbol)
        sizes.hints[symbol] = hint
        sizes.small.add(symbol)

    def are_in(self, value: Any) -> bool:
        """Whether a number or a condition is computed from such sizes."""
        if not self.symbols:
            return False
        match value:
            case Index():
                return not self.symbols.isdisjoint(value.symbols)
            case Computed(_, args):
                return any(map(self.are_in, args))
            case Condition(_, left, right):
                return self.are_in(left) or self.are_in(right)
        return False

    def admit(self, sizes: Sizes, condition: Condition) -> bool:
        """Whether something is asked of such sizes. Integers from tensors that are asked for become such.

        Raises:
            GraphBreak: the answer cannot be checked.
        """
        symbols = condition.left.symbols | condition.right.symbols
        numbers, known = symbols & sizes.unknown, symbols & self.symbols
        if not numbers and not known:
            return False
        if not self.is_checkable(numbers | known):
            sizes.refuse(condition)
        for number in sorted(numbers, key=str):
            sizes.unknown.discard(number)
            self._add(sizes, number, SOME_NUMBER)
            sizes.remember(Condition("<=", ZERO, Index.of(number)), True)
            sizes.remember(Condition("<", Index.of(number), Index.of(LARGEST)), True)
        return True

    def needed(self, sizes: Sizes, condition: Condition) -> bool:
        """What an operator that asks this needs, mostly: that sizes are equal, and large enough."""
        if condition.op in ("==", "!="):
            sides = (condition.left, condition.right)
            is_small = any(side.constant in SMALL for side in sides) and not any(map(has_calls, sides))
            return (condition.op == "==") is not is_small
        return bool(sizes.value(condition))

    def unless_empty(self, sizes: Sizes, asked: Condition) -> bool | None:
        """The answer, if it is only another one where a size is 0, which the graph then checks; else None.

        Raises:
            GraphBreak: the graph cannot check it.
        """
        condition = Condition(asked.op, sizes.simplify(asked.left), sizes.simplify(asked.right))
        symbols = (condition.left.symbols | condition.right.symbols) & self.symbols
        answer = sizes.certain(condition, NOTHING) if symbols else None
        if answer is not None:
            self.admit(sizes, condition)
            for symbol in sorted(symbols, key=str):
                sizes.exclude(symbol, NOTHING)
        return answer

    def learn(self, fact: Condition) -> None:
        """Keep what is said of how large a size can be, in terms of what was known before it."""
        size, limit = fact.left.symbol, fact.right - 1 if fact.op == "<" else fact.right
        if size not in self.symbols or fact.op not in ("<", "<="):
            return
        if any(symbol in self.ages and self.ages[symbol] >= self.ages[size] for symbol in limit.symbols):
            return
        known = self.limits.get(size)
        if known is None or limit.constant is not None and (known.constant is None or limit.constant < known.constant):
            self.limits[size] = limit

    def certain(self, op: str, difference: Index) -> bool | None:
        """Whether zero is in this relation to a number, for all that sizes of data can be; None: not known."""
        if self.symbols.isdisjoint(difference.symbols):
            return None
        below, above = self.lowest(difference), self.lowest(-difference)
        if op in ("==", "!="):
            apart = is_not_negative(below - 1) or is_not_negative(above - 1)
            return op == "!=" if apart else None
        strict = op == "<"
        if is_not_negative(below - strict):
            return True
        return False if is_not_negative(above - (not strict)) else None

    def lowest(self, value: Index) -> Index:
        """What is no larger than the number: where its terms are subtracted, sizes are as large as they can be."""
        for _ in range(DEEPEST):
            terms = {Index(((monomial, factor),)): self._largest(monomial) * factor for monomial, factor in value.terms
                     if factor < 0}  # fmt: skip
            if all(term == largest for term, largest in terms.items()):
                break
            for term, largest in terms.items():
                value = value - term + largest
        return value

    def _largest(self, monomial: tuple[Atom, ...]) -> Index:
        """A product of numbers that are not negative, each as large as it can be."""
        result = ONE
        for atom in monomial:
            if isinstance(atom, Call):
                sides = [side for side in (atom.a, atom.b) if side.constant is not None] if atom.op == "min" else []
                result = result * (sides[0] if sides else Index((((atom,), 1),)))
            else:
                result = result * self.limits.get(atom, Index.of(atom))
        return result

    def exclusions(self, sizes: Sizes) -> tuple[Condition, ...]:
        """Which of 0 and 1 these sizes must not be."""
        found = []
        for symbol in sorted(self.symbols - sizes.replacements.keys(), key=str):
            size = Index.of(symbol)
            match tuple(sizes.small.of(symbol)):
                case ():
                    found.append(Condition("<=", Index.of(2), size))
                case (1,):
                    found.append(Condition("<=", ONE, size))
                case (0,):
                    found.append(Condition("!=", size, ONE))
        return tuple(found)


def has_calls(value: Index) -> bool:
    return any(isinstance(atom, Call) for monomial, _ in value.terms for atom in monomial)
