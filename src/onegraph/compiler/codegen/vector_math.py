"""Elementary functions of f32 as straight-line vector code, with errors of about one unit in the last place.

Coefficients are minimax fits on the stated intervals. Special values (NaN, infinities, -0.0, denormals, overflow) come
out as in eager; no function sets flags that would let LLVM assume their absence. Every polynomial uses fused
multiply-add.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from onegraph.compiler.codegen.emitter import Emitter, Val
from onegraph.ir.types import BOOL, F32, I32

LN2_HIGH, LN2_LOW = 0.693359375, -2.12194440e-4
ROUND = 12582912.0  # 1.5 * 2**23: adding it rounds to an integer, which then stands in the low bits
ROUND_BITS = 0x4B400000


class Writer:
    """Shorthands for f32 arithmetic of one width."""

    def __init__(self, e: Emitter, lanes: int) -> None:
        self.e = e
        self.lanes = lanes

    def f(self, value: float) -> Val:
        return self.e.constant(value, F32, self.lanes)

    def i(self, value: int) -> Val:
        return self.e.constant(value, I32, self.lanes)

    def fma(self, a: Val, b: Val, c: Val) -> Val:
        return self.e.call("fma", a, b, c)

    def add(self, a: Val, b: Val) -> Val:
        return self.e.inst("fadd", a, b)

    def sub(self, a: Val, b: Val) -> Val:
        return self.e.inst("fsub", a, b)

    def mul(self, a: Val, b: Val) -> Val:
        return self.e.inst("fmul", a, b)

    def div(self, a: Val, b: Val) -> Val:
        return self.e.inst("fdiv", a, b)

    def compare(self, how: str, a: Val, b: Val) -> Val:
        return self.e.inst(f"fcmp {how}", a, b, dtype=BOOL)

    def polynomial(self, x: Val, coefficients: Sequence[float]) -> Val:
        """Horner's scheme, the highest power first."""
        result = self.f(coefficients[0])
        for coefficient in coefficients[1:]:
            result = self.fma(result, x, self.f(coefficient))
        return result

    def bits(self, x: Val) -> Val:
        return self.e.convert("bitcast", x, I32)

    def from_bits(self, x: Val) -> Val:
        return self.e.convert("bitcast", x, F32)

    def absolute(self, x: Val) -> Val:
        return self.e.call("fabs", x)

    def copysign(self, x: Val, sign: Val) -> Val:
        return self.e.call("copysign", x, sign)

    def clamp(self, x: Val, low: float, high: float) -> Val:
        """Into the interval; NaN stays."""
        x = self.e.select(self.compare("olt", x, self.f(low)), self.f(low), x)
        return self.e.select(self.compare("ogt", x, self.f(high)), self.f(high), x)

    def power_of_two(self, n: Val) -> Val:
        """2**n for an integer n of -126 .. 127."""
        return self.from_bits(self.e.inst("shl", self.e.inst("add", n, self.i(127)), self.i(23)))

    def scaled(self, x: Val, n: Val) -> Val:
        """x * 2**n in two steps, so that overflow and denormals come out right."""
        half = self.e.inst("ashr", n, self.i(1))
        return self.mul(self.mul(x, self.power_of_two(half)), self.power_of_two(self.e.inst("sub", n, half)))


_EXP = (1.9875691500e-4, 1.3981999507e-3, 8.3334519073e-3, 4.1665795894e-2, 1.6666665459e-1, 5.0000001201e-1)


def _exp_parts(w: Writer, x: Val) -> tuple[Val, Val]:
    """`n, p` with exp(x) = 2**n * (1 + p), |p| at most about 0.42."""
    shifted = w.fma(x, w.f(math.log2(math.e)), w.f(ROUND))
    n = w.e.inst("sub", w.bits(shifted), w.i(ROUND_BITS))
    whole = w.sub(shifted, w.f(ROUND))
    r = w.fma(whole, w.f(-LN2_HIGH), x)
    r = w.fma(whole, w.f(-LN2_LOW), r)
    return n, w.fma(w.polynomial(r, _EXP), w.mul(r, r), r)


def exp(e: Emitter, x: Val) -> Val:
    w = Writer(e, x.lanes)
    n, p = _exp_parts(w, w.clamp(x, -104.0, 89.0))
    return w.scaled(w.add(p, w.f(1.0)), n)


_EXP2 = (1.535336188319500e-4, 1.339887440266574e-3, 9.618437357674640e-3, 5.550332471162809e-2)
_EXP2 = (*_EXP2, 2.402264791363012e-1, 6.931472028550421e-1)


def exp2(e: Emitter, x: Val) -> Val:
    w = Writer(e, x.lanes)
    x = w.clamp(x, -151.0, 129.0)
    shifted = w.add(x, w.f(ROUND))
    n = e.inst("sub", w.bits(shifted), w.i(ROUND_BITS))
    r = w.sub(x, w.sub(shifted, w.f(ROUND)))
    return w.scaled(w.fma(w.polynomial(r, _EXP2), r, w.f(1.0)), n)


def expm1(e: Emitter, x: Val) -> Val:
    w = Writer(e, x.lanes)
    n, p = _exp_parts(w, w.clamp(x, -30.0, 89.0))
    half = w.power_of_two(e.inst("sub", n, w.i(1)))  # 2**n itself would overflow below the largest result
    result = w.mul(w.fma(half, p, w.sub(half, w.f(0.5))), w.f(2.0))
    return e.select(w.compare("oeq", x, w.f(0.0)), x, result)


_LOG = (7.0376836292e-2, -1.1514610310e-1, 1.1676998740e-1, -1.2420140846e-1, 1.4249322787e-1, -1.6668057665e-1)
_LOG = (*_LOG, 2.0000714765e-1, -2.4999993993e-1, 3.3333331174e-1)


def _log_parts(w: Writer, x: Val) -> tuple[Val, Val, Val]:
    """`n, f, p` with log(x) = n * ln 2 + f + p for positive finite x, where f is the larger part."""
    e = w.e
    tiny = w.compare("olt", x, w.f(1.17549435e-38))
    x = e.select(tiny, w.mul(x, w.f(8388608.0)), x)
    bits = w.bits(x)
    n = e.inst("ashr", e.inst("sub", bits, w.i(0x3F3504F3)), w.i(23))  # mantissa in sqrt(1/2) .. sqrt(2)
    mantissa = w.from_bits(e.inst("sub", bits, e.inst("shl", n, w.i(23))))
    n = e.inst("sub", n, e.select(tiny, w.i(23), w.i(0)))
    f = w.sub(mantissa, w.f(1.0))
    square = w.mul(f, f)
    p = w.mul(w.mul(w.polynomial(f, _LOG), f), square)
    return e.convert("sitofp", n, F32), f, w.fma(square, w.f(-0.5), p)


def _log_special(w: Writer, x: Val, result: Val) -> Val:
    """log of 0, of negative numbers, of infinity and NaN."""
    e = w.e
    result = e.select(w.compare("oeq", x, w.f(0.0)), w.f(-math.inf), result)
    result = e.select(w.compare("ult", x, w.f(0.0)), w.f(math.nan), result)
    return e.select(w.compare("oeq", x, w.f(math.inf)), x, result)


def log(e: Emitter, x: Val) -> Val:
    w = Writer(e, x.lanes)
    n, f, p = _log_parts(w, x)
    p = w.fma(n, w.f(LN2_LOW), p)
    return _log_special(w, x, w.fma(n, w.f(LN2_HIGH), w.add(f, p)))


def log2(e: Emitter, x: Val) -> Val:
    w = Writer(e, x.lanes)
    n, f, p = _log_parts(w, x)
    # log2(e) - 1 is applied apart, which keeps the sum exact near 1.
    extra = w.f(math.log2(math.e) - 1)
    small = w.fma(f, extra, w.fma(p, extra, p))
    return _log_special(w, x, w.add(n, w.add(f, small)))


def log10(e: Emitter, x: Val) -> Val:
    w = Writer(e, x.lanes)
    n, f, p = _log_parts(w, x)
    scale = w.f(math.log10(math.e))
    low = w.fma(n, w.f(4.6050389811952137e-6), w.mul(p, scale))
    return _log_special(w, x, w.fma(n, w.f(0.3010253906), w.fma(f, scale, low)))


def log1p(e: Emitter, x: Val) -> Val:
    """log(u) of u = 1 + x, corrected by what the addition lost."""
    w = Writer(e, x.lanes)
    u = w.add(x, w.f(1.0))
    lost = w.sub(x, w.sub(u, w.f(1.0)))
    n, f, p = _log_parts(w, u)
    p = w.add(w.fma(n, w.f(LN2_LOW), p), w.div(lost, u))
    result = _log_special(w, u, w.fma(n, w.f(LN2_HIGH), w.add(f, p)))
    return e.select(w.compare("oeq", u, w.f(1.0)), x, result)


def sigmoid(e: Emitter, x: Val) -> Val:
    w = Writer(e, x.lanes)
    return w.div(w.f(1.0), w.add(exp(e, e.inst("fneg", x)), w.f(1.0)))


_TANH = (-5.70498872745e-3, 2.06390887954e-2, -5.37397155531e-2, 1.33314422036e-1, -3.33332819422e-1)


def tanh(e: Emitter, x: Val) -> Val:
    w = Writer(e, x.lanes)
    size = w.absolute(x)
    square = w.mul(x, x)
    # The product with a positive zero added would turn -0.0 into +0.0: x itself is added last.
    small = w.fma(w.mul(w.polynomial(square, _TANH), square), x, x)
    large = w.sub(w.f(1.0), w.div(w.f(2.0), w.add(exp(e, w.add(size, size)), w.f(1.0))))
    return e.select(w.compare("olt", size, w.f(0.625)), small, w.copysign(large, x))


_ERF_SMALL = (-5.96761703e-4, 4.99119423e-3, -2.67681349e-2, 1.12819925e-1, -3.76125336e-1, 1.28379166e-1)


def erf(e: Emitter, x: Val) -> Val:
    w = Writer(e, x.lanes)
    size, square = w.absolute(x), w.mul(x, x)
    small = w.fma(w.polynomial(square, _ERF_SMALL), x, x)
    r = w.fma(w.f(-1.72853470e-5), size, w.f(3.83197126e-4))
    u = w.fma(w.f(-3.88396438e-3), size, w.f(2.42546219e-2))
    r = w.fma(r, square, u)
    for coefficient in (-1.06777877e-1, -6.34846687e-1, -1.28717512e-1):
        r = w.fma(r, size, w.f(coefficient))
    large = w.sub(w.f(1.0), exp(e, w.fma(r, size, e.inst("fneg", size))))
    return e.select(w.compare("ogt", size, w.f(0.927734375)), w.copysign(large, x), small)


_SIN = (2.86567956e-6, -1.98559923e-4, 8.33338592e-3, -1.66666672e-1)
_COS = (2.44677067e-5, -1.38877297e-3, 4.16666567e-2, -5.00000000e-1)
TRIGONOMETRIC_LIMIT = 71476.0  # up to here the reduction below is exact enough


def sin_and_cos(e: Emitter, x: Val, shift: int) -> Val:
    """sin(x + shift * pi / 2) for |x| up to `TRIGONOMETRIC_LIMIT`."""
    w = Writer(e, x.lanes)
    shifted = w.fma(x, w.f(2 / math.pi), w.f(ROUND))
    quadrant = e.inst("add", e.inst("sub", w.bits(shifted), w.i(ROUND_BITS)), w.i(shift))
    whole = w.sub(shifted, w.f(ROUND))
    r = w.fma(whole, w.f(-1.57079601287841796875), x)
    r = w.fma(whole, w.f(-3.1391647326017846e-7), r)
    r = w.fma(whole, w.f(-5.390302529957765e-15), r)
    square = w.mul(r, r)
    sine = w.fma(w.mul(w.polynomial(square, _SIN), square), r, r)
    cosine = w.fma(w.polynomial(square, _COS), square, w.f(1.0))
    odd = e.inst("icmp ne", e.inst("and", quadrant, w.i(1)), w.i(0), dtype=BOOL)
    sign = e.inst("shl", e.inst("and", quadrant, w.i(2)), w.i(30))
    return w.from_bits(e.inst("xor", w.bits(e.select(odd, cosine, sine)), sign))
