"""Scalar values in lowerings: Python operators and functions that append to the kernel under construction.

The functions carry aten's names; literals mix in and take the type of their partner.
"""

from __future__ import annotations

import operator
from collections.abc import Callable

from onegraph.compiler.body import Body
from onegraph.ir.loop import Operand
from onegraph.ir.types import BOOL, F64, I64, DType


class Scalar:
    """A value of one element of a kernel. It has a type even where it is a literal."""

    __slots__ = ("body", "dtype", "operand")

    def __init__(self, body: Body, operand: Operand, dtype: DType) -> None:
        self.body = body
        self.operand = operand
        self.dtype = dtype

    def literal(self, value: float | int | bool, dtype: DType | None = None) -> Scalar:
        """A literal in the same kernel, of this type if no other is given."""
        dtype = dtype or self.dtype
        return Scalar(self.body, self.body.cast(value, dtype), dtype)

    def to(self, dtype: DType) -> Scalar:
        """Converted as torch's `.to(dtype)`."""
        return self if dtype is self.dtype else Scalar(self.body, self.body.cast(self.operand, dtype), dtype)

    def bitcast(self, dtype: DType) -> Scalar:
        operand = self.operand if isinstance(self.operand, str) else named(self).operand
        assert isinstance(operand, str)
        return Scalar(self.body, self.body.bitcast(operand, dtype), dtype)

    def __add__(self, other: Scalar | float) -> Scalar:
        return apply("add", self, other)

    def __radd__(self, other: float) -> Scalar:
        return apply("add", other, self)

    def __sub__(self, other: Scalar | float) -> Scalar:
        return apply("sub", self, other)

    def __rsub__(self, other: float) -> Scalar:
        return apply("sub", other, self)

    def __mul__(self, other: Scalar | float) -> Scalar:
        return apply("mul", self, other)

    def __rmul__(self, other: float) -> Scalar:
        return apply("mul", other, self)

    def __truediv__(self, other: Scalar | float) -> Scalar:
        return apply("div", self, other)

    def __rtruediv__(self, other: float) -> Scalar:
        return apply("div", other, self)

    def __neg__(self) -> Scalar:
        return apply("neg", self)

    def __and__(self, other: Scalar | int) -> Scalar:
        return apply("and", self, other)

    def __or__(self, other: Scalar | int) -> Scalar:
        return apply("or", self, other)

    def __xor__(self, other: Scalar | int) -> Scalar:
        return apply("xor", self, other)

    def __invert__(self) -> Scalar:
        return apply("not", self)

    def __lt__(self, other: Scalar | float) -> Scalar:
        return compare("lt", self, other)

    def __le__(self, other: Scalar | float) -> Scalar:
        return compare("le", self, other)

    def __gt__(self, other: Scalar | float) -> Scalar:
        return compare("gt", self, other)

    def __ge__(self, other: Scalar | float) -> Scalar:
        return compare("ge", self, other)

    def eq(self, other: Scalar | float) -> Scalar:
        return compare("eq", self, other)

    def ne(self, other: Scalar | float) -> Scalar:
        return compare("ne", self, other)


def named(x: Scalar) -> Scalar:
    """The value under a name, also where it is a literal."""
    if isinstance(x.operand, str):
        return x
    return Scalar(x.body, x.body.constant(x.dtype, x.operand), x.dtype)


def _scalars(args: tuple[Scalar | float, ...]) -> list[Scalar]:
    like = next(arg for arg in args if isinstance(arg, Scalar))
    return [arg if isinstance(arg, Scalar) else like.literal(arg) for arg in args]


def apply(op: str, *args: Scalar | float) -> Scalar:
    """A scalar operation whose operands and result have one type."""
    scalars = _scalars(args)
    first = scalars[0]
    folded = _fold(op, scalars)
    if folded is not None:
        return first.literal(folded)
    return Scalar(first.body, first.body.apply(op, first.dtype, *(s.operand for s in scalars)), first.dtype)


_COMPARISONS: dict[str, Callable[..., bool]] = {
    name: getattr(operator, name) for name in ("eq", "ne", "lt", "le", "gt", "ge")
}


def compare(op: str, *args: Scalar | float) -> Scalar:
    scalars = _scalars(args)
    first = scalars[0]
    if not any(isinstance(s.operand, str) for s in scalars):
        if op in _COMPARISONS:
            return Scalar(first.body, _COMPARISONS[op](*(s.operand for s in scalars)), BOOL)
        scalars[0] = named(first)
    return Scalar(first.body, first.body.apply(op, BOOL, *(s.operand for s in scalars)), BOOL)


def where(condition: Scalar, a: Scalar | float, b: Scalar | float) -> Scalar:
    like = next((x for x in (a, b) if isinstance(x, Scalar)), None)
    if like is None:
        raise TypeError("where of two literals has no type")
    x, y = (v if isinstance(v, Scalar) else like.literal(v) for v in (a, b))
    if condition.operand is True:
        return x
    if condition.operand is False or (x.operand == y.operand and isinstance(x.operand, str)):
        return y
    body = condition.body
    return Scalar(body, body.apply("where", like.dtype, condition.operand, x.operand, y.operand), like.dtype)


def _fold(op: str, args: list[Scalar]) -> float | int | None:
    """The value of an operation on literals, for the few where Python computes exactly what a kernel would."""
    values = [arg.operand for arg in args if not isinstance(arg.operand, str)]
    if len(values) < len(args) or args[0].dtype not in (F64, I64):
        return None
    match op, values:
        case "add", [a, b]:
            return a + b
        case "sub", [a, b]:
            return a - b
        case "mul", [a, b]:
            return a * b
        case "neg", [a]:
            return -a
    return None


def _unary(op: str) -> Callable[[Scalar], Scalar]:
    def function(x: Scalar) -> Scalar:
        return apply(op, x)

    function.__name__ = function.__qualname__ = op
    return function


exp, exp2, expm1, log, log2, log10, log1p = map(_unary, "exp exp2 expm1 log log2 log10 log1p".split())
sin, cos, tan, asin, acos, atan = map(_unary, "sin cos tan asin acos atan".split())
fast_log, fast_sin, fast_cos = map(_unary, "fast_log fast_sin fast_cos".split())
sinh, cosh, tanh, asinh, acosh, atanh = map(_unary, "sinh cosh tanh asinh acosh atanh".split())
sqrt, rsqrt, reciprocal, sigmoid, erf, erfc, gelu, lgamma = map(
    _unary, "sqrt rsqrt reciprocal sigmoid erf erfc gelu lgamma".split()
)
floor, ceil, trunc, round_even, sign, absolute = map(_unary, "floor ceil trunc round sign abs".split())


def maximum(a: Scalar | float, b: Scalar | float) -> Scalar:
    return apply("maximum", a, b)


def minimum(a: Scalar | float, b: Scalar | float) -> Scalar:
    return apply("minimum", a, b)


def power(a: Scalar | float, b: Scalar | float) -> Scalar:
    return apply("pow", a, b)


def isnan(x: Scalar) -> Scalar:
    return compare("isnan", x) if x.dtype.is_float else Scalar(x.body, False, BOOL)


def isinf(x: Scalar) -> Scalar:
    return compare("isinf", x) if x.dtype.is_float else Scalar(x.body, False, BOOL)


def logical_not(x: Scalar) -> Scalar:
    return ~x.to(BOOL)
