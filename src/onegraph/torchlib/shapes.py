"""Symbolic sizes: integers that stand for the size of an input, with the guards that a trace puts on them.

`torch.SymInt` takes any object that speaks the protocol of its nodes. Ours holds an index expression of `onegraph.ir`,
so that one arithmetic serves traces, guards and loops; torch's own node holds a sympy expression, whose import alone
costs more than most traces here.

Every symbolic size has the value of this trace as its hint. Sizes of inputs may be 0 and 1 until something is asked
that has another answer for these (`small_sizes`); other symbols are at least 2. A question that the expressions do not
answer is answered by the hints, and becomes a condition that guards must check.

Floating-point numbers that the program was given have hints too. What is asked of them is a fact, which guards check by
asking again. Sizes that only the data say are in `data_sizes`.
"""

from __future__ import annotations

import itertools
import operator
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch

from onegraph.ir.index import ONE, ZERO, Index, Symbol, greatest
from onegraph.ir.ranges import is_least_one
from onegraph.torchlib.data_sizes import DataSizes, unknown_number
from onegraph.torchlib.size_comparisons import always, fits, is_sound
from onegraph.torchlib.size_expression import (
    COMPARE,
    LARGEST,
    SIGNS,
    Computed,
    Condition,
    Expression,
    Fact,
    Float,
    Given,
    Outcome,
    Part,
    Polynomial,
    Unknown,
    Whole,
    given_in,
)
from onegraph.torchlib.size_node import SizeNode
from onegraph.torchlib.size_operations import DIVIDING, FLOATING, RULES, is_symbolic, kind_of
from onegraph.torchlib.small_sizes import EXCLUSIONS, NONE, SMALL, SmallSizes

__all__ = [
    "LARGEST", "SIGNS", "Computed", "Condition", "Fact", "Float", "Given", "SizeNode", "Sizes", "Whole", "given_in",
    "is_symbolic",
]  # fmt: skip


#: What functions give that stays symbolic.
NUMBERS: dict[type, type[Computed]] = {int: Whole, float: Float}


class NumbersWanted(RuntimeError):
    """Native code asks for the sizes of a tensor, all of them as numbers."""


class Sizes:
    """The symbolic sizes of one trace."""

    # What operators on fakes ask before they make sizes that depend on data.
    allow_scalar_outputs = False
    allow_dynamic_output_shape_ops = False

    def __init__(self) -> None:
        self.hints: dict[Symbol, int] = {}
        self.small = SmallSizes()
        self._trusted = 0
        self.replacements: dict[Symbol, Index] = {}
        self._constants: dict[Index, Index] = {}  # what expressions are that no symbol can be told from
        self.unknown: set[Symbol] = set()
        #: Whether there are any numbers of which nothing is known.
        self.has_unknown = False
        self.data = DataSizes()
        #: Raises what is to be raised where the value of an expression, or of one in a tuple, is asked for and unknown.
        self.refuse: Callable[[Any], Any] = unknown_number
        self._known: dict[Condition, bool] = {}  # whatever was asked and answered, in order
        self.given: set[Given] = set()
        #: Given numbers that must be their hints.
        self.fixed: set[Given] = set()
        #: What integers that functions compute are in index expressions, and what their symbols are, less two.
        self.indices: dict[Whole, Index] = {}
        self.stems: dict[Symbol, Whole] = {}
        #: Whether no more symbols can come into being: the graph has all its inputs.
        self.sealed = False
        #: Told what must hold: a fact, or that a given number is its hint.
        self.note: Callable[[Given | Fact], None] = lambda fact: None

    def forget(self) -> None:
        """The trace is over: nobody is told any more. Sizes hold this object out of sight of the garbage collector."""
        self.refuse, self.note = unknown_number, lambda fact: None
        self.data.close()

    @property
    def guards(self) -> tuple[Condition, ...]:
        """What must hold of the sizes of inputs for the trace to be valid."""
        asked = itertools.filterfalse(self.data.are_in, self._asked())
        plainly = (Condition(each.op, self._plainly(each.left), self._plainly(each.right)) for each in asked)
        return tuple(each for each in plainly if each.left.symbols or each.right.symbols)

    @property
    def checks(self) -> tuple[Condition, ...]:
        """What must hold of the sizes that only the data say."""
        of_data = [each for each in self._asked() if self.data.are_in(each) and each not in self.data.bounds]
        asked = (*of_data, *self.data.exclusions(self))
        return tuple([Condition(each.op, self._beside(each.left), self._beside(each.right)) for each in asked])

    def _beside(self, value: Index) -> Index:
        """The expression with all that is known of sizes of inputs, but not of what only the data say."""
        return value.substitute({s: self.simplify(Index.of(s)) for s in value.symbols - self.data.symbols})

    def _asked(self) -> Iterator[Condition]:
        return (asked if answer else asked.negated() for asked, answer in self._known.items())

    def _plainly(self, value: Index) -> Index:
        """The expression with the numbers that functions give for sizes which turned out to be constants."""
        stems = {symbol: self.stems[symbol] for symbol in value.symbols & self.stems.keys()}
        known = {
            s: Index.of(self.hints[s]) for s, stem in stems.items() if stem.args and all(map(self.is_fixed, stem.args))
        }
        return value.substitute(known)

    def new(self, hint: int, name: str, may_be_small: bool = False) -> torch.SymInt:
        """A size of its own, called `name`; the hint is at least 2, unless the size may be 0 and 1."""
        symbol = Symbol(name)
        if hint < (0 if may_be_small else 2) or symbol in self.hints:
            raise ValueError(f"{name} = {hint} cannot become a symbolic size")
        self.hints[symbol] = hint
        if may_be_small:
            self.small.add(symbol)
        return torch.SymInt(SizeNode(self, Index.of(symbol)))

    def new_unknown(self, name: str) -> torch.SymInt:
        """An integer of which nothing is known, not even its sign."""
        symbol = Symbol(name)
        self.unknown.add(symbol)
        self.data.note(symbol)
        self.has_unknown = True
        return torch.SymInt(SizeNode(self, Index.of(symbol)))

    def new_unknown_float(self, name: str, trusted: bool) -> torch.SymFloat:
        self.has_unknown = True
        return torch.SymFloat(SizeNode(self, Float(Unknown(name, trusted), ())))

    def new_given(self, hint: int | float, name: str) -> torch.SymInt | torch.SymFloat:
        """A number that the program was given, called `name`."""
        given = Given(name, hint)
        self.given.add(given)
        if isinstance(hint, int):
            return torch.SymInt(SizeNode(self, Whole(given, ())))
        return torch.SymFloat(SizeNode(self, Float(given, ())))

    @property
    def is_static(self) -> bool:
        """Whether there are no symbolic numbers that operators can take."""
        return not (self.hints or self.given or self.unknown)

    def is_unknown(self, value: Any) -> bool:
        """Whether the number depends on one of which nothing is known."""
        match value:
            case Index():
                return bool(self.unknown) and not self.unknown.isdisjoint(value.symbols)
            case Computed(op, args):
                return isinstance(op, Unknown) or any(self.is_unknown(arg) for arg in args)
            case Condition(_, left, right):
                return self.is_unknown(left) or self.is_unknown(right)
        return False

    def simplify(self, value: Index) -> Index:
        """The expression with everything that is known equal replaced."""
        value = value.substitute(self.replacements) if self.replacements else value
        value = self._without_least(value)
        return self._constants.get(value, value)

    def _without_least(self, value: Index) -> Index:
        """The expression where sizes that cannot be 0 any more are not compared with 1."""
        if not any(is_least_one(atom) for monomial, _ in value.terms for atom in monomial):
            return value
        result = ZERO
        for monomial, coefficient in value.terms:
            term = Index.of(coefficient)
            for atom in monomial:
                known = self.at_least_one(atom.a) if is_least_one(atom) else None
                term = term * (Index((((atom,), 1),)) if known is None else known)
            result = result + term
        return result

    # ---- sizes that may be 0 and 1 -----------------------------------------------------------------------------------

    @contextmanager
    def trusted(self) -> Iterator[None]:
        """What torch asks in here is answered without a guard, where it can be as for sizes from 2 on.

        For making fakes whose sizes and strides are known to be those that eager's tensors have. What it keeps of their
        layout (`SizeNode.is_contiguous`) is guarded nevertheless.
        """
        self._trusted += 1
        try:
            yield
        finally:
            self._trusted -= 1

    def answer(self, condition: Condition) -> bool:
        """What torch is told, and a guard unless it is trusted with these sizes."""
        if not self._trusted or self.is_unknown(condition):
            return self.holds(condition)
        condition = Condition(condition.op, self.simplify(condition.left), self.simplify(condition.right))
        certain = self.certain(condition, SMALL)
        return bool(self.value(condition)) if certain is None else certain

    def narrow(self, symbols: Iterable[Symbol]) -> None:
        """Let these sizes be 2 and more, or what they are in this trace, if that is less."""
        for symbol in symbols:
            self.exclude(symbol, SMALL)

    def at_least_one(self, size: Index) -> Index:
        """The size, or 1 where it is 0: how many steps of memory a dimension takes."""
        return size if self.certain(Condition("<", ZERO, size)) else greatest(size, 1)

    def is_filled(self, shape: Sequence[Index], strides: Sequence[Index], order: Sequence[int]) -> bool:
        """Whether the dimensions, innermost first in `order`, certainly fill memory as in a new tensor."""
        step = ONE
        for dim in order:
            size = self.simplify(shape[dim])
            if size != ONE:
                if self.simplify(strides[dim]) != step:
                    return False
                step = step * self.at_least_one(size)
        return True

    def exclude(self, symbol: Symbol, numbers: frozenset[int]) -> None:
        excluded = self.small.of(symbol) & numbers
        if self.hints.get(symbol) in excluded:
            self._settle(symbol)
        elif excluded:
            self.small.exclude(symbol, excluded)

    def _settle(self, symbol: Symbol) -> None:
        """A size is what it is in this trace, 0 or 1."""
        number = Index.of(self.hints[symbol])
        self.small.exclude(symbol, SMALL)
        self._known[Condition("==", Index.of(symbol), number)] = True
        self._unify(Index.of(symbol), number)

    def _decided(self, condition: Condition) -> bool | None:
        """The answer if it is that for all but a small number that one size can be, which it is then not, else None.

        If the size is now the small number that has another answer, it is that in every call.
        """
        symbols = condition.left.symbols | condition.right.symbols
        if len(symbols) != 1 or self.is_unknown(condition):
            return None
        (symbol,) = symbols
        small = self.small.of(symbol)
        for numbers in EXCLUSIONS if small else ():
            if self.hints[symbol] not in numbers:
                answer = self.certain(condition, numbers)
                if answer is not None:
                    self.exclude(symbol, numbers)
                    return answer
        if self.hints[symbol] in small and self.certain(condition, SMALL) is not None:
            self._settle(symbol)
            return bool(self.value(condition))
        return None

    def value(self, expression: Expression) -> Any:
        """What the expression is in this trace."""
        if self.is_unknown(expression):
            return self.refuse(expression)
        match expression:
            case Index():
                return expression.evaluate({symbol.name: hint for symbol, hint in self.hints.items()})
            case Computed(op, args):
                return op(*(self.value(arg) for arg in args))
            case Condition(op, left, right):
                return COMPARE[op](self.value(left), self.value(right))
        return expression

    def holds(self, condition: Condition) -> bool:
        """Answer a question, and remember the answer as a guard unless it could not have been another."""
        condition = Condition(condition.op, self.simplify(condition.left), self.simplify(condition.right))
        said = self.said(condition)
        if said is not None:
            return said
        of_data = self.data.admit(self, condition)
        certain = self.certain(condition) if of_data else None
        decided = self._decided(condition) if certain is None else certain
        if decided is not None:
            return decided
        answer = self.data.needed(self, condition) if of_data else bool(self.value(condition))
        self.remember(condition, answer)
        return answer

    def said(self, condition: Condition) -> bool | None:
        """The answer, if it is known without a new guard or check."""
        certain = self.certain(condition)
        if certain is None:
            for known in (condition, condition.negated()):
                if known in self._known:
                    return self._known[known] is (known is condition)
        return certain

    def is_open(self, condition: Condition | bool) -> bool:
        """Whether the answer depends on data, and nothing is known of it."""
        depends = not isinstance(condition, bool) and (self.data.are_in(condition) or self.is_unknown(condition))
        return depends and self.said(condition) is None  # type: ignore[arg-type]

    def remember(self, condition: Condition, answer: bool) -> None:
        self._known[condition] = answer
        self.data.learn(condition if answer else condition.negated())
        if (condition.op == "==") is answer and condition.op in ("==", "!="):
            self._unify(condition.left, condition.right)

    def expect(self, condition: Condition, answer: bool) -> None:
        """A check of the program wants this answer. Raises GraphBreak where the graph cannot check it."""
        condition = Condition(condition.op, self.simplify(condition.left), self.simplify(condition.right))
        self.data.admit(self, condition)
        self.remember(condition, answer)

    def certain(self, condition: Condition, without: frozenset[int] = NONE) -> bool | None:
        """The answer if it is the same for all that the sizes may be, but for some of 0 and 1, else None."""
        difference = condition.right - condition.left
        if difference.constant is not None:
            return COMPARE[condition.op](0, difference.constant)
        if self.is_unknown(difference):
            return None
        answers = set()
        for way in self.small.ways(difference.symbols, without):
            try:
                there = difference.substitute(way)
            except ZeroDivisionError:  # the program has divided by this: sizes for which that fails are not those here
                continue
            answer = always(condition.op, there)
            answers.add(self.data.certain(condition.op, there) if answer is None else answer)
            if len(answers) > 1 or None in answers:
                return None
        return answers.pop() if answers else None

    def specialize(self, value: Index | Computed | float) -> Any:
        """The value of this trace, guarding an integer to be that, and what other numbers are computed from."""
        if self.data.are_in(value):
            return self.refuse(value)
        match value:
            case Index():
                self.holds(Condition("==", value, Index.of(self.value(value))))
                return self.value(value)
            case Whole(op, _) if not isinstance(op, Given):
                number = self.value(value)
                if not self.is_fixed(value):
                    self._note_fact(operator.eq, (value, number), True)
                    self.indices[value] = Index.of(number)
                return number
            case Computed(Given() as given, _):
                if given not in self.fixed:
                    self.fixed.add(given)
                    self.note(given)
                return given.hint
            case Computed(_, args):
                for arg in args:
                    self.specialize(arg)
                return self.value(value)
        return value

    def index_of(self, value: Whole) -> Index:
        """An integer as an index expression: a symbol of its own, of a sign that is guarded."""
        if value not in self.indices:
            if self.data.are_in(value):
                self.refuse(value)
            negative = self.value(value) < 0
            stem = Whole(operator.invert, (value,)) if negative else value
            number = self.value(stem)
            if self.sealed or number >= LARGEST:
                return Index.of(self.specialize(value))
            symbol = Symbol(f"c{len(self.stems)}")
            self.stems[symbol], self.hints[symbol] = stem, number + 2
            shifted = Index.of(symbol)
            self._known[Condition("<=", Index.of(0), shifted - 2)] = True
            self._known[Condition("<", shifted - 2, Index.of(LARGEST))] = True
            self.indices[value] = 1 - shifted if negative else shifted - 2
        return self.indices[value]

    def is_fixed(self, value: Any) -> bool:
        """Whether the number is the same wherever the guards hold."""
        match value:
            case Index():
                return self.simplify(value).constant is not None
            case Whole() if value in self.indices:
                return self.is_fixed(self.indices[value])
            case Computed(Given() as given, _):
                return given in self.fixed
            case Computed(_, args):
                return all(map(self.is_fixed, args))
        return True

    # ---- numbers that the program was given --------------------------------------------------------------------------

    def is_given(self, value: Any) -> bool:
        """Whether all that the number is computed from is known, and some of it was given."""
        return bool(self.given) and any(True for _ in given_in(value)) and not self.is_unknown(value)

    def is_known(self, value: Any) -> bool:
        """Whether this has a value in this trace, another one in others, and is no index expression."""
        return isinstance(value, Computed) and not self.is_unknown(value)

    def computed(self, op: Callable[..., Any], args: tuple[Expression, ...]) -> Any:
        """What a function gives for numbers: an expression or a tuple of them, or what it is for those of this trace.

        Raises:
            Exception: what the function raises for the numbers of this trace.
        """
        args = tuple([self.indices.get(arg, arg) if isinstance(arg, Whole) else arg for arg in args])
        result = self.as_index(op, args)
        if result is not None and is_sound(self, result) and fits(self, result):
            return result
        kind = kind_of(op, args)
        if any(map(self.is_unknown, args)):
            return Float(op, args) if kind is float or op in FLOATING else self.refuse(args)  # type: ignore[arg-type]
        if kind is None or op in DIVIDING and not self._is_not_zero(args[1]):
            kind = self.ask(Outcome(op), args)
        if kind is float:
            return Float(op, args)  # type: ignore[arg-type]
        if kind is int:
            return Whole(op, args)  # type: ignore[arg-type]
        if type(kind) is tuple and NUMBERS.keys() >= {*kind}:
            return tuple([NUMBERS[each](Part(op, place), args) for place, each in enumerate(kind)])  # type: ignore[arg-type]
        if type(kind) is tuple and isinstance(kind[0], type) and issubclass(kind[0], Exception):
            op(*map(self.value, args))  # which raises
        if kind is bool:
            return self.ask(op, args)
        return op(*map(self.specialize, args))  # type: ignore[arg-type]

    def as_index(self, op: Callable[..., Any], args: tuple[Expression, ...]) -> Index | None:
        """The index expression that an operation on integers is, if it is one."""
        rule = RULES.get(op)
        if rule is None or not all(isinstance(arg, int | Index) for arg in args):
            return None
        if op in (max, min) and any(isinstance(arg, bool) for arg in args):
            return None
        for arg in () if rule.any_sign else filter(self.is_unknown, args):
            self.data.admit(self, Condition("<=", ZERO, arg))  # type: ignore[arg-type]
        return rule.index(self, *(Index.of(int(arg) if isinstance(arg, bool) else arg) for arg in args))  # type: ignore[arg-type]

    def _is_not_zero(self, value: Expression) -> bool:
        if isinstance(value, Index):
            return self.holds(Condition("!=", value, Index.of(0)))
        return bool(self.ask(operator.ne, (value, 0.0)))

    def ask(self, function: Callable[..., Any], args: tuple[Expression, ...]) -> Any:
        """What a function says of numbers; guarded."""
        if any(map(self.data.are_in, args)):
            return self.refuse(args)
        answer = function(*map(self.value, args))
        if not all(map(self.is_fixed, args)):
            self._note_fact(function, args, answer)
        return answer

    def _note_fact(self, function: Callable[..., Any], args: tuple[Expression, ...], answer: Any) -> None:
        self.note(Fact(function, tuple(map(self.unfolded, args)), answer))

    def unfolded(self, value: Any) -> Any:
        """An expression without the symbols of numbers that functions compute: by what they are computed from."""
        match value:
            case Index() if not self.stems.keys().isdisjoint(value.symbols):
                symbols = tuple(sorted(value.symbols, key=str))
                return Whole(Polynomial(value, symbols), tuple(map(self._as_computed, symbols)))
            case Computed(op, args):
                return type(value)(op, tuple(map(self.unfolded, args)))
        return value

    def _as_computed(self, symbol: Symbol) -> Index | Whole:
        if symbol not in self.stems:
            return Index.of(symbol)
        return Whole(operator.add, (self.unfolded(self.stems[symbol]), 2))

    def _unify(self, left: Index, right: Index) -> None:
        """Two expressions are equal: where that gives one symbol in terms of others, use it from now on."""
        difference = left - right
        order = self.data.among([*self.hints])
        for symbol in sorted(difference.symbols, key=order.index, reverse=True):
            factor = difference.coefficient(symbol)
            times = factor.constant if factor is not None else None
            others = (difference - Index.of(symbol) * (times or 0)).terms
            if times and all(coefficient % times == 0 for _, coefficient in others):
                rest = Index(tuple((monomial, -coefficient // times) for monomial, coefficient in others))
                self.replacements = {s: e.substitute({symbol: rest}) for s, e in self.replacements.items()}
                self.replacements[symbol] = rest
                if rest.symbol is not None:
                    self.small.exclude(rest.symbol, SMALL - self.small.of(symbol))
                return
        if right.constant is not None:
            self._constants[left] = right
