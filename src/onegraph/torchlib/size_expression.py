"""What symbolic numbers are made of: index expressions, numbers that functions of Python compute, and comparisons."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field
from typing import Any

import torch

from onegraph.base.dataclass import dataclass
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
class Computed:
    """A number that a function of Python computes from sizes and from other numbers."""

    op: Callable[..., Any]
    args: tuple[Index | Computed | float, ...]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Computed):
            return NotImplemented
        same = type(self) is type(other) and self.op == other.op and len(self.args) == len(other.args)
        return same and all(map(_same, self.args, other.args))

    def __hash__(self) -> int:
        return hash((self.op, tuple(repr(arg) if isinstance(arg, float) else arg for arg in self.args)))


class Float(Computed):
    """A floating-point number."""

    __slots__ = ()


class Whole(Computed):
    """An integer that is no index expression, or too large for one: Python's have no limit."""

    __slots__ = ()


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
    """The function of a number that the program was given, and that is `hint` in this trace."""

    name: str
    hint: int | float = field(compare=False)

    def __call__(self) -> int | float:
        return self.hint


def given_in(value: Any) -> Iterator[Given]:
    """The numbers that the program was given, of those that an expression is computed from."""
    match value:
        case Computed(Given() as given, _):
            yield given
        case Computed(_, args):
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
        return tuple(dict.fromkeys(symbol for arg in self.args for symbol in symbols_in(arg)))

    def evaluator(self) -> Callable[[Sequence[Any]], Any]:
        """What the function says where the symbols are these numbers."""
        places = {symbol: place for place, symbol in enumerate(self.symbols)}
        return _call(self.function, [_evaluator(arg, places) for arg in self.args])

    def text(self, names: Mapping[Given | Symbol, str]) -> str:
        """The fact, where the symbols are written like this."""
        args = [shown(arg, names) for arg in self.args]
        if isinstance(self.function, Outcome):
            return self.function.text(call_text(self.function.function, args), self.answer)
        said = call_text(self.function, args)
        return said if self.answer else f"not {said}"


SIGNS: dict[Callable[..., Any], str] = {
    operator.add: "+", operator.sub: "-", operator.mul: "*", operator.truediv: "/", operator.floordiv: "//",
    operator.mod: "%", operator.pow: "**", operator.eq: "==", operator.ne: "!=", operator.lt: "<", operator.le: "<=",
    operator.gt: ">", operator.ge: ">=", operator.and_: "&", operator.or_: "|", operator.xor: "^",
    operator.lshift: "<<", operator.rshift: ">>",
}  # fmt: skip


def call_text(function: Callable[..., Any], args: Sequence[str]) -> str:
    """A call, or an operation, as it is written."""
    if isinstance(function, Polynomial):
        return f"({function.text(args)})"
    if function in SIGNS and len(args) == 2:
        return f"({args[0]} {SIGNS[function]} {args[1]})"
    if function is operator.neg:
        return f"-{args[0]}"
    return f"{name_of(function)}({', '.join(args)})"


def name_of(function: Callable[..., Any]) -> str:
    return str(getattr(function, "__name__", function))


def _substituted(value: Any, known: Mapping[Symbol, Index]) -> Any:
    match value:
        case Computed(op, args):
            return type(value)(op, tuple(_substituted(arg, known) for arg in args))
        case Index():
            return value.substitute(known)
    return value


def symbols_in(value: Any) -> Iterator[Given | Symbol]:
    """What an expression is computed from."""
    match value:
        case Computed(Given() as given, _):
            yield given
        case Computed(_, args):
            for arg in args:
                yield from symbols_in(arg)
        case Index():
            yield from sorted(value.symbols, key=str)


def shown(value: Any, names: Mapping[Given | Symbol, str]) -> str:
    match value:
        case Computed(Given() as given, _):
            return names[given]
        case Computed(op, args):
            return call_text(op, [shown(arg, names) for arg in args])
        case Index():
            return with_names(value, names)
    return str(value)


def with_names(value: Index, names: Mapping[Any, str]) -> str:
    """The text of an index expression where the symbols are written like this."""
    return re.sub(r"\b[a-z]+\d+\b", lambda found: names.get(Symbol(found[0]), found[0]), str(value))


def _evaluator(value: Any, places: Mapping[Given | Symbol, int]) -> Callable[[Sequence[Any]], Any]:
    match value:
        case Computed(Given() as given, _):
            return operator.itemgetter(places[given])
        case Computed(op, args):
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
class Outcome:
    """What a function gives: the type of its result, or the types in a tuple; or the error, and what that says."""

    function: Callable[..., Any]

    def __call__(self, *args: Any) -> Any:
        try:
            result = self.function(*args)
        except Exception as error:
            return type(error), str(error)
        return tuple(map(type, result)) if type(result) is tuple else type(result)

    def text(self, call: str, answer: Any) -> str:
        """The outcome of a call that is written like this, in words."""
        match answer:
            case (type() as error, str() as message):
                return f"{call} raises {error.__name__}({message!r})"
            case tuple():
                return f"{call} gives ({', '.join(kind.__name__ for kind in answer)})"
        return f"type({call}) is {answer.__name__}"


@dataclass(frozen=True, slots=True)
class Part:
    """One of the numbers that a function gives in a tuple."""

    function: Callable[..., Any]
    place: int

    def __call__(self, *args: Any) -> Any:
        return self.function(*args)[self.place]

    def __str__(self) -> str:
        return f"{name_of(self.function)}.{self.place}"


#: Guards and kernels compute in 64 bits.
LARGEST = 1 << 31


@dataclass(frozen=True, slots=True)
class Polynomial:
    """An index expression as a function of the numbers that its `symbols` stand for."""

    index: Index
    symbols: tuple[Symbol, ...]

    def __call__(self, *numbers: int) -> Any:
        return self.index.evaluate({symbol.name: number for symbol, number in zip(self.symbols, numbers, strict=True)})

    def text(self, args: Sequence[str]) -> str:
        return with_names(self.index, dict(zip(self.symbols, args, strict=True)))


Expression = Index | Computed | Condition | float | bool
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
