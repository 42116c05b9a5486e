"""Symbolic sizes: integers that stand for the size of an input, with the guards that a trace puts on them.

`torch.SymInt` takes any object that speaks the protocol of its nodes. Ours holds an index expression of `onegraph.ir`,
so that one arithmetic serves traces, guards and loops; torch's own node holds a sympy expression, whose import alone
costs more than most traces here.

Every symbolic size has the value of this trace as its hint, and is at least 2: sizes 0 and 1 stay plain numbers. A
question that the expressions do not answer is answered by the hints, and becomes a condition that guards must check.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from onegraph.ir.index import Index, Symbol, is_not_negative
from onegraph.torchlib.size_expression import COMPARE, Condition, Expression, Float, Unknown
from onegraph.torchlib.size_node import SizeNode

__all__ = ["Condition", "Float", "SizeNode", "Sizes"]


def unknown_number() -> Any:
    raise RuntimeError("a number that is not known while tracing")


class Sizes:
    """The symbolic sizes of one trace."""

    # What operators on fakes ask before they make sizes that depend on data.
    allow_scalar_outputs = False
    allow_dynamic_output_shape_ops = False

    def __init__(self) -> None:
        self.hints: dict[Symbol, int] = {}
        self.replacements: dict[Symbol, Index] = {}
        self.unknown: set[Symbol] = set()
        #: Raises what is to be raised where the value of an unknown number is asked for.
        self.refuse: Callable[[], Any] = unknown_number
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

    def new_unknown(self, name: str) -> torch.SymInt:
        """An integer of which nothing is known, not even its sign."""
        symbol = Symbol(name)
        self.unknown.add(symbol)
        return torch.SymInt(SizeNode(self, Index.of(symbol)))

    def new_unknown_float(self, name: str) -> torch.SymFloat:
        return torch.SymFloat(SizeNode(self, Float(Unknown(name), ())))

    def is_unknown(self, value: Any) -> bool:
        """Whether the number depends on one of which nothing is known."""
        match value:
            case Index():
                return bool(self.unknown) and not self.unknown.isdisjoint(value.symbols)
            case Float(op, args):
                return isinstance(op, Unknown) or any(self.is_unknown(arg) for arg in args)
            case Condition(_, left, right):
                return self.is_unknown(left) or self.is_unknown(right)
        return False

    def simplify(self, value: Index) -> Index:
        """The expression with everything that is known equal replaced."""
        return value.substitute(self.replacements) if self.replacements else value

    def value(self, expression: Expression) -> Any:
        """What the expression is in this trace."""
        if self.is_unknown(expression):
            return self.refuse()
        match expression:
            case Index():
                return expression.evaluate({symbol.name: hint for symbol, hint in self.hints.items()})
            case Float(op, args):
                return op(*(self.value(arg) for arg in args))
            case Condition(op, left, right):
                return COMPARE[op](self.value(left), self.value(right))
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
            return COMPARE[condition.op](0, difference.constant)
        if self.is_unknown(difference):
            return None
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
