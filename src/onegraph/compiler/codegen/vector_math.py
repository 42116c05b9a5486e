"""Elementary functions as straight-line vector code, with errors of about one unit in the last place.

Coefficients are minimax fits on the stated intervals. Special values (NaN, infinities, -0.0, denormals, overflow) come
out as in eager; no function sets flags that would let LLVM assume their absence. Every polynomial uses fused
multiply-add.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from onegraph.base.constants import e as euler
from onegraph.base.constants import inf, nan, pi
from onegraph.base.dataclass import dataclass
from onegraph.compiler.codegen.emitter import Emitter, Val
from onegraph.ir.types import BOOL, F32, F64, I32, I64, DType


@dataclass(frozen=True, slots=True)
class Format:
    """A floating-point format and the constants of its exponential.

    `round` is 1.5 * 2**mantissa: adding it rounds to an integer, which then stands in the low bits. `low` and `high`
    bound the arguments at which exp is neither zero nor infinite. `exp` fits (e**r - 1 - r) / r**2 on |r| <= ln(2) / 2.
    """

    dtype: DType
    bits: DType
    mantissa: int
    bias: int
    round: float
    round_bits: int
    ln2_high: float
    ln2_low: float
    low: float
    high: float
    tiny: float
    exp: tuple[float, ...]


SINGLE = Format(
    F32, I32, 23, 127, 12582912.0, 0x4B400000, 0.693359375, -2.12194440e-4, -104.0, 89.0, 1.17549435e-38,
    (1.9875691500e-4, 1.3981999507e-3, 8.3334519073e-3, 4.1665795894e-2, 1.6666665459e-1, 5.0000001201e-1),
)  # fmt: skip
DOUBLE = Format(
    F64, I64, 52, 1023, 6755399441055744.0, 0x4338000000000000, 6.93147180369123816490e-01, 1.90821492927058770002e-10,
    -746.0, 710.0, 2.2250738585072014e-308,
    (2.5100472505694996e-08, 2.7620201591031547e-07, 2.7557268276905696e-06, 2.4801521057868204e-05,
     0.00019841269863171557, 0.0013888888917367081, 0.008333333333330039, 0.041666666666623824, 0.16666666666666669,
     0.5000000000000001),
)  # fmt: skip


class Writer:
    """Shorthands for arithmetic in one format and width."""

    def __init__(self, e: Emitter, x: Val) -> None:
        self.e = e
        self.lanes = x.lanes
        self.format = SINGLE if x.dtype is F32 else DOUBLE

    def f(self, value: float) -> Val:
        return self.e.constant(value, self.format.dtype, self.lanes)

    def i(self, value: int) -> Val:
        return self.e.constant(value, self.format.bits, self.lanes)

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

    def estrin(self, x: Val, coefficients: Sequence[float]) -> Val:
        """Estrin's scheme, the highest power first: pairs side by side, which is soonest where little else is to do."""
        terms = [self.f(c) for c in reversed(coefficients)]
        while len(terms) > 1:
            pairs = [self.fma(b, x, a) for a, b in zip(terms[::2], terms[1::2], strict=False)]
            terms = [*pairs, *terms[len(pairs) * 2 :]]
            x = self.mul(x, x)
        return terms[0]

    def bits(self, x: Val) -> Val:
        return self.e.convert("bitcast", x, self.format.bits)

    def from_bits(self, x: Val) -> Val:
        return self.e.convert("bitcast", x, self.format.dtype)

    def absolute(self, x: Val) -> Val:
        return self.e.call("fabs", x)

    def copysign(self, x: Val, sign: Val) -> Val:
        return self.e.call("copysign", x, sign)

    def at_most(self, x: Val, high: float) -> Val:
        """The smaller; NaN stays."""
        return self.e.select(self.compare("ogt", x, self.f(high)), self.f(high), x)

    def at_least(self, x: Val, low: float) -> Val:
        return self.e.select(self.compare("olt", x, self.f(low)), self.f(low), x)

    def rounded(self, x: Val, scale: float | None = None) -> tuple[Val, Val]:
        """The nearest integer to x (times the scale), as an integer and as a float."""
        round = self.f(self.format.round)
        shifted = self.add(x, round) if scale is None else self.fma(x, self.f(scale), round)
        number = self.e.inst("sub", self.bits(shifted), self.i(self.format.round_bits))
        return number, self.sub(shifted, round)

    def power_of_two(self, n: Val) -> Val:
        """2**n for an integer n whose result is a normal number."""
        biased = self.e.inst("add", n, self.i(self.format.bias))
        return self.from_bits(self.e.inst("shl", biased, self.i(self.format.mantissa)))

    def scaled(self, x: Val, n: Val, whole: Val) -> Val:
        """x * 2**n, with overflow and denormals as they should be; `whole` is n as a float."""
        if self.has_machine:
            name = "mask.scalef.ps.512" if self.format is SINGLE else "mask.scalef.pd.512"
            mask = "i16 -1" if self.format is SINGLE else "i8 -1"
            return self.e.machine_call(f"llvm.x86.avx512.{name}", self.chunk, (x, whole, x), f", {mask}, i32 4")
        half = self.e.inst("ashr", n, self.i(1))
        return self.mul(self.mul(x, self.power_of_two(half)), self.power_of_two(self.e.inst("sub", n, half)))

    def reciprocal(self, x: Val) -> Val:
        """1 / x for x in 1 .. 2, to half a unit in the last place and a little."""
        if not self.has_machine:
            return self.div(self.f(1.0), x)
        name = "rcp14.ps.512" if self.format is SINGLE else "rcp14.pd.512"
        mask = "i16 -1" if self.format is SINGLE else "i8 -1"
        near = self.e.machine_call(f"llvm.x86.avx512.{name}", self.chunk, (x, x), f", {mask}")
        minus = self.e.inst("fneg", x)
        for _ in range(1 if self.format is SINGLE else 3):  # Newton's steps double the 14 bits
            near = self.fma(near, self.fma(minus, near, self.f(1.0)), near)
        return near

    @property
    def chunk(self) -> int:
        """How many lanes the machine's widest register holds."""
        return 64 // self.format.dtype.size

    @property
    def has_machine(self) -> bool:
        """Whether instructions of AVX-512 may be written."""
        return self.e.instructions == "avx512f" and self.lanes % self.chunk == 0


def _exp_parts(w: Writer, x: Val) -> tuple[Val, Val, Val]:
    """`n, whole, p` with exp(x) = 2**n * (1 + p), |p| at most about 0.42, and `whole` the same as n."""
    n, whole = w.rounded(x, math.log2(euler))
    r = w.fma(whole, w.f(-w.format.ln2_high), x)
    r = w.fma(whole, w.f(-w.format.ln2_low), r)
    return n, whole, w.fma(w.polynomial(r, w.format.exp), w.mul(r, r), r)


def exp(e: Emitter, x: Val) -> Val:
    w = Writer(e, x)
    n, whole, p = _exp_parts(w, w.at_most(w.at_least(x, w.format.low), w.format.high))
    return w.scaled(w.add(p, w.f(1.0)), n, whole)


def _exp_of_negative(w: Writer, x: Val) -> Val:
    """exp(x) for x that is not positive."""
    n, whole, p = _exp_parts(w, w.at_least(x, w.format.low))
    return w.scaled(w.add(p, w.f(1.0)), n, whole)


def _exp_of_negative_coarse(w: Writer, x: Val) -> Val:
    """exp(x) for x that is not positive, where results below the smallest normal number do not matter."""
    n, _, p = _exp_parts(w, w.at_least(x, w.format.low * 0.84))
    power = w.power_of_two(n)
    return w.fma(power, p, power)


_EXP2 = (
    1.535336188319500e-4, 1.339887440266574e-3, 9.618437357674640e-3, 5.550332471162809e-2, 2.402264791363012e-1,
    6.931472028550421e-1,
)  # fmt: skip


def _exp2_coarse(w: Writer, x: Val) -> Val:
    """2**x in single precision for x in -126 .. 127: a result that is NaN may come out as anything."""
    shifted = w.add(x, w.f(w.format.round))  # whose low bits are the nearest integer
    r = w.sub(x, w.sub(shifted, w.f(w.format.round)))
    p = w.estrin(r, (*_EXP2, 1.0))
    exponent = w.e.inst("shl", w.bits(shifted), w.i(w.format.mantissa))
    return w.from_bits(w.e.inst("add", w.bits(p), exponent))


def _expm1_moderate(w: Writer, x: Val) -> Val:
    """For arguments whose result neither overflows nor rounds to -1."""
    n, _, p = _exp_parts(w, x)
    power = w.power_of_two(n)
    return w.fma(power, p, w.sub(power, w.f(1.0)))


def expm1(e: Emitter, x: Val) -> Val:
    w = Writer(e, x)
    n, _, p = _exp_parts(w, w.at_most(w.at_least(x, -40.0), w.format.high))
    half = w.power_of_two(e.inst("sub", n, w.i(1)))  # 2**n itself would overflow below the largest result
    result = w.mul(w.fma(half, p, w.sub(half, w.f(0.5))), w.f(2.0))
    return e.select(w.compare("olt", w.absolute(x), w.f(2.0 ** -(w.format.mantissa + 2))), x, result)


def exp2(e: Emitter, x: Val) -> Val:
    w = Writer(e, x)
    x = w.at_most(w.at_least(x, -151.0), 129.0)
    n, whole = w.rounded(x)
    r = w.sub(x, whole)
    return w.scaled(w.fma(w.polynomial(r, _EXP2), r, w.f(1.0)), n, whole)


_LOG = (
    7.0376836292e-2, -1.1514610310e-1, 1.1676998740e-1, -1.2420140846e-1, 1.4249322787e-1, -1.6668057665e-1,
    2.0000714765e-1, -2.4999993993e-1, 3.3333331174e-1,
)  # fmt: skip
_LOG_DOUBLE = (
    1.479819860511658591e-01, 1.531383769920937332e-01, 1.818357216161805012e-01, 2.222219843214978396e-01,
    2.857142874366239149e-01, 3.999999999940941908e-01, 6.666666666666735130e-01,
)  # fmt: skip


def _mantissa_and_exponent(w: Writer, x: Val) -> tuple[Val, Val]:
    """`m - 1, n` with x = m * 2**n and m in sqrt(1/2) .. sqrt(2), for positive finite x."""
    e, format = w.e, w.format
    tiny = w.compare("olt", x, w.f(format.tiny))
    x = e.select(tiny, w.mul(x, w.f(2.0**format.mantissa)), x)
    bits, shift = w.bits(x), w.i(format.mantissa)
    n = e.inst("ashr", e.inst("sub", bits, w.i(0x3F3504F3 if format is SINGLE else 0x3FE6A09E667F3BCD)), shift)
    mantissa = w.from_bits(e.inst("sub", bits, e.inst("shl", n, shift)))
    n = e.inst("sub", n, e.select(tiny, shift, w.i(0)))
    return w.sub(mantissa, w.f(1.0)), e.convert("sitofp", n, format.dtype)


def _log_parts(w: Writer, x: Val) -> tuple[Val, Val, Val]:
    """`n, f, p` with log(x) = n * ln 2 + f + p for positive finite x, where f is the larger part."""
    f, n = _mantissa_and_exponent(w, x)
    square = w.mul(f, f)
    if w.format is SINGLE:
        p = w.mul(w.mul(w.polynomial(f, _LOG), f), square)
        return n, f, w.fma(square, w.f(-0.5), p)
    # With s = f / (2 + f), log(1 + f) = f - (f*f/2 - s * (f*f/2 + R(s*s))).
    half = w.mul(square, w.f(0.5))
    s = w.div(f, w.add(f, w.f(2.0)))
    z = w.mul(s, s)
    rest = w.mul(z, w.polynomial(z, _LOG_DOUBLE))
    return n, f, w.sub(w.mul(s, w.add(half, rest)), half)


def _log_special(w: Writer, x: Val, result: Val) -> Val:
    """log of 0, of negative numbers, of infinity and NaN."""
    e = w.e
    result = e.select(w.compare("oeq", x, w.f(0.0)), w.f(-inf), result)
    result = e.select(w.compare("ult", x, w.f(0.0)), w.f(nan), result)
    return e.select(w.compare("oeq", x, w.f(inf)), x, result)


def log(e: Emitter, x: Val) -> Val:
    w = Writer(e, x)
    n, f, p = _log_parts(w, x)
    p = w.fma(n, w.f(w.format.ln2_low), p)
    return _log_special(w, x, w.fma(n, w.f(w.format.ln2_high), w.add(f, p)))


def log2(e: Emitter, x: Val) -> Val:
    w = Writer(e, x)
    n, f, p = _log_parts(w, x)
    # log2(e) - 1 is applied apart, which keeps the sum exact near 1.
    extra = w.f(math.log2(euler) - 1)
    small = w.fma(f, extra, w.fma(p, extra, p))
    return _log_special(w, x, w.add(n, w.add(f, small)))


def log10(e: Emitter, x: Val) -> Val:
    w = Writer(e, x)
    n, f, p = _log_parts(w, x)
    scale = w.f(math.log10(euler))
    low = w.fma(n, w.f(4.6050389811952137e-6), w.mul(p, scale))
    return _log_special(w, x, w.fma(n, w.f(0.3010253906), w.fma(f, scale, low)))


def log1p(e: Emitter, x: Val) -> Val:
    """log(u) of u = 1 + x, corrected by what the addition lost."""
    w = Writer(e, x)
    u = w.add(x, w.f(1.0))
    lost = w.sub(x, w.sub(u, w.f(1.0)))
    n, f, p = _log_parts(w, u)
    p = w.add(w.fma(n, w.f(w.format.ln2_low), p), w.div(lost, u))
    result = _log_special(w, u, w.fma(n, w.f(w.format.ln2_high), w.add(f, p)))
    return e.select(w.compare("oeq", u, w.f(1.0)), x, result)


def sigmoid(e: Emitter, x: Val) -> Val:
    """1 / (1 + t) or t / (1 + t), with t = exp(-|x|): the divisor stays in 1 .. 2."""
    w = Writer(e, x)
    t = _exp_of_negative(w, e.inst("fneg", w.absolute(x)))
    r = w.reciprocal(w.add(t, w.f(1.0)))
    return e.select(w.compare("olt", x, w.f(0.0)), w.mul(t, r), r)


_TANH = (-5.70498872745e-3, 2.06390887954e-2, -5.37397155531e-2, 1.33314422036e-1, -3.33332819422e-1)


def tanh(e: Emitter, x: Val) -> Val:
    """1 - 2t / (1 + t) with t = exp(-2|x|), near 0 a polynomial (f32); t / (t + 2) with t = exp(2|x|) - 1 (f64)."""
    w = Writer(e, x)
    size = w.absolute(x)
    if w.format is DOUBLE:
        size = w.at_most(size, 20.0)
        t = _expm1_moderate(w, w.add(size, size))
        return w.copysign(w.div(t, w.add(t, w.f(2.0))), x)
    t = _exp_of_negative_coarse(w, w.mul(size, w.f(-2.0)))
    large = w.fma(w.mul(t, w.f(-2.0)), w.reciprocal(w.add(t, w.f(1.0))), w.f(1.0))
    square = w.mul(x, x)
    small = w.fma(w.mul(w.polynomial(square, _TANH), square), x, x)
    return w.copysign(e.select(w.compare("olt", size, w.f(0.625)), small, large), x)


_ERF_SMALL = (-5.96761703e-4, 4.99119423e-3, -2.67681349e-2, 1.12819925e-1, -3.76125336e-1, 1.28379166e-1)

_ERF_LARGE = (
    -2.49374844e-5, 5.52836593e-4, -5.60337615e-3, 3.49920227e-2, -1.54047914e-1, -9.15890167e-1, -1.62839516,
)  # fmt: skip


def erf(e: Emitter, x: Val) -> Val:
    """1 - 2**(r(|x|) * |x|), near 0 a polynomial."""
    w = Writer(e, x)
    size, square = w.absolute(x), w.mul(x, x)
    small = w.fma(w.polynomial(square, _ERF_SMALL), x, x)
    bounded = w.at_most(size, 4.0)  # from here on it is 1
    large = w.sub(w.f(1.0), _exp2_coarse(w, w.mul(w.polynomial(bounded, _ERF_LARGE), bounded)))
    return e.select(w.compare("ogt", size, w.f(0.927734375)), w.copysign(large, x), small)


_GELU = (
    5.2061426e-7, -9.671523e-6, 7.5626114e-5, -2.8636845e-4, 1.8569663e-5, 6.927464e-3, -5.2432705e-2, -4.5922202e-1,
    -1.1511042,
)  # fmt: skip
_GELU_LIMIT = 5.7  # from here on the factor is 0 or 1


def gelu(e: Emitter, x: Val) -> Val:
    """x * t below 0 and x * (1 - t) above, where t = (1 - erf(|x| / sqrt 2)) / 2 is 2**(r(|x|) * |x|) / 2.

    The factor 1 - t is rounded as a number below 1, so that only the absolute error of t matters.
    """
    w = Writer(e, x)
    size, is_positive = w.absolute(x), w.compare("ogt", x, w.f(0.0))
    bounded = w.at_most(size, _GELU_LIMIT)
    exponent = w.mul(w.polynomial(bounded, _GELU), bounded)
    n, whole = w.rounded(exponent)
    r = w.sub(exponent, whole)
    half = w.power_of_two(e.inst("sub", n, w.i(1)))  # t is half * (1 + p)
    half = e.select(w.compare("ogt", size, w.f(_GELU_LIMIT)), w.f(0.0), half)
    p = w.mul(w.polynomial(r, _EXP2), r)
    factor = w.fma(w.copysign(half, e.inst("fneg", x)), p, e.select(is_positive, w.sub(w.f(1.0), half), half))
    return w.mul(x, factor)


_SIN = (2.86567956e-6, -1.98559923e-4, 8.33338592e-3, -1.66666672e-1)
_COS = (2.44677067e-5, -1.38877297e-3, 4.16666567e-2, -5.00000000e-1)
TRIGONOMETRIC_LIMIT = 71476.0  # up to here the reduction below is exact enough


def sin_and_cos(e: Emitter, x: Val, shift: int) -> Val:
    """sin(x + shift * pi / 2) for |x| up to `TRIGONOMETRIC_LIMIT`."""
    w = Writer(e, x)
    n, whole = w.rounded(x, 2 / pi)
    quadrant = e.inst("add", n, w.i(shift))
    r = w.fma(whole, w.f(-1.57079601287841796875), x)
    r = w.fma(whole, w.f(-3.1391647326017846e-7), r)
    r = w.fma(whole, w.f(-5.390302529957765e-15), r)
    square = w.mul(r, r)
    sine = w.copysign(w.fma(w.mul(w.polynomial(square, _SIN), square), r, r), r)
    cosine = w.fma(w.polynomial(square, _COS), square, w.f(1.0))
    odd = e.inst("icmp ne", e.inst("and", quadrant, w.i(1)), w.i(0), dtype=BOOL)
    sign = e.inst("shl", e.inst("and", quadrant, w.i(2)), w.i(30))
    return w.from_bits(e.inst("xor", w.bits(e.select(odd, cosine, sine)), sign))
