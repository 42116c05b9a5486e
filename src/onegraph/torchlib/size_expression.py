"""What symbolic numbers are made of: index expressions, floating-point numbers, and comparisons."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from onegraph.ir.index import Index, Symbol


@dataclass(frozen=True, slots=True)
class Condition:
    """`left op right`, with `op` one of `==`, `!=`, `<` and `<=`."""

    op: str
    left: Index
    right: Index

    def __str__(self) -> str:
        return f"{self.left} {self.op} {self.right}"

    def negated(self) -> Condition:
        match self.op:
            case "==" | "!=":
                return Condition("!=" if self.op == "==" else "==", self.left, self.right)
            case "<":
                return Condition("<=", self.right, self.left)
        return Condition("<", self.right, self.left)


@dataclass(frozen=True, slots=True, eq=False)
class Float:
    """A floating-point number computed from sizes and from other numbers."""

    op: Callable[..., float]
    args: tuple[Index | Float | float, ...]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Float):
            return NotImplemented
        return self.op == other.op and len(self.args) == len(other.args) and all(map(_same, self.args, other.args))

    def __hash__(self) -> int:
        return hash((self.op, tuple(repr(arg) if isinstance(arg, float) else arg for arg in self.args)))


def _same(a: Any, b: Any) -> bool:
    """Zeros of two signs are two numbers, and one that is not a number is itself."""
    return type(a) is type(b) and (repr(a) == repr(b) if isinstance(a, float) else a == b)


@dataclass(frozen=True, slots=True)
class Unknown:
    """The function of a `Float` of which nothing is known while tracing.

    What is computed with a number that is `trusted` is a number, and no error.
    """

    name: str
    trusted: bool = False

    def __call__(self) -> float:
        raise RuntimeError(f"the number {self.name} is not known while tracing")


@dataclass(frozen=True, slots=True)
class Given:
    """The function of a `Float` that the program was given, and that is `hint` in this trace."""

    name: str
    hint: float = field(compare=False)

    def __call__(self) -> float:
        return self.hint


def given_in(value: Any) -> Iterator[Given]:
    """The numbers that the program was given, of those that an expression is computed from."""
    match value:
        case Float(Given() as given, _):
            yield given
        case Float(_, args):
            for arg in args:
                yield from given_in(arg)


@dataclass(frozen=True, slots=True)
class Fact:
    """What a function says of expressions."""

    function: Callable[..., Any]
    args: tuple[Expression, ...]
    answer: Any

    def substitute(self, known: Mapping[Symbol, Index]) -> Fact:
        """The fact with symbols replaced by what they are written as."""
        return Fact(self.function, tuple(_substituted(arg, known) for arg in self.args), self.answer)

    @property
    def symbols(self) -> tuple[Given | Symbol, ...]:
        """What the expressions are computed from."""
        return tuple(dict.fromkeys(symbol for arg in self.args for symbol in _symbols(arg)))

    def evaluator(self) -> Callable[[Sequence[Any]], Any]:
        """What the function says where the symbols are these numbers."""
        places = {symbol: place for place, symbol in enumerate(self.symbols)}
        return _call(self.function, [_evaluator(arg, places) for arg in self.args])

    def text(self, names: Mapping[Given | Symbol, str]) -> str:
        """The fact, where the symbols are written like this."""
        said = call_text(self.function, [_shown(arg, names) for arg in self.args])
        return said if self.answer else f"not {said}"


SIGNS: dict[Callable[..., Any], str] = {
    operator.add: "+", operator.sub: "-", operator.mul: "*", operator.truediv: "/", operator.floordiv: "//",
    operator.mod: "%", operator.pow: "**", operator.eq: "==", operator.ne: "!=", operator.lt: "<", operator.le: "<=",
    operator.gt: ">", operator.ge: ">=",
}  # fmt: skip


def call_text(function: Callable[..., Any], args: Sequence[str]) -> str:
    """A call, or an operation, as it is written."""
    if function in SIGNS and len(args) == 2:
        return f"({args[0]} {SIGNS[function]} {args[1]})"
    if function is operator.neg:
        return f"-{args[0]}"
    return f"{getattr(function, '__name__', function)}({', '.join(args)})"


def _substituted(value: Any, known: Mapping[Symbol, Index]) -> Any:
    match value:
        case Float(op, args):
            return Float(op, tuple(_substituted(arg, known) for arg in args))
        case Index():
            return value.substitute(known)
    return value


def _symbols(value: Any) -> Iterator[Given | Symbol]:
    match value:
        case Float(Given() as given, _):
            yield given
        case Float(_, args):
            for arg in args:
                yield from _symbols(arg)
        case Index():
            yield from sorted(value.symbols, key=str)


def _shown(value: Any, names: Mapping[Given | Symbol, str]) -> str:
    match value:
        case Float(Given() as given, _):
            return names[given]
        case Float(op, args):
            return call_text(op, [_shown(arg, names) for arg in args])
        case Index():
            return re.sub(r"\b[a-z]+\d+\b", lambda found: names.get(Symbol(found[0]), found[0]), str(value))
    return str(value)


def _evaluator(value: Any, places: Mapping[Given | Symbol, int]) -> Callable[[Sequence[Any]], Any]:
    match value:
        case Float(Given() as given, _):
            return operator.itemgetter(places[given])
        case Float(op, args):
            return _call(op, [_evaluator(arg, places) for arg in args])
        case Index():
            if value.symbol is not None:
                return operator.itemgetter(places[value.symbol])
            names = [(symbol.name, places[symbol]) for symbol in value.symbols]
            return lambda numbers: value.evaluate({name: numbers[place] for name, place in names})
    return lambda _: value


def _call(
    function: Callable[..., Any], args: Sequence[Callable[[Sequence[Any]], Any]]
) -> Callable[[Sequence[Any]], Any]:
    match args:
        case (first,):
            return lambda numbers: function(first(numbers))
        case (first, second):
            return lambda numbers: function(first(numbers), second(numbers))
    return lambda numbers: function(*(arg(numbers) for arg in args))


@dataclass(frozen=True, slots=True)
class Computes:
    """Whether a function gives a floating-point number for these."""

    function: Callable[..., Any]

    def __str__(self) -> str:
        return f"is_float.{getattr(self.function, '__name__', self.function)}"

    def __call__(self, *args: float) -> bool:
        try:
            return type(self.function(*args)) is float
        except (ArithmeticError, ValueError):
            return False


#: Functions that give a floating-point number for any, and for any two of which the second is not zero.
TOTAL = frozenset({operator.add, operator.sub, operator.mul, operator.neg, abs, max, min, torch.sym_float})
DIVIDING = frozenset({operator.truediv, operator.floordiv, operator.mod})


def may_raise(value: Any) -> bool:
    """Whether Python may raise an error where it computes an expression with numbers that are not known yet."""
    match value:
        case Float(Unknown(), _):
            return False
        case Float(op, args):
            return any(map(may_raise, args)) or (op not in TOTAL and any(map(is_doubtful, args)))
    return False


def is_doubtful(value: Any) -> bool:
    match value:
        case Float(Unknown() as unknown, _):
            return not unknown.trusted
        case Float(_, args):
            return any(map(is_doubtful, args))
    return False


#: Functions of symbolic numbers that give symbolic numbers.
SYMBOLIC = frozenset({operator.add, operator.sub, operator.mul, operator.truediv, operator.pow, operator.neg})
SYMBOLIC |= {torch.sym_float}


def is_symbolic(value: Any) -> bool:
    """Whether the functions that an expression is computed by take symbolic numbers."""
    return not isinstance(value, Float) or (value.op in SYMBOLIC and all(map(is_symbolic, value.args)))


Expression = Index | Float | Condition | float | bool
COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
}


def as_integer(value: Expression) -> Expression:
    """Comparing converted integers is comparing the integers."""
    match value:
        case Float(op, (Index() as index,)) if op is torch.sym_float:
            return index
        case float() if value.is_integer():
            return Index.of(int(value))
    return value
