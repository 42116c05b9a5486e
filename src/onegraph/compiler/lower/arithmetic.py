"""Arithmetic beyond the basic: division, powers, clamping, bits, and functions of two arguments."""

from __future__ import annotations

import math
from functools import cache
from typing import Any

import torch

from onegraph.base.constants import inf, nan, pi
from onegraph.compiler.lower import scalars as s
from onegraph.compiler.lower.arguments import number_of
from onegraph.compiler.lower.lowerer import Cell, Lowerer
from onegraph.compiler.lower.pointwise import pointwise, rounded
from onegraph.compiler.lower.promotion import promoted
from onegraph.compiler.lower.registry import FRACTIONAL, MaybeView, lower
from onegraph.compiler.lower.scalars import Scalar, apply, compare, where
from onegraph.compiler.lower.view import dim_of
from onegraph.compiler.lower.views import View
from onegraph.ir.index import Index
from onegraph.ir.types import BOOL, F16, F32, F64, DType
from onegraph.torchlib.state import unseen

aten = torch.ops.aten


# ---- division --------------------------------------------------------------------------------------------------------


def nonzero(x: Scalar) -> Scalar:
    """The divisor of an integer division: zero stops the program as it stops eager."""
    if not x.dtype.is_float:
        x.body.check(x.ne(0).operand, "RuntimeError", "ZeroDivisionError")
    return x


@pointwise(aten.div.Tensor_mode, aten.div.Scalar_mode)
def div_mode(x: Scalar, y: Scalar, *, rounding_mode: str | None) -> Scalar:
    if rounding_mode is None:
        return x / y
    if rounding_mode == "floor":
        return apply("floor_div", x, nonzero(y))
    return s.trunc(x / y) if x.dtype.is_float else apply("trunc_div", x, nonzero(y))


@pointwise(aten.floor_divide.default, aten.floor_divide.Scalar)
def floor_divide(x: Scalar, y: Scalar) -> Scalar:
    return apply("floor_div", x, nonzero(y))


@pointwise(aten.remainder.Tensor, aten.remainder.Scalar, aten.remainder.Scalar_Tensor, exact=False)
def remainder(x: Scalar, y: Scalar) -> Scalar:
    return apply("remainder", x, nonzero(y))


@pointwise(aten.fmod.Tensor, aten.fmod.Scalar, exact=False)
def fmod(x: Scalar, y: Scalar) -> Scalar:
    return apply("fmod", x, nonzero(y))


# ---- powers ----------------------------------------------------------------------------------------------------------


@lower(aten.pow.Tensor_Scalar)
def pow_scalar(g: Lowerer, x: View, exponent: Any) -> MaybeView:
    """A known exponent: products, roots and reciprocals where eager uses them. (In float16 it uses no roots.)"""
    value = exponent.constant if isinstance(exponent, Index) else exponent
    result = g.result
    if not isinstance(value, int | float) or (isinstance(value, float) and not math.isfinite(value)):
        return NotImplemented
    dtype = result.dtype.compute
    if dtype.is_integer and not (float(value).is_integer() and 0 <= value <= 64):
        return NotImplemented
    if dtype is BOOL:
        return NotImplemented
    exponent = rounded(value, result.dtype)
    compute = s.power if result.dtype is F16 and abs(exponent) == 0.5 else powered
    return g.pointwise(result.shape, result.dtype, lambda cell: compute(cell.load(x).to(dtype), exponent))


def powered(x: Scalar, exponent: float) -> Scalar:
    match exponent:
        case 0:
            return x.literal(1)
        case 0.5:
            return s.sqrt(x)
        case -0.5:
            return s.rsqrt(x)
        case -1:
            return s.reciprocal(x)
        case -2:
            return s.reciprocal(x * x)
        case 1 | 2 | 3:
            return product_of(x, int(exponent))
    return s.power(x, exponent) if x.dtype.is_float else product_of(x, int(exponent))


def product_of(x: Scalar, count: int) -> Scalar:
    """x to a positive integer, by squaring."""
    if count == 1:
        return x
    half = product_of(x, count // 2)
    return half * half * x if count % 2 else half * half


@lower(aten.pow.Tensor_Tensor, aten.pow.Scalar)
def pow_tensor(g: Lowerer, x: Any, y: View) -> MaybeView:
    result = g.result
    if not result.dtype.is_float:
        return NotImplemented

    def compute(cell: Cell) -> Scalar:
        base = (
            cell.load(x).to(result.dtype.compute)
            if isinstance(x, View)
            else cell.literal(float(number_of(x)), result.dtype.compute)
        )
        return s.power(base, cell.load(y).to(result.dtype.compute))

    if not isinstance(x, View) and (isinstance(x, complex) or (isinstance(x, Index) and x.constant is None)):
        return NotImplemented
    return g.pointwise(result.shape, result.dtype, compute)


@pointwise(aten.square.default)
def square(x: Scalar) -> Scalar:
    return x * x


# ---- hyperbolic functions --------------------------------------------------------------------------------------------

#: Where exp is about to be infinite. Half of it is not yet, but vectors of the library's are.
LARGE = {F32: 88.0, F64: 709.0}


@pointwise(aten.cosh.default)
def cosh(x: Scalar) -> Scalar:
    return where(s.absolute(x) > LARGE[x.dtype], half_of_exp(s.absolute(x)), s.cosh(x))


@pointwise(aten.sinh.default)
def sinh(x: Scalar) -> Scalar:
    far = half_of_exp(s.absolute(x))
    return where(s.absolute(x) > LARGE[x.dtype], where(x < 0, -far, far), s.sinh(x))


def half_of_exp(x: Scalar) -> Scalar:
    root = s.exp(x * 0.5)
    return root * 0.5 * root


# ---- bounds ----------------------------------------------------------------------------------------------------------


# Of 0.0 and -0.0 eager takes the input where the bound is a number, and the bound where that is a tensor.


@pointwise(aten.clamp.default, bounds=True)
def clamp(x: Scalar, min: Scalar | None = None, max: Scalar | None = None) -> Scalar:
    above = s.maximum(min, x) if min is not None else x
    bounded = s.minimum(max, above) if max is not None else above
    alone = max if min is None else min if max is None else None
    if alone is None or not alone.dtype.is_float or not ignores_a_nan_alone():
        return bounded
    return where(s.isnan(alone), x, bounded)


@cache
def ignores_a_nan_alone() -> bool:
    """Whether a single bound that is not a number bounds nothing: so it is in torch 2.11."""
    with unseen():
        return not bool(torch.ones(1, device="cpu").clamp(min=nan).isnan())


@pointwise(aten.clamp.Tensor)
def clamp_to_tensors(x: Scalar, min: Scalar | None = None, max: Scalar | None = None) -> Scalar:
    x = s.maximum(x, min) if min is not None else x
    return s.minimum(x, max) if max is not None else x


@pointwise(aten.clamp_min.default, bounds=True)
def clamp_min(x: Scalar, bound: Scalar) -> Scalar:
    return s.maximum(bound, x)


@pointwise(aten.clamp_max.default, bounds=True)
def clamp_max(x: Scalar, bound: Scalar) -> Scalar:
    return s.minimum(bound, x)


@pointwise(aten.clamp_min.Tensor)
def clamp_min_to_tensor(x: Scalar, bound: Scalar) -> Scalar:
    return s.maximum(x, bound)


@pointwise(aten.clamp_max.Tensor)
def clamp_max_to_tensor(x: Scalar, bound: Scalar) -> Scalar:
    return s.minimum(x, bound)


@pointwise(aten.fmax.default)
def fmax(x: Scalar, y: Scalar) -> Scalar:
    if not x.dtype.is_float:
        return s.maximum(x, y)
    return where(s.isnan(y) | (x >= y), x, y)


@pointwise(aten.fmin.default)
def fmin(x: Scalar, y: Scalar) -> Scalar:
    if not x.dtype.is_float:
        return s.minimum(x, y)
    return where(s.isnan(y) | (x <= y), x, y)


@lower(aten.nan_to_num.default)
def nan_to_num(g: Lowerer, x: View, nan: Any = None, posinf: Any = None, neginf: Any = None) -> Any:
    result = g.result
    if not result.dtype.is_float:
        return g.pointwise(x.shape, result.dtype, lambda cell: cell.load(x))
    limits = torch.finfo(getattr(torch, result.dtype.torch_name))
    high = limits.max if posinf is None else posinf
    low = limits.min if neginf is None else neginf

    def compute(cell: Cell) -> Scalar:
        value = cell.load(x).to(result.dtype.compute)
        value = where(s.isnan(value), float(nan or 0.0), value)
        return where(value.eq(inf), float(high), where(value.eq(-inf), float(low), value))

    return g.pointwise(x.shape, result.dtype, compute)


# ---- combinations ----------------------------------------------------------------------------------------------------


@pointwise(aten.addcmul.default)
def addcmul(x: Scalar, a: Scalar, b: Scalar, *, value: Any = 1) -> Scalar:
    return x + (a * b if _is_one(value) else a * value * b)


@pointwise(aten.addcdiv.default)
def addcdiv(x: Scalar, a: Scalar, b: Scalar, *, value: Any = 1) -> Scalar:
    return x + (a / b if _is_one(value) else a * value / b)


def _is_one(value: Any) -> bool:
    return (value.operand if isinstance(value, Scalar) else value) == 1


@pointwise(aten.lerp.Scalar, aten.lerp.Tensor)
def lerp(x: Scalar, y: Scalar, weight: Scalar) -> Scalar:
    difference = y - x
    size = s.absolute(weight) if isinstance(weight.operand, str) else weight.literal(abs(weight.operand))
    return where(size < 0.5, x + weight * difference, y - difference * (1 - weight))


@pointwise(aten.atan2.default)
def atan2(y: Scalar, x: Scalar) -> Scalar:
    return apply("atan2", y, x)


@pointwise(aten.hypot.default)
def hypot(x: Scalar, y: Scalar) -> Scalar:
    return apply("hypot", x, y)


@pointwise(aten.copysign.Tensor, aten.copysign.Scalar)
def copysign(x: Scalar, y: Scalar) -> Scalar:
    return apply("copysign", x, y)


@lower(aten.nextafter.default)
def nextafter(g: Lowerer, x: View, y: View) -> MaybeView:
    """In the type itself: kernels compute 16-bit floats in f32, where the next number is another."""
    result = g.result
    if result.dtype.compute is not result.dtype:
        return NotImplemented
    return g.pointwise(result.shape, result.dtype, lambda cell: apply("nextafter", cell.load(x), cell.load(y)))


@pointwise(aten.xlogy.Tensor, aten.xlogy.Scalar_Self, aten.xlogy.Scalar_Other, exact=False)
def xlogy(x: Scalar, y: Scalar) -> Scalar:
    return where(s.isnan(y), nan, where(x.eq(0), 0, x * s.log(y)))


@pointwise(aten.special_xlog1py.default, aten.special_xlog1py.self_scalar, aten.special_xlog1py.other_scalar)
def xlog1py(x: Scalar, y: Scalar) -> Scalar:
    return where(s.isnan(y), nan, where(x.eq(0), 0, x * s.log1p(y)))


@pointwise(aten.logaddexp.default)
def logaddexp(x: Scalar, y: Scalar) -> Scalar:
    same_infinity = s.isinf(x) & x.eq(y)
    return where(same_infinity, x, s.maximum(x, y) + s.log1p(s.exp(-s.absolute(x - y))))


@pointwise(aten.logaddexp2.default)
def logaddexp2(x: Scalar, y: Scalar) -> Scalar:
    same_infinity = s.isinf(x) & x.eq(y)
    sum_of_logs = s.log1p(s.exp2(-s.absolute(x - y))) * (1 / math.log(2))
    return where(same_infinity, x, s.maximum(x, y) + sum_of_logs)


# ---- functions of one argument ---------------------------------------------------------------------------------------


@pointwise(aten.frac.default)
def frac(x: Scalar) -> Scalar:
    return x - s.trunc(x)


@pointwise(aten.sinc.default)
def sinc(x: Scalar) -> Scalar:
    scaled = x * pi
    return where(x.eq(0), 1, s.sin(scaled) / scaled)


@lower(aten.addr.default)
def addr(g: Lowerer, x: View, a: View, b: View, *, beta: Any = 1, alpha: Any = 1) -> MaybeView:
    """x + a * b, for every pair of elements."""
    result = g.result
    factors = [v.constant if isinstance(v, Index) else v for v in (beta, alpha)]
    if factors != [1, 1] or result.dtype is BOOL:
        return NotImplemented
    dtype = result.dtype.compute

    def compute(cell: Cell) -> Scalar:
        row, column = cell.position
        return cell.load(x).to(dtype) + cell.load(a, (row,)).to(dtype) * cell.load(b, (column,)).to(dtype)

    return g.pointwise(result.shape, result.dtype, compute)


@lower(aten.linalg_cross.default)
def linalg_cross(g: Lowerer, x: View, y: View, *, dim: Any = -1) -> View:
    result = g.result
    d = dim_of(dim, len(result.shape))
    left, right = x.expanded(result.shape), y.expanded(result.shape)

    def compute(cell: Cell) -> Scalar:
        def turned(view: View, by: int) -> Scalar:
            p = list(cell.position)
            p[d] = (p[d] + by) % 3
            return cell.load(view, p).to(result.dtype.compute)

        return turned(left, 1) * turned(right, 2) - turned(left, 2) * turned(right, 1)

    return g.pointwise(result.shape, result.dtype, compute)


@pointwise(aten.deg2rad.default)
def deg2rad(x: Scalar) -> Scalar:
    return x * (pi / 180)


@pointwise(aten.rad2deg.default)
def rad2deg(x: Scalar) -> Scalar:
    return x * (180 / pi)


@lower(aten.logit.default)
def logit(g: Lowerer, x: View, eps: Any = None) -> View:
    result = g.result

    def compute(cell: Cell) -> Scalar:
        value = cell.load(x).to(result.dtype.compute)
        if eps is not None:
            low = float(number_of(eps))
            value = where(value < low, low, where(value > 1 - low, 1 - low, value))
        return s.log(value / (1 - value))

    return g.pointwise(result.shape, result.dtype, compute)


@pointwise(aten.heaviside.default)
def heaviside(x: Scalar, at_zero: Scalar) -> Scalar:
    return where(x.eq(0), at_zero, (x > 0).to(x.dtype))


@pointwise(aten.special_entr.default)
def entr(x: Scalar) -> Scalar:
    positive = where(x > 0, -x * s.log(x), where(x.eq(0), x.literal(0), -inf))
    return where(s.isnan(x), x, positive)


@pointwise(aten.isposinf.default, types="own")
def isposinf(x: Scalar) -> Scalar:
    return s.isinf(x) & (x > 0) if x.dtype.is_float else s.isinf(x)


@pointwise(aten.isneginf.default, types="own")
def isneginf(x: Scalar) -> Scalar:
    return s.isinf(x) & (x < 0) if x.dtype.is_float else s.isinf(x)


@pointwise(aten.signbit.default, types="own")
def signbit(x: Scalar) -> Scalar:
    return compare("signbit", x.to(x.dtype.compute)) if x.dtype is not BOOL else Scalar(x.body, False, BOOL)


@pointwise(aten.angle.default)
def angle(x: Scalar) -> Scalar:
    return where(s.isnan(x), x, where(x < 0, x.literal(pi), 0))


# ---- bits ------------------------------------------------------------------------------------------------------------


@pointwise(aten.bitwise_not.default)
def bitwise_not(x: Scalar) -> Scalar:
    return ~x


@pointwise(aten.bitwise_and.Tensor, aten.bitwise_and.Scalar, aten.bitwise_and.Scalar_Tensor)
def bitwise_and(x: Scalar, y: Scalar) -> Scalar:
    return x & y


@pointwise(aten.bitwise_or.Tensor, aten.bitwise_or.Scalar, aten.bitwise_or.Scalar_Tensor)
def bitwise_or(x: Scalar, y: Scalar) -> Scalar:
    return x | y


@pointwise(aten.bitwise_xor.Tensor, aten.bitwise_xor.Scalar, aten.bitwise_xor.Scalar_Tensor)
def bitwise_xor(x: Scalar, y: Scalar) -> Scalar:
    return x ^ y


def _shift(op: str) -> Any:
    def shifted(x: Scalar, by: Scalar) -> Scalar:
        """A negative count moves everything out, as a large one does."""
        bits = x.dtype.bits
        last = apply("shr", x, bits - 1) if op == "shr" and x.dtype.kind == "int" else x.literal(0)
        if not isinstance(by.operand, str):
            return apply(op, x, by) if 0 <= by.operand < bits else last
        outside = (by < 0) | (by >= bits)
        return where(outside, last, apply(op, x, where(outside, 0, by)))

    return shifted


_LEFT = (
    aten.bitwise_left_shift.Tensor,
    aten.bitwise_left_shift.Tensor_Scalar,
    aten.__lshift__.Scalar,
    aten.__lshift__.Tensor,
)
_RIGHT = (
    aten.bitwise_right_shift.Tensor,
    aten.bitwise_right_shift.Tensor_Scalar,
    aten.__rshift__.Scalar,
    aten.__rshift__.Tensor,
)
pointwise(*_LEFT)(_shift("shl"))
pointwise(*_RIGHT)(_shift("shr"))


# ---- choice ----------------------------------------------------------------------------------------------------------


FRACTIONAL |= {aten.masked_fill.Scalar, aten.where.ScalarSelf, aten.where.ScalarOther}


@lower(aten.masked_fill.Scalar, aten.masked_fill.Tensor)
def masked_fill(g: Lowerer, x: View, mask: View, value: Any) -> MaybeView:
    result = g.result
    if isinstance(value, complex) or (isinstance(value, Index) and value.constant is None):
        return NotImplemented

    def compute(cell: Cell) -> Scalar:
        if isinstance(value, View):
            filler = cell.load(value).to(result.dtype)
        else:
            filler = cell.number(value, result.dtype)
        return where(cell.load(mask).to(BOOL), filler, cell.load(x))

    return g.pointwise(result.shape, result.dtype, compute)


@lower(aten.where.ScalarSelf, aten.where.ScalarOther, aten.where.Scalar)
def where_scalar(g: Lowerer, condition: View, a: Any, b: Any) -> MaybeView:
    result = g.result

    def operand(cell: Cell, value: Any, dtype: DType) -> Scalar:
        if isinstance(value, View):
            return cell.load(value).to(dtype)
        return cell.number(value, dtype)

    if any(isinstance(v, complex) or (isinstance(v, Index) and v.constant is None) for v in (a, b)):
        return NotImplemented
    common = promoted([a, b]) if any(isinstance(v, View) for v in (a, b)) else result.dtype
    return g.pointwise(
        result.shape,
        result.dtype,
        lambda cell: where(cell.load(condition).to(BOOL), operand(cell, a, common), operand(cell, b, common)),
    )
