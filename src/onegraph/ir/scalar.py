"""The scalar operations: one row each, with the rule for its types and its meaning on numpy arrays.

This is the only list of them. Each code generator keeps an emission keyed by the same names, and a test compares the
two, so that a new operation is added here first and the places that miss it are named.

Rules for types ("result" is the element type of the result, "operand" that of all operands unless stated otherwise):

    same      result = operand
    compare   result = bool; the operands have one type
    where     the first operand is bool; result = that of the other two
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from types import MappingProxyType
from typing import Any, Literal

import numpy as np

from onegraph.base.constants import inf, nan
from onegraph.base.dataclass import dataclass
from onegraph.ir.types import BOOL, DType

Rule = Literal["same", "compare", "where"]


@dataclass(frozen=True, slots=True)
class ScalarOp:
    """`kinds` are the kinds of operand types accepted; `cost` is roughly the time of one in units of an addition."""

    name: str
    arity: int
    rule: Rule
    kinds: frozenset[str]
    cost: float
    evaluate: Callable[..., Any]
    doc: str


ANY = frozenset({"bool", "int", "uint", "float"})
NUMBER = frozenset({"int", "uint", "float"})
FLOAT = frozenset({"float"})
INTEGER = frozenset({"int", "uint"})
UNSIGNED = frozenset({"uint"})
BITS = frozenset({"bool", "int", "uint"})

_TABLE: dict[str, ScalarOp] = {}
SCALAR_OPS = MappingProxyType(_TABLE)


def _op(
    name: str,
    arity: int,
    evaluate: Callable[..., Any],
    doc: str,
    rule: Rule = "same",
    kinds: frozenset[str] = NUMBER,
    cost: float = 1.0,
) -> None:
    _TABLE[name] = ScalarOp(name, arity, rule, kinds, cost, evaluate, doc)


def operand_dtypes(op: ScalarOp, result: DType, given: Sequence[DType | None]) -> tuple[DType, ...]:
    """The element types of the operands; `given` has None for literals, which take the type that they need."""
    known = next((dtype for dtype in given[1 if op.rule == "where" else 0 :] if dtype is not None), None)
    match op.rule:
        case "same":
            return (result,) * op.arity
        case "where":
            return (BOOL, result, result)
        case "compare":
            if known is None:
                raise TypeError(f"{op.name} of literals only")
            return (known,) * op.arity


def _elementwise(function: Callable[[float], float], undefined: float = nan) -> Callable[..., Any]:
    """A function of the math module on arrays, with a value where it is not defined."""

    def scalar(*x: float) -> float:
        try:
            return function(*x)
        except ValueError:
            return undefined
        except OverflowError:
            return inf

    return lambda *x: np.vectorize(scalar, otypes=[np.float64])(*x).astype(x[0].dtype)


def _gelu(a: float) -> float:
    return a * 0.5 * (1 + math.erf(a * math.sqrt(0.5)))


def _truncated_divide(a: Any, b: Any) -> Any:
    quotient = np.abs(a) // np.abs(b)
    return np.where((a < 0) != (b < 0), -quotient, quotient).astype(a.dtype)


def _philox(seed: Any, counter: Any, stream: Any, word: Any) -> Any:
    """Philox4x32-10 of "Parallel random numbers: as easy as 1, 2, 3" (Salmon et al., 2011)."""
    words = [each.astype(np.uint64) for each in (seed, counter, stream)]
    half, low = np.uint64(32), np.uint64(0xFFFFFFFF)
    (key, other), (a, b), (c, d) = ((each & low, each >> half) for each in words)
    for _ in range(10):
        left, right = a * np.uint64(0xD2511F53), c * np.uint64(0xCD9E8D57)
        a, b, c, d = (right >> half) ^ b ^ key, right & low, (left >> half) ^ d ^ other, left & low
        key, other = (key + np.uint64(0x9E3779B9)) & low, (other + np.uint64(0xBB67AE85)) & low
    return np.where(word == 0, a, np.where(word == 1, b, np.where(word == 2, c, d))).astype(seed.dtype)


def _divide_floor(a: Any, b: Any) -> Any:
    if a.dtype.kind != "f":
        return a // b
    quotient = np.floor_divide(a, b)
    return np.where(b == 0, a / b, quotient)


# ---- arithmetic ------------------------------------------------------------------------------------------------------
_op("add", 2, lambda a, b: a + b, "a + b")
_op("sub", 2, lambda a, b: a - b, "a - b")
_op("mul", 2, lambda a, b: a * b, "a * b")
_op("div", 2, lambda a, b: a / b, "a / b", kinds=FLOAT, cost=4)
_op("fma", 3, lambda a, b, c: (a.astype(np.longdouble) * b + c).astype(a.dtype), "a * b + c, rounded once", kinds=FLOAT)
_op("floor_div", 2, _divide_floor, "floor(a / b); b is not 0 if integer", cost=8)
_op("trunc_div", 2, _truncated_divide, "a / b towards zero; b is not 0", kinds=INTEGER, cost=8)
_op("remainder", 2, lambda a, b: np.mod(a, b), "a - b * floor(a / b); b is not 0 if integer", cost=8)
_op("fmod", 2, lambda a, b: np.fmod(a, b), "a - b * trunc(a / b); b is not 0 if integer", cost=8)
_op("pow", 2, lambda a, b: np.power(a, b), "a to the power b", kinds=NUMBER, cost=40)
_op("neg", 1, lambda a: -a, "-a")
_op("abs", 1, lambda a: np.abs(a), "|a|")
_op("sign", 1, lambda a: np.nan_to_num(np.sign(a)), "-1, 0 or 1; 0 for NaN", kinds=NUMBER, cost=2)
_op("maximum", 2, lambda a, b: np.maximum(a, b), "the larger; NaN if either is", kinds=ANY)
_op("minimum", 2, lambda a, b: np.minimum(a, b), "the smaller; NaN if either is", kinds=ANY)
_op("copysign", 2, lambda a, b: np.copysign(a, b), "|a| with the sign of b", kinds=FLOAT)
_op("nextafter", 2, lambda a, b: np.nextafter(a, b), "the next number after a towards b", kinds=FLOAT, cost=20)

# ---- rounding --------------------------------------------------------------------------------------------------------
_op("floor", 1, lambda a: np.floor(a), "round down", kinds=FLOAT)
_op("ceil", 1, lambda a: np.ceil(a), "round up", kinds=FLOAT)
_op("trunc", 1, lambda a: np.trunc(a), "round towards zero", kinds=FLOAT)
_op("round", 1, lambda a: np.rint(a), "round to nearest, ties to even", kinds=FLOAT)

# ---- comparison and choice -------------------------------------------------------------------------------------------
_op("eq", 2, lambda a, b: a == b, "a == b", "compare", ANY)
_op("ne", 2, lambda a, b: a != b, "a != b", "compare", ANY)
_op("lt", 2, lambda a, b: a < b, "a < b", "compare", ANY)
_op("le", 2, lambda a, b: a <= b, "a <= b", "compare", ANY)
_op("gt", 2, lambda a, b: a > b, "a > b", "compare", ANY)
_op("ge", 2, lambda a, b: a >= b, "a >= b", "compare", ANY)
_op("isnan", 1, lambda a: np.isnan(a), "is a NaN", "compare", FLOAT)
_op("isinf", 1, lambda a: np.isinf(a), "is an infinity", "compare", FLOAT)
_op("signbit", 1, lambda a: np.signbit(a), "the sign bit", "compare", NUMBER)
_op("where", 3, lambda c, a, b: np.where(c, a, b), "a if c else b", "where", ANY)

# ---- bits ------------------------------------------------------------------------------------------------------------
_op("and", 2, lambda a, b: a & b, "bitwise and", kinds=BITS)
_op("or", 2, lambda a, b: a | b, "bitwise or", kinds=BITS)
_op("xor", 2, lambda a, b: a ^ b, "bitwise exclusive or", kinds=BITS)
_op("not", 1, lambda a: ~a, "bitwise complement", kinds=BITS)
_op("shl", 2, lambda a, b: np.where(b >= a.dtype.itemsize * 8, 0, a << b).astype(a.dtype), "a << b", kinds=INTEGER)
_op("shr", 2, lambda a, b: a >> np.minimum(b, a.dtype.itemsize * 8 - 1), "a >> b, arithmetic", kinds=INTEGER)

_op("philox", 4, _philox, "word d of call b of stream c, by Philox with the key a", kinds=UNSIGNED, cost=60)

# ---- functions -------------------------------------------------------------------------------------------------------
_op("sqrt", 1, lambda a: np.sqrt(a), "square root", kinds=FLOAT, cost=6)
_op("rsqrt", 1, lambda a: 1 / np.sqrt(a), "1 / square root", kinds=FLOAT, cost=10)
_op("reciprocal", 1, lambda a: 1 / a, "1 / a", kinds=FLOAT, cost=4)
_op("exp", 1, lambda a: np.exp(a), "e to the power a", kinds=FLOAT, cost=16)
_op("exp2", 1, lambda a: np.exp2(a), "2 to the power a", kinds=FLOAT, cost=16)
_op("expm1", 1, lambda a: np.expm1(a), "exp(a) - 1", kinds=FLOAT, cost=24)
_op("log", 1, lambda a: np.log(a), "natural logarithm", kinds=FLOAT, cost=20)
_op("log2", 1, lambda a: np.log2(a), "logarithm to base 2", kinds=FLOAT, cost=20)
_op("log10", 1, lambda a: np.log10(a), "logarithm to base 10", kinds=FLOAT, cost=20)
_op("log1p", 1, lambda a: np.log1p(a), "log(1 + a)", kinds=FLOAT, cost=24)
_op("sin", 1, lambda a: np.sin(a), "sine", kinds=FLOAT, cost=24)
_op("cos", 1, lambda a: np.cos(a), "cosine", kinds=FLOAT, cost=24)
_op("fast_log", 1, lambda a: np.log(a), "log(a) as GPUs approximate it", kinds=FLOAT, cost=10)
_op("fast_sin", 1, lambda a: np.sin(a), "sin(a) as GPUs approximate it", kinds=FLOAT, cost=10)
_op("fast_cos", 1, lambda a: np.cos(a), "cos(a) as GPUs approximate it", kinds=FLOAT, cost=10)
_op("tan", 1, lambda a: np.tan(a), "tangent", kinds=FLOAT, cost=40)
_op("asin", 1, lambda a: np.arcsin(a), "inverse sine", kinds=FLOAT, cost=40)
_op("acos", 1, lambda a: np.arccos(a), "inverse cosine", kinds=FLOAT, cost=40)
_op("atan", 1, lambda a: np.arctan(a), "inverse tangent", kinds=FLOAT, cost=40)
_op("atan2", 2, lambda a, b: np.arctan2(a, b), "angle of the point (b, a)", kinds=FLOAT, cost=50)
_op("sinh", 1, lambda a: np.sinh(a), "hyperbolic sine", kinds=FLOAT, cost=40)
_op("cosh", 1, lambda a: np.cosh(a), "hyperbolic cosine", kinds=FLOAT, cost=40)
_op("tanh", 1, lambda a: np.tanh(a), "hyperbolic tangent", kinds=FLOAT, cost=24)
_op("asinh", 1, lambda a: np.arcsinh(a), "inverse hyperbolic sine", kinds=FLOAT, cost=40)
_op("acosh", 1, lambda a: np.arccosh(a), "inverse hyperbolic cosine", kinds=FLOAT, cost=40)
_op("atanh", 1, lambda a: np.arctanh(a), "inverse hyperbolic tangent", kinds=FLOAT, cost=40)
_op("hypot", 2, lambda a, b: np.hypot(a, b), "sqrt(a * a + b * b) without overflow", kinds=FLOAT, cost=30)
_op("sigmoid", 1, lambda a: 1 / (1 + np.exp(-a)), "1 / (1 + exp(-a))", kinds=FLOAT, cost=20)
_op("erf", 1, _elementwise(math.erf), "error function", kinds=FLOAT, cost=24)
_op("erfc", 1, _elementwise(math.erfc), "1 - erf(a)", kinds=FLOAT, cost=40)
_op("gelu", 1, _elementwise(_gelu), "a * (1 + erf(a / sqrt(2))) / 2", kinds=FLOAT, cost=20)
_op("lgamma", 1, _elementwise(math.lgamma, inf), "logarithm of |gamma(a)|", kinds=FLOAT, cost=100)


@dataclass(frozen=True, slots=True)
class Reduction:
    """How values are gathered into one. `result` is the type rule: same, bool, or i64 (a position).

    `identity` starts the accumulation: a number, or "lowest"/"highest" of the type. `positional` reductions take a
    second operand, the position (i64), and their result is the position of the value that `combine` keeps: the
    smallest such position, and that of the first NaN if there is one. Those of `products` take two factors, whose
    product is not rounded before it is combined.
    """

    name: str
    combine: str
    identity: float | str
    positional: bool = False
    products: bool = False


REDUCTIONS = MappingProxyType(
    {
        row.name: row
        for row in (
            Reduction("sum", "add", 0),
            Reduction("dot", "add", 0, products=True),
            Reduction("prod", "mul", 1),
            Reduction("max", "maximum", "lowest"),
            Reduction("min", "minimum", "highest"),
            Reduction("any", "or", 0),
            Reduction("all", "and", 1),
            Reduction("xor", "xor", 0),
            Reduction("argmax", "maximum", "lowest", positional=True),
            Reduction("argmin", "minimum", "highest", positional=True),
        )
    }
)
