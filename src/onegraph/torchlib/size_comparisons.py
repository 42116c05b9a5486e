"""What index expressions are and say of each other, for all that their symbols may be."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol

from onegraph.ir.index import ZERO, Call, Index, is_not_negative
from onegraph.torchlib.size_expression import COMPARE, Condition
from onegraph.torchlib.size_operations import bits_of


class Sizes(Protocol):
    """What is asked of the sizes of a trace."""

    def is_unknown(self, value: Any) -> bool: ...
    def value(self, expression: Any) -> Any: ...
    def holds(self, condition: Condition) -> bool: ...


def is_sound(sizes: Sizes, value: Index) -> bool:
    """Whether quotients, and the smaller or larger of two, are of numbers that are not negative; guarded.

    Index expressions take that for granted.
    """
    if sizes.is_unknown(value):
        return True
    operands = list(operands_of(value))
    return all(sizes.value(each) >= 0 for each in operands) and all(
        sizes.holds(Condition("<=", ZERO, each)) for each in operands
    )


def fits(sizes: Sizes, value: Index) -> bool:
    """Whether guards and kernels can compute the number, in 64 bits; guarded where it might be too large."""
    if bits_of(value) < 63 or sizes.is_unknown(value):
        return True
    limit = Index.of(1 << 62)
    return abs(sizes.value(value)) < 1 << 62 and all(
        sizes.holds(Condition("<=", each, limit)) for each in (value, -value)
    )


def operands_of(value: Index) -> Iterator[Index]:
    """What quotients, and the smaller or larger of two, are of, from the inside to the outside."""
    for atom in (atom for monomial, _ in value.terms for atom in monomial if isinstance(atom, Call)):
        for operand in (atom.a, atom.b):
            yield from operands_of(operand)
            if atom.op != "%":
                yield operand


def always(op: str, difference: Index) -> bool | None:
    """Whether zero is in this relation to what no symbol, none being negative, changes the sign of; None: not known."""
    if difference.constant is not None:
        return COMPARE[op](0, difference.constant)
    match op:
        case "<" if is_not_negative(difference - 1):
            return True
        case "<" if is_not_negative(-difference):
            return False
        case "<=" if is_not_negative(difference):
            return True
        case "<=" if is_not_negative(-difference - 1):
            return False
        case "==" | "!=" if is_not_negative(difference - 1) or is_not_negative(-difference - 1):
            return op == "!="
    return None
