"""What Python's operators make of symbolic numbers, as data.

`RULES` says which operations on integers are index expressions; all others, and those for which a rule gives None, are
expressions that Python computes. `kind_of` says which type they give, where that does not depend on the numbers.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from functools import reduce
from typing import Any, Protocol

import torch

from onegraph.base.dataclass import dataclass
from onegraph.ir.index import ONE, ZERO, Call, Index, greatest, least
from onegraph.torchlib.size_expression import Computed, Condition, Float, Unknown, Whole


class Facts(Protocol):
    """What is known of symbols."""

    def certain(self, condition: Condition) -> bool | None: ...
    def holds(self, condition: Condition) -> bool: ...


@dataclass(frozen=True, slots=True)
class Rule:
    """The index expression that an operation on integers is, or None; `any_sign` if it may be asked of any number."""

    index: Callable[..., Index | None]
    any_sign: bool = False


def _divided(by: Callable[[Index, Index], Index], signed: int) -> Callable[[Facts, Index, Index], Index | None]:
    """Index expressions divide by positive numbers; `signed` is the sign of the result where both are negated."""

    def rule(facts: Facts, a: Index, b: Index) -> Index | None:
        if facts.holds(Condition("<", ZERO, b)):
            return by(a, b)
        return by(-a, -b) * signed if facts.holds(Condition("<", b, ZERO)) else None

    return rule


def _power(facts: Facts, a: Index, b: Index, *modulus: Index) -> Index | None:
    known = not modulus and b.constant is not None and 0 <= b.constant <= SMALL_EXPONENT
    return reduce(operator.mul, (a,) * (b.constant or 0), ONE) if known else None


def _shifted(facts: Facts, a: Index, b: Index) -> Index | None:
    return a * (1 << b.constant) if b.constant is not None and b.constant in SHIFTS else None


def _shifted_back(facts: Facts, a: Index, b: Index) -> Index | None:
    return a // (1 << b.constant) if b.constant is not None and b.constant in SHIFTS else None


def _masked(facts: Facts, a: Index, b: Index) -> Index | None:
    """The lowest bits."""
    if a.constant is not None:
        a, b = b, a
    mask = b.constant
    return a % (mask + 1) if mask is not None and mask + 1 in POWERS else None


def _absolute(facts: Facts, a: Index) -> Index | None:
    if facts.certain(Condition("<=", ZERO, a)):
        return a
    return -a if facts.certain(Condition("<=", a, ZERO)) else None


def _extreme(of_two: Callable[[Index, Index], Index], is_max: bool) -> Callable[..., Index]:
    def rule(facts: Facts, *args: Index) -> Index:
        result = args[0]
        for other in args[1:]:
            if facts.certain(Condition("<=", result, other)):
                result = other if is_max else result
            elif facts.certain(Condition("<=", other, result)):
                result = result if is_max else other
            else:
                result = of_two(result, other)
        return result

    return rule


def _itself(facts: Facts, a: Index, *more: Index) -> Index | None:
    return None if more else a


#: The exponents up to which a power is a product.
SMALL_EXPONENT = 16
SHIFTS = range(31)
POWERS = frozenset(1 << bits for bits in SHIFTS)
RULES: dict[Callable[..., Any], Rule] = {
    operator.add: Rule(lambda facts, a, b: a + b, any_sign=True),
    operator.sub: Rule(lambda facts, a, b: a - b, any_sign=True),
    operator.mul: Rule(lambda facts, a, b: a * b, any_sign=True),
    operator.neg: Rule(lambda facts, a: -a, any_sign=True),
    operator.invert: Rule(lambda facts, a: -a - 1, any_sign=True),
    **dict.fromkeys((operator.pow, pow), Rule(_power, any_sign=True)),
    operator.lshift: Rule(_shifted, any_sign=True),
    operator.rshift: Rule(_shifted_back),
    operator.and_: Rule(_masked),
    operator.floordiv: Rule(_divided(operator.floordiv, 1)),
    operator.mod: Rule(_divided(operator.mod, -1)),
    **dict.fromkeys((abs, operator.abs), Rule(_absolute)),
    **dict.fromkeys((max, torch.sym_max), Rule(_extreme(greatest, is_max=True))),
    **dict.fromkeys((min, torch.sym_min), Rule(_extreme(least, is_max=False))),
    torch.sym_sum: Rule(lambda facts, *args: sum(args, ZERO), any_sign=True),
    **dict.fromkeys(
        (operator.pos, operator.index, int, round, math.floor, math.ceil, math.trunc, torch.sym_int),
        Rule(_itself, any_sign=True),
    ),
}

_RING = frozenset({operator.add, operator.sub, operator.mul, operator.neg, operator.pos, abs, operator.abs})
_BITS = frozenset({operator.and_, operator.or_, operator.xor, operator.invert})
_EXTREMES = frozenset({max, min})
_FLOATS = frozenset({float, torch.sym_float})
#: Taken to give floating-point numbers, where those that they are given are not known.
FLOATING = frozenset({operator.pow, operator.truediv, operator.floordiv, operator.mod, math.sqrt, max, min})
#: They give a floating-point number for any two of which the second is not zero, unless both are integers.
DIVIDING = frozenset({operator.truediv, operator.floordiv, operator.mod})


def kind_of(function: Callable[..., Any], args: tuple[Any, ...]) -> type | None:
    """The type of the result, if it is the same whatever the numbers are (but for a zero to divide by)."""
    integers = all(isinstance(arg, int | Index | Whole) for arg in args)
    floats = any(isinstance(arg, float | Float) for arg in args) and all(map(is_modest, args))
    if function in _RING or function in _BITS:
        return int if integers else float if floats and function in _RING else None
    if function in _EXTREMES:
        if all(isinstance(arg, float | Float) for arg in args):
            return float
        return int if integers and not any(isinstance(arg, bool) for arg in args) else None
    if function in DIVIDING:
        return float if floats or function is operator.truediv and all(map(is_modest, args)) else None
    return float if function in _FLOATS and all(map(is_modest, args)) else None


def is_modest(value: Any) -> bool:
    """Whether a number is a floating-point number, or as an integer certainly not too large for one."""
    match value:
        case int():
            return value.bit_length() < LARGE
        case Index():
            return bits_of(value) < LARGE
    return not isinstance(value, Whole)


def bits_of(value: Index) -> int:
    """How many bits the number has at most."""
    terms = [(abs(c) - 1).bit_length() + sum(map(_bits_of_atom, monomial)) for monomial, c in value.terms]
    return max(terms, default=0) + (len(terms) - 1).bit_length()


def _bits_of_atom(atom: Any) -> int:
    return max(bits_of(atom.a), bits_of(atom.b)) if isinstance(atom, Call) else BITS


#: Sizes and integers of the program are taken to be below 2^31.
BITS = 31
#: The bits from which on integers are too large for floating-point numbers, less many for larger sizes.
LARGE = 400


def may_raise(value: Any) -> bool:
    """Whether Python may raise an error where it computes an expression with numbers that are not known yet."""
    match value:
        case Computed(Unknown(), _):
            return False
        case Computed(op, args):
            return any(map(may_raise, args)) or (kind_of(op, args) is None and any(map(is_doubtful, args)))
    return False


def is_doubtful(value: Any) -> bool:
    match value:
        case Computed(Unknown() as unknown, _):
            return not unknown.trusted
        case Computed(_, args):
            return any(map(is_doubtful, args))
    return False


#: Functions of symbolic numbers that give symbolic numbers.
SYMBOLIC = frozenset({operator.add, operator.sub, operator.mul, operator.truediv, operator.pow, operator.neg})
SYMBOLIC |= {torch.sym_float}


def is_symbolic(value: Any) -> bool:
    """Whether the functions that an expression is computed by take symbolic numbers."""
    if isinstance(value, Whole):
        return False
    return not isinstance(value, Computed) or (value.op in SYMBOLIC and all(map(is_symbolic, value.args)))
