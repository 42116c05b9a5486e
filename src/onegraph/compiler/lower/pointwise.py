"""Operators that work element by element.

One more is one decorated function on `Scalar`s, or one row of a table below:

    @pointwise(aten.silu.default)
    def silu(x):
        return x * sigmoid(x)

Tensors are broadcast to the result's shape. `types` says in which element type the function computes:

    "result"   that of the result; 16-bit floats compute in f32
    "operands" the common type of the operands (comparisons)
    "own"      operands come in their own types

Where that is wider than the common type of the operands (16-bit floats), tensors are rounded to the common type first,
as in eager. Numbers and 0-dim tensors are too, if the operator is `exact=False`; others take them as they are.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, Literal, TypeVar

import torch

from onegraph.compiler.lower import scalars as s
from onegraph.compiler.lower.arguments import Fraction, torch_dtype
from onegraph.compiler.lower.lowerer import Cell, Lowerer
from onegraph.compiler.lower.promotion import promoted
from onegraph.compiler.lower.registry import POINTWISE, lower
from onegraph.compiler.lower.scalars import Scalar
from onegraph.compiler.lower.views import View
from onegraph.ir.index import Index
from onegraph.ir.types import BOOL, F32, I64, DType, TensorType
from onegraph.torchlib.aten import OpOverload
from onegraph.torchlib.state import unseen

aten = torch.ops.aten
F = TypeVar("F", bound=Callable[..., Scalar])
Types = Literal["result", "operands", "own"]
#: Arguments that have an element type.
OPERANDS = (View, Index, float, bool, Fraction)


def pointwise(
    *ops: OpOverload, types: Types = "result", exact: bool = True, bounds: bool = False, neutral: int | None = None
) -> Callable[[F], F]:
    """Register a function on scalars as the lowering of operators that work element by element.

    Numbers that are `bounds` may be outside of a type of integers, and are then its last ones. With a `neutral` number
    as the second argument, the result is the first.
    """

    def register(function: F) -> F:
        def lowering(g: Lowerer, *args: Any, **kwargs: Any) -> View:
            result = g.result
            if neutral is not None and not kwargs and is_itself(args, neutral, result):
                return args[0]  # type: ignore[no-any-return]
            if bounds and result.dtype.is_integer and takes_any_bound():
                args = tuple(nearest(arg, result.dtype) for arg in args)
                kwargs = {name: nearest(arg, result.dtype) for name, arg in kwargs.items()}
            given = result.dtype if types == "result" else None
            if types == "operands":
                given = promoted([arg for arg in (*args, *kwargs.values()) if isinstance(arg, OPERANDS)])
            wanted = given.compute if given is not None else None

            def compute(cell: Cell) -> Scalar:
                values = [_scalar(cell, arg, wanted, given, exact) for arg in args]
                named = {name: _scalar(cell, arg, wanted, given, exact) for name, arg in kwargs.items()}
                return function(*values, **named)

            return g.pointwise(result.shape, result.dtype, compute)

        lower(*ops)(lowering)
        POINTWISE.update(ops)
        return function

    return register


def is_itself(args: tuple[Any, ...], neutral: int, result: TensorType) -> bool:
    """Whether the first of two arguments is the result, since the second one is a number that changes nothing."""
    x, number = args[0], _plain(args[1])
    is_neutral = type(number) in (int, float) and number == neutral
    return is_neutral and isinstance(x, View) and (x.shape, x.dtype) == (result.shape, result.dtype)


def _scalar(cell: Cell, arg: Any, wanted: DType | None, common: DType | None, exact: bool) -> Any:
    """An operand as a scalar: loaded, or a number; converted if a type is wanted. Other arguments stay."""
    if wanted is None or common is None:
        if isinstance(arg, Fraction):
            return cell.fraction(arg).to(F32)
        return cell.load(arg) if isinstance(arg, View) else cell.index(arg) if _is_symbolic(arg) else _plain(arg)
    if isinstance(arg, View):
        value = cell.load(arg)
        return value.to(wanted) if exact and not arg.rank else value.to(common).to(wanted)
    if _is_symbolic(arg):
        return cell.index(arg).to(wanted)
    if isinstance(arg, Fraction):
        value = cell.fraction(arg)
        return value.to(wanted) if exact else value.to(common).to(wanted)
    arg = _plain(arg)
    if isinstance(arg, bool | int | float):
        return cell.literal(arg if exact else rounded(arg, common), wanted)
    return arg


def _is_symbolic(arg: Any) -> bool:
    return isinstance(arg, Index) and arg.constant is None


def _plain(arg: Any) -> Any:
    return arg.constant if isinstance(arg, Index) else arg


@cache
def takes_any_bound() -> bool:
    """Whether a bound may be beyond a type of integers, as from torch 2.15 on: before it, those raise or wrap."""
    with unseen():
        try:
            torch.zeros(1, dtype=torch.int8, device="cpu").clamp(max=300)
        except RuntimeError:
            return False
    return True


def nearest(bound: Any, dtype: DType) -> Any:
    """The nearest number to a bound that a type of integers holds."""
    number = _plain(bound)
    if type(number) is not int:
        return bound
    largest = 2**dtype.digits - 1
    return min(max(number, -largest - 1 if dtype.kind == "int" else 0), largest)


def rounded(number: float, dtype: DType) -> float:
    """A number as a 16-bit float holds it."""
    if dtype.compute is dtype or not dtype.is_float:
        return number
    return torch.tensor(number, dtype=torch.float64).to(torch_dtype(dtype)).item()


def _table(rows: dict[Any, Callable[..., Scalar]], types: Types = "result") -> None:
    for ops, function in rows.items():
        pointwise(*(ops if isinstance(ops, tuple) else (ops,)), types=types)(function)


_table(
    {
        aten.exp.default: s.exp,
        aten.exp2.default: s.exp2,
        aten.expm1.default: s.expm1,
        aten.log.default: s.log,
        aten.log2.default: s.log2,
        aten.log10.default: s.log10,
        aten.log1p.default: s.log1p,
        aten.sin.default: s.sin,
        aten.cos.default: s.cos,
        aten.tan.default: s.tan,
        aten.asin.default: s.asin,
        aten.acos.default: s.acos,
        aten.atan.default: s.atan,
        aten.tanh.default: s.tanh,
        aten.asinh.default: s.asinh,
        aten.acosh.default: s.acosh,
        aten.atanh.default: s.atanh,
        aten.sqrt.default: s.sqrt,
        aten.rsqrt.default: s.rsqrt,
        aten.reciprocal.default: s.reciprocal,
        aten.sigmoid.default: s.sigmoid,
        aten.erf.default: s.erf,
        aten.erfc.default: s.erfc,
        aten.lgamma.default: s.lgamma,
        aten._neg_view.default: lambda x: -x,
        aten.neg.default: lambda x: -x,
        aten.maximum.default: s.maximum,
        aten.minimum.default: s.minimum,
        aten.silu.default: lambda x: x * s.sigmoid(x),
    }
)


def _or_itself(function: Callable[[Scalar], Scalar]) -> Callable[[Scalar], Scalar]:
    """Rounding: an integer is its own."""
    return lambda x: function(x) if x.dtype.is_float else x


_table(
    {
        aten.floor.default: _or_itself(s.floor),
        aten.ceil.default: _or_itself(s.ceil),
        aten.trunc.default: _or_itself(s.trunc),
        aten.round.default: _or_itself(s.round_even),
    }
)


@pointwise(aten.abs.default)
def absolute(x: Scalar) -> Scalar:
    return x if x.dtype is BOOL else s.absolute(x)


@pointwise(aten.sign.default, aten.sgn.default)
def sign(x: Scalar) -> Scalar:
    return x if x.dtype is BOOL else s.sign(x)


@pointwise(aten.add.Tensor, aten.add.Scalar, exact=False)
def add(x: Scalar, y: Scalar, alpha: Scalar | int = 1) -> Scalar:
    if x.dtype is BOOL:
        return x | (y & alpha if isinstance(alpha, Scalar) else y)
    return x + (y if _is_one(alpha) else y * alpha)


@pointwise(aten.sub.Tensor, aten.sub.Scalar, exact=False)
def sub(x: Scalar, y: Scalar, alpha: Scalar | int = 1) -> Scalar:
    return x - (y if _is_one(alpha) else y * alpha)


@pointwise(aten.rsub.Tensor, aten.rsub.Scalar, exact=False)
def rsub(x: Scalar, y: Scalar, alpha: Scalar | int = 1) -> Scalar:
    return y - (x if _is_one(alpha) else x * alpha)


def _is_one(alpha: Scalar | int) -> bool:
    return (alpha.operand if isinstance(alpha, Scalar) else alpha) == 1


@pointwise(aten.mul.Tensor, aten.mul.Scalar, neutral=1)
def mul(x: Scalar, y: Scalar) -> Scalar:
    return x & y if x.dtype is BOOL else x * y


@pointwise(aten.div.Tensor, aten.div.Scalar, neutral=1)
def div(x: Scalar, y: Scalar) -> Scalar:
    return x / y


@pointwise(aten.relu.default)
def relu(x: Scalar) -> Scalar:
    return x if x.dtype is BOOL else s.where(x < 0, 0, x)


for _name, _op in {"eq": "eq", "ne": "ne", "lt": "lt", "le": "le", "gt": "gt", "ge": "ge"}.items():
    _packet = getattr(aten, _name)

    def _comparison(x: Scalar, y: Scalar, op: str = _op) -> Scalar:
        return s.compare(op, x, y)

    pointwise(_packet.Tensor, _packet.Scalar, types="operands", exact=False)(_comparison)


@pointwise(aten.where.self, types="own")
def where(condition: Scalar, x: Scalar, y: Scalar) -> Scalar:
    common = promoted([View("", v.dtype, (), (), ()) for v in (x, y)])
    return s.where(condition.to(BOOL), x.to(common), y.to(common))


@pointwise(aten.isnan.default, types="own")
def isnan(x: Scalar) -> Scalar:
    return s.isnan(x)


@pointwise(aten.isinf.default, types="own")
def isinf(x: Scalar) -> Scalar:
    return s.isinf(x)


@pointwise(aten.logical_not.default, types="own")
def logical_not(x: Scalar) -> Scalar:
    return ~x.to(BOOL)


@pointwise(aten.logical_and.default, types="own")
def logical_and(x: Scalar, y: Scalar) -> Scalar:
    return x.to(BOOL) & y.to(BOOL)


@pointwise(aten.logical_or.default, types="own")
def logical_or(x: Scalar, y: Scalar) -> Scalar:
    return x.to(BOOL) | y.to(BOOL)


@pointwise(aten.logical_xor.default, types="own")
def logical_xor(x: Scalar, y: Scalar) -> Scalar:
    return x.to(BOOL) ^ y.to(BOOL)


@lower(aten._to_copy.default, aten.clone.default)
def to_copy(g: Lowerer, x: View, **options: Any) -> View:
    """A copy, perhaps of another type and layout."""
    result = g.result
    return g.pointwise(result.shape, result.dtype, lambda cell: cell.load(x).to(result.dtype))


__all__ = ["I64", "pointwise"]
