"""Which symbolic sizes may be 0 or 1. All others are two and more, as is every symbol that is not a size of an input.

What a program asks of a size that may be small has the answer for 2 and more, where that is the answer for this trace,
too; the size is then none of those of 0 and 1 for which the answer would be another one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import product

from onegraph.ir.index import Index, Symbol

SMALL = frozenset({0, 1})
NONE: frozenset[int] = frozenset()
#: What a size is no more, where a question decides it: the fewest that settle it.
EXCLUSIONS = (frozenset({1}), frozenset({0}), SMALL)
#: How many sizes that may be 0 but not 1 are looked at apart.
MOST_APART = 3


class SmallSizes:
    """By symbol, the numbers of 0 and 1 that it may be."""

    def __init__(self) -> None:
        self._may_be: dict[Symbol, frozenset[int]] = {}

    def add(self, symbol: Symbol) -> None:
        self._may_be[symbol] = SMALL

    def of(self, symbol: Symbol) -> frozenset[int]:
        return self._may_be.get(symbol, NONE)

    def exclude(self, symbol: Symbol, numbers: frozenset[int]) -> None:
        self._may_be[symbol] = self.of(symbol) - numbers

    def ways(self, symbols: Iterable[Symbol], without: frozenset[int] = NONE) -> Iterator[Mapping[Symbol, Index]]:
        """What to put in the place of the symbols, so that each is any number that is not negative.

        Together the ways cover all that the sizes may be, or more; those of one symbol do `without` some numbers.
        """
        cases, apart = [], 0
        for symbol in symbols:
            small = self.of(symbol) - without
            if small == {0} and apart < MOST_APART:
                apart += 1
                cases.append([(symbol, Index.of(0)), (symbol, Index.of(symbol) + 2)])
            else:
                cases.append([(symbol, Index.of(symbol) + min(small, default=2))])
        return map(dict, product(*cases))
