"""Symbolic sizes: integers that stand for the size of an input, with the guards that a trace puts on them.

`torch.SymInt` takes any object that speaks the protocol of its nodes. Ours holds an index expression of `onegraph.ir`,
so that one arithmetic serves traces, guards and loops; torch's own node holds a sympy expression, whose import alone
costs more than most traces here.

Every symbolic size has the value of this trace as its hint, and is at least 2: sizes 0 and 1 stay plain numbers. A
question that the expressions do not answer is answered by the hints, and becomes a condition that guards must check.
"""

from __future__ import annotations

import builtins
import math
import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
import torch.fx.experimental.sym_node  # gives torch.SymInt its arithmetic

from onegraph.ir.index import Index, Symbol, apply, is_not_negative

Number = int | float | bool


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


@dataclass(frozen=True, slots=True)
class Float:
    """A floating-point number computed from sizes."""

    op: Callable[..., float]
    args: tuple[Index | Float | float, ...]


Expression = Index | Float | Condition | float | bool
_COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
}


class Sizes:
    """The symbolic sizes of one trace."""

    # What operators on fakes ask before they make sizes that depend on data.
    allow_scalar_outputs = False
    allow_dynamic_output_shape_ops = False

    def __init__(self) -> None:
        self.hints: dict[Symbol, int] = {}
        self.replacements: dict[Symbol, Index] = {}
        self._known: dict[Condition, bool] = {}  # whatever was asked and answered, in order

    @property
    def guards(self) -> tuple[Condition, ...]:
        """What must hold of the sizes for the trace to be valid."""
        return tuple(asked if answer else asked.negated() for asked, answer in self._known.items())

    def new(self, hint: int, name: str) -> torch.SymInt:
        """A size of its own, called `name`; the hint is at least 2."""
        symbol = Symbol(name)
        if hint < 2 or symbol in self.hints:
            raise ValueError(f"{name} = {hint} cannot become a symbolic size")
        self.hints[symbol] = hint
        return torch.SymInt(SizeNode(self, Index.of(symbol)))

    def simplify(self, value: Index) -> Index:
        """The expression with everything that is known equal replaced."""
        return value.substitute(self.replacements) if self.replacements else value

    def value(self, expression: Expression) -> Any:
        """What the expression is in this trace."""
        match expression:
            case Index():
                return expression.evaluate({symbol.name: hint for symbol, hint in self.hints.items()})
            case Float(op, args):
                return op(*(self.value(arg) for arg in args))
            case Condition(op, left, right):
                return _COMPARE[op](self.value(left), self.value(right))
        return expression

    def holds(self, condition: Condition) -> bool:
        """Answer a question, and remember the answer as a guard unless it could not have been another."""
        condition = Condition(condition.op, self.simplify(condition.left), self.simplify(condition.right))
        certain = self.certain(condition)
        if certain is not None:
            return certain
        for known in (condition, condition.negated()):
            if known in self._known:
                return self._known[known] is (known is condition)
        answer = bool(self.value(condition))
        self._known[condition] = answer
        if (condition.op == "==") is answer and condition.op in ("==", "!="):
            self._unify(condition.left, condition.right)
        return answer

    def certain(self, condition: Condition) -> bool | None:
        """The answer if it is the same for all sizes from 2 on, else None."""
        difference = condition.right - condition.left
        if difference.constant is not None:
            return _COMPARE[condition.op](0, difference.constant)
        # Write each size as 2 + something that is not negative.
        lifted = difference.substitute({symbol: Index.of(symbol) + 2 for symbol in difference.symbols})
        match condition.op:
            case "<" if is_not_negative(lifted - 1):
                return True
            case "<" if is_not_negative(-lifted):
                return False
            case "<=" if is_not_negative(lifted):
                return True
            case "<=" if is_not_negative(-lifted - 1):
                return False
            case "==" | "!=" if is_not_negative(lifted - 1) or is_not_negative(-lifted - 1):
                return condition.op == "!="
        return None

    def specialize(self, value: Index | Float) -> Any:
        """The value of this trace, guarding every size in the expression to be what it is now."""
        match value:
            case Index():
                self.holds(Condition("==", value, Index.of(self.value(value))))
                return self.value(value)
            case Float(_, args):
                for arg in args:
                    if isinstance(arg, (Index, Float)):
                        self.specialize(arg)
                return self.value(value)
        return value

    def _unify(self, left: Index, right: Index) -> None:
        """Two expressions are equal: where that gives one symbol in terms of others, use it from now on."""
        difference = left - right
        for symbol in sorted(difference.symbols, key=lambda s: list(self.hints).index(s), reverse=True):
            factor = difference.coefficient(symbol)
            sign = factor.constant if factor is not None else None
            if sign in (1, -1):
                rest = (difference - Index.of(symbol) * sign) * -sign
                self.replacements = {s: e.substitute({symbol: rest}) for s, e in self.replacements.items()}
                self.replacements[symbol] = rest
                return


class SizeNode:
    """The node of a `torch.SymInt`, `SymFloat` or `SymBool` over sizes. Methods have the names torch calls them by."""

    __slots__ = ("_value", "sizes")

    def __init__(self, sizes: Sizes, value: Expression) -> None:
        self.sizes = sizes
        self._value = value

    @property
    def value(self) -> Expression:
        match self._value:
            case Index():
                self._value = self.sizes.simplify(self._value)
        return self._value

    @property
    def index(self) -> Index:
        """The index expression of a symbolic integer."""
        value = self.value
        if not isinstance(value, Index):
            raise TypeError(f"{self} is not an integer")
        return value

    # --- what it is ----------------------------------------------------------------------------------------------

    def is_int(self) -> bool:
        return isinstance(self._value, Index)

    def is_float(self) -> bool:
        return isinstance(self._value, (Float, float))

    def is_bool(self) -> bool:
        return isinstance(self._value, (Condition, bool))

    @property
    def pytype(self) -> type:
        return builtins.int if self.is_int() else builtins.float if self.is_float() else builtins.bool

    def is_nested_int(self) -> bool:
        return False

    def nested_int(self) -> None:
        return None

    def is_symbolic(self) -> bool:
        return True

    def is_constant(self) -> bool:
        return self._constant() is not None

    def _constant(self) -> Any:
        value = self.value
        match value:
            case Index():
                return value.constant
            case Condition():
                return self.sizes.certain(value)
            case Float():
                return None
        return value

    def maybe_as_int(self) -> int | None:
        return self._constant() if self.is_int() else None

    def maybe_as_float(self) -> float | None:
        return self._constant() if self.is_float() else None

    def maybe_as_bool(self) -> bool | None:
        return self._constant() if self.is_bool() else None

    constant_int = maybe_as_int
    constant_bool = maybe_as_bool

    def has_hint(self) -> bool:
        return True

    @property
    def hint(self) -> Any:
        return self.sizes.value(self.value)

    _hint = hint

    @property
    def constant(self) -> Any:
        return self._constant()

    @property
    def expr(self) -> Opaque:
        return Opaque(str(self))

    def clone(self) -> SizeNode:
        return self

    def str(self) -> builtins.str:
        return builtins.str(self.value)

    __str__ = __repr__ = _graph_repr = str

    # --- asking --------------------------------------------------------------------------------------------------

    def guard_int(self, file: builtins.str = "", line: int = 0) -> int:
        return int(self.sizes.specialize(self.index))

    def guard_float(self, file: builtins.str = "", line: int = 0) -> float:
        return float(self.sizes.specialize(self.value))  # type: ignore[arg-type]

    def guard_bool(self, file: builtins.str = "", line: int = 0) -> bool:
        value = self.value
        return self.sizes.holds(value) if isinstance(value, Condition) else bool(value)

    expect_true = guard_or_false = guard_or_true = guard_size_oblivious = guard_bool

    def statically_known_true(self, file: builtins.str = "", line: int = 0) -> bool:
        return self._constant() is True

    def expect_size(self, file: builtins.str = "", line: int = 0) -> bool:
        return True

    def int_(self) -> int:
        return self.guard_int()

    def bool_(self) -> bool:
        return self.guard_bool()

    # --- arithmetic ----------------------------------------------------------------------------------------------

    def _new(self, value: Expression) -> SizeNode:
        return SizeNode(self.sizes, value)

    def wrap_int(self, number: int) -> SizeNode:
        return self._new(Index.of(number))

    def wrap_float(self, number: float) -> SizeNode:
        return self._new(float(number))

    def wrap_bool(self, answer: bool) -> SizeNode:
        return self._new(bool(answer))

    def _float(self, op: Callable[..., float], *others: SizeNode) -> SizeNode:
        args = (self.value, *(other.value for other in others))
        if all(isinstance(arg, float) for arg in args):
            return self._new(op(*args))
        return self._new(Float(op, args))  # type: ignore[arg-type]

    def sym_float(self) -> SizeNode:
        return self if self.is_float() else self._float(torch.sym_float)

    def sym_int(self) -> SizeNode:
        return self.trunc()

    def sqrt(self) -> SizeNode:
        return self._float(math.sqrt)

    sym_sqrt = _sym_sqrt = sqrt

    def _rounded(self, op: Callable[[Any], Any]) -> SizeNode:
        value = self.value
        if isinstance(value, Index):
            return self
        return self._new(Index.of(op(self.sizes.specialize(value))))  # type: ignore[arg-type]

    def floor(self) -> SizeNode:
        return self._rounded(math.floor)

    def ceil(self) -> SizeNode:
        return self._rounded(math.ceil)

    def trunc(self) -> SizeNode:
        return self._rounded(math.trunc)

    def round(self, ndigits: int | None = None) -> SizeNode:
        if ndigits is None:
            return self._rounded(builtins.round)
        return self.wrap_float(builtins.round(self.guard_float(), ndigits))

    def is_integer(self) -> SizeNode:
        return self.wrap_bool(self.is_int() or self.guard_float().is_integer())

    def pos(self) -> SizeNode:
        return self

    def neg(self) -> SizeNode:
        return self._new(-self.index) if self.is_int() else self._float(operator.neg)

    def abs(self) -> SizeNode:
        if self.is_float():
            return self._float(builtins.abs)
        return self if self._compare("<=", self._new(Index.of(0)), self).guard_bool() else self.neg()

    def _arithmetic(self, op: Callable[[Any, Any], Any], other: SizeNode) -> SizeNode:
        if self.is_int() and other.is_int():
            return self._new(op(self.index, other.index))
        return self._float(op, other)

    def add(self, other: SizeNode) -> SizeNode:
        return self._arithmetic(operator.add, other)

    def sub(self, other: SizeNode) -> SizeNode:
        return self._arithmetic(operator.sub, other)

    def mul(self, other: SizeNode) -> SizeNode:
        return self._arithmetic(operator.mul, other)

    def _divided(self, op: Callable[[Any, Any], Any], other: SizeNode) -> SizeNode:
        """Index expressions divide by positive numbers only."""
        if not (self.is_int() and other.is_int()):
            return self._float(op, other)
        if self._compare("<", self._new(Index.of(0)), other).guard_bool():
            return self._new(op(self.index, other.index))
        return self.wrap_int(op(self.guard_int(), other.guard_int()))

    def floordiv(self, other: SizeNode) -> SizeNode:
        return self._divided(operator.floordiv, other)

    int_floordiv = floordiv

    def mod(self, other: SizeNode) -> SizeNode:
        return self._divided(operator.mod, other)

    def truediv(self, other: SizeNode) -> SizeNode:
        return self._float(operator.truediv, other)

    int_truediv = float_truediv = truediv

    def pow(self, other: SizeNode) -> SizeNode:
        if not (self.is_int() and other.is_int()):
            return self._float(operator.pow, other)
        exponent, result = other.guard_int(), Index.of(1)
        if exponent < 0:
            return self._float(operator.pow, self.wrap_float(exponent))
        for _ in range(exponent):
            result = result * self.index
        return self._new(result)

    pow_by_natural = float_pow = pow

    def _extreme(self, op: builtins.str, other: SizeNode) -> SizeNode:
        if self.is_int() and other.is_int():
            for small, large in ((self, other), (other, self)):
                if self.sizes.certain(Condition("<=", small.index, large.index)):
                    return large if op == "max" else small
            return self._new(apply(op, self.index, other.index))
        return self._float(max if op == "max" else min, other)

    def sym_max(self, other: SizeNode) -> SizeNode:
        return self._extreme("max", other)

    def sym_min(self, other: SizeNode) -> SizeNode:
        return self._extreme("min", other)

    def sym_sum(self, args: Sequence[SizeNode]) -> SizeNode:
        return self._new(sum((arg.index for arg in args), Index.of(0)))

    # --- comparison and logic ------------------------------------------------------------------------------------

    def _compare(self, op: builtins.str, left: SizeNode, right: SizeNode) -> SizeNode:
        a, b = _as_integer(left.value), _as_integer(right.value)
        if isinstance(a, Index) and isinstance(b, Index):
            return self._new(Condition(op, a, b))
        return self._new(_COMPARE[op](self.sizes.specialize(a), self.sizes.specialize(b)))  # type: ignore[arg-type]

    def eq(self, other: SizeNode) -> SizeNode:
        return self._compare("==", self, other)

    def ne(self, other: SizeNode) -> SizeNode:
        return self._compare("!=", self, other)

    def lt(self, other: SizeNode) -> SizeNode:
        return self._compare("<", self, other)

    def le(self, other: SizeNode) -> SizeNode:
        return self._compare("<=", self, other)

    def gt(self, other: SizeNode) -> SizeNode:
        return self._compare("<", other, self)

    def ge(self, other: SizeNode) -> SizeNode:
        return self._compare("<=", other, self)

    def sym_not(self) -> SizeNode:
        value = self.value
        return self._new(value.negated() if isinstance(value, Condition) else not value)

    def and_(self, other: SizeNode) -> SizeNode:
        return other if self.guard_bool() else self

    def or_(self, other: SizeNode) -> SizeNode:
        return self if self.guard_bool() else other

    sym_and = bitwise_and = and_
    sym_or = bitwise_or = or_

    def sym_ite(self, then: SizeNode, other: SizeNode) -> SizeNode:
        return then if self.guard_bool() else other

    # --- layouts: asked by tensors with symbolic sizes -----------------------------------------------------------

    def _dense(self, sizes: Sequence[SizeNode], strides: Sequence[SizeNode], order: Sequence[int]) -> SizeNode:
        """Do the dimensions, innermost first in `order`, fill memory without gaps?"""
        expected = Index.of(1)
        for dim in order:
            if sizes[dim].index == 1:
                continue
            if not self.sizes.holds(Condition("==", strides[dim].index, expected)):
                return self.wrap_bool(False)
            expected = expected * sizes[dim].index
        return self.wrap_bool(True)

    def is_contiguous(self, sizes: Sequence[SizeNode], strides: Sequence[SizeNode]) -> SizeNode:
        return self._dense(sizes, strides, range(len(sizes) - 1, -1, -1))

    def is_channels_last_contiguous_2d(self, sizes: Sequence[SizeNode], strides: Sequence[SizeNode]) -> SizeNode:
        return self._dense(sizes, strides, (1, 3, 2, 0)) if len(sizes) == 4 else self.wrap_bool(False)

    def is_channels_last_contiguous_3d(self, sizes: Sequence[SizeNode], strides: Sequence[SizeNode]) -> SizeNode:
        return self._dense(sizes, strides, (1, 4, 3, 2, 0)) if len(sizes) == 5 else self.wrap_bool(False)

    def _ordered(self, strides: Sequence[SizeNode], rank: int, order: Sequence[int]) -> SizeNode:
        steps = [self.sizes.value(stride.value) for stride in strides]
        ordered = len(steps) == rank and all(steps[a] < steps[b] for a, b in zip(order, order[1:], strict=False))
        return self.wrap_bool(ordered)

    def is_channels_last_strides_2d(self, sizes: Sequence[SizeNode], strides: Sequence[SizeNode]) -> SizeNode:
        return self._ordered(strides, 4, (1, 3, 2, 0))

    def is_channels_last_strides_3d(self, sizes: Sequence[SizeNode], strides: Sequence[SizeNode]) -> SizeNode:
        return self._ordered(strides, 5, (1, 4, 3, 2, 0))

    def is_non_overlapping_and_dense(self, sizes: Sequence[SizeNode], strides: Sequence[SizeNode]) -> SizeNode:
        steps = [self.sizes.value(stride.value) for stride in strides]
        return self._dense(sizes, strides, sorted(range(len(steps)), key=lambda dim: (steps[dim], -dim)))

    def is_non_overlapping_and_dense_indicator(
        self, sizes: Sequence[SizeNode], strides: Sequence[SizeNode]
    ) -> SizeNode:
        return self.wrap_int(int(self.is_non_overlapping_and_dense(sizes, strides).guard_bool()))


def _as_integer(value: Expression) -> Expression:
    """Comparing converted integers is comparing the integers."""
    match value:
        case Float(op, (Index() as index,)) if op is torch.sym_float:
            return index
        case float() if value.is_integer():
            return Index.of(int(value))
    return value


@dataclass(frozen=True, slots=True)
class Opaque:
    """What torch's Python operators see as the expression of a size: something that is not a number."""

    text: str
    is_number: ClassVar[bool] = False
    is_Boolean: ClassVar[bool] = False
    free_symbols: ClassVar[frozenset[Any]] = frozenset()
