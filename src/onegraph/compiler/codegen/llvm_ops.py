"""How each scalar operation of `ir.scalar` is written in LLVM. A test compares the two tables."""

from __future__ import annotations

import math
from collections.abc import Callable
from types import MappingProxyType

from onegraph.base.constants import inf, nan
from onegraph.compiler.codegen import vector_math
from onegraph.compiler.codegen.casts import cast
from onegraph.compiler.codegen.emitter import Emitter, Val
from onegraph.compiler.codegen.vector_library import vector_function
from onegraph.ir.types import BOOL, F32, F64, I32, I64, U64

Emission = Callable[..., Val]
_TABLE: dict[str, Emission] = {}
LLVM_OPS = MappingProxyType(_TABLE)
_FUNCTIONS: set[str] = set()


def emits(name: str) -> Callable[[Emission], Emission]:
    def register(function: Emission) -> Emission:
        _TABLE[name] = function
        return function

    return register


# ---- arithmetic ------------------------------------------------------------------------------------------------------


def _arithmetic(name: str, floats: str, integers: str) -> None:
    def emission(e: Emitter, a: Val, b: Val) -> Val:
        return e.inst(floats if a.dtype.is_float else integers, a, b)

    _TABLE[name] = emission


_arithmetic("add", "fadd", "add")
_arithmetic("sub", "fsub", "sub")
_arithmetic("mul", "fmul", "mul")
_arithmetic("div", "fdiv", "")


@emits("fma")
def _fma(e: Emitter, a: Val, b: Val, c: Val) -> Val:
    return e.call("fma", a, b, c)


@emits("neg")
def _neg(e: Emitter, a: Val) -> Val:
    return e.inst("fneg", a) if a.dtype.is_float else e.inst("sub", e.constant(0, a.dtype, a.lanes), a)


@emits("abs")
def _abs(e: Emitter, a: Val) -> Val:
    if a.dtype.is_float:
        return e.call("fabs", a)
    return a if a.dtype.kind == "uint" else e.call("abs", a, tail=", i1 false")


@emits("sign")
def _sign(e: Emitter, a: Val) -> Val:
    zero, one = e.constant(0, a.dtype, a.lanes), e.constant(1, a.dtype, a.lanes)
    positive = e.select(LLVM_OPS["gt"](e, a, zero), one, zero)
    if a.dtype.kind == "uint":
        return positive
    return e.select(LLVM_OPS["lt"](e, a, zero), e.constant(-1, a.dtype, a.lanes), positive)


@emits("reciprocal")
def _reciprocal(e: Emitter, a: Val) -> Val:
    return e.inst("fdiv", e.constant(1.0, a.dtype, a.lanes), a)


@emits("sqrt")
def _sqrt(e: Emitter, a: Val) -> Val:
    return e.call("sqrt", a)


@emits("rsqrt")
def _rsqrt(e: Emitter, a: Val) -> Val:
    return _reciprocal(e, _sqrt(e, a))


@emits("maximum")
def _maximum(e: Emitter, a: Val, b: Val) -> Val:
    return _extreme(e, a, b, "max", "ogt", "ole")


@emits("minimum")
def _minimum(e: Emitter, a: Val, b: Val) -> Val:
    return _extreme(e, a, b, "min", "olt", "oge")


def _extreme(e: Emitter, a: Val, b: Val, name: str, first: str, second: str) -> Val:
    """NaN if either is; the second where both are equal (-0.0 and 0.0), as the machine's instruction has it."""
    if a.dtype is BOOL:
        return e.inst("or" if name == "max" else "and", a, b)
    if not a.dtype.is_float:
        return e.call(f"{'u' if a.dtype.kind == 'uint' else 's'}{name}", a, b)
    if _is_number(e, a):
        return e.select(e.inst(f"fcmp {first}", a, b, dtype=BOOL), a, b)
    chosen = e.select(e.inst(f"fcmp {second}", a, b, dtype=BOOL), b, a)
    return chosen if _is_number(e, b) else e.select(_isnan(e, b), b, chosen)


def _is_number(e: Emitter, a: Val) -> bool:
    return not a.text.startswith("%") and a.text != e.constant(nan, a.dtype, a.lanes).text


@emits("copysign")
def _copysign(e: Emitter, a: Val, b: Val) -> Val:
    return e.call("copysign", a, b)


# ---- integer division: never traps; the caller has checked for zero --------------------------------------------------


def _divide_towards_zero(e: Emitter, a: Val, b: Val) -> Val:
    a, b = e.aligned(a, b)
    if a.dtype.bits < 64 and a.dtype is not I64:
        # f64 holds every quotient exactly, and is many times faster than the machine's integer division.
        quotient = e.inst("fdiv", cast(e, a, F64), cast(e, b, F64))
        wide = e.convert("fptosi", quotient, I64 if a.dtype.bits == 32 else I32)
        return cast(e, wide, a.dtype)
    zero, one = e.constant(0, a.dtype, a.lanes), e.constant(1, a.dtype, a.lanes)
    trapping = LLVM_OPS["eq"](e, b, zero)
    if a.dtype.kind == "uint":
        return e.inst("udiv", a, e.select(trapping, one, b))
    minus = LLVM_OPS["eq"](e, b, e.constant(-1, a.dtype, a.lanes))
    quotient = e.inst("sdiv", a, e.select(e.inst("or", trapping, minus), one, b))
    return e.select(minus, e.inst("sub", zero, a), quotient)


@emits("trunc_div")
def _trunc_div(e: Emitter, a: Val, b: Val) -> Val:
    return _divide_towards_zero(e, a, b)


def _c_remainder(e: Emitter, a: Val, b: Val) -> Val:
    """a - b * trunc(a / b)"""
    if a.dtype.is_float:
        return _float_remainder(e, a, b)
    return e.inst("sub", a, e.inst("mul", _divide_towards_zero(e, a, b), b))


def _float_remainder(e: Emitter, a: Val, b: Val) -> Val:
    """Exact, like the C library's, which is asked where the quotient is large or there is none.

    The rounded quotient may be one too large but never too small, and then the remainder has the other sign.
    """
    a, b = e.aligned(a, b)
    ratio = e.inst("fdiv", a, b)
    rest = e.call("fma", e.inst("fneg", e.call("trunc", ratio)), b, a)
    back = e.inst("fadd", rest, e.call("copysign", b, a))
    fast = e.call("copysign", e.select(_signs_differ(e, rest, a), back, rest), a)
    limit = e.constant(2.0**22 if a.dtype is F32 else 2.0**51, a.dtype, a.lanes)
    large = e.inst("fcmp ugt", e.call("fabs", ratio), limit, dtype=BOOL)
    return e.rarely(e.inst("or", large, _isinf(e, b)), lambda: _library("fmod")(e, a, b), fast)


@emits("fmod")
def _fmod(e: Emitter, a: Val, b: Val) -> Val:
    return _c_remainder(e, a, b)


def _signs_differ(e: Emitter, rest: Val, b: Val) -> Val:
    """The remainder is not zero and has the other sign than the divisor."""
    zero = e.constant(0, rest.dtype, rest.lanes)
    differ = e.inst("xor", LLVM_OPS["lt"](e, rest, zero), LLVM_OPS["lt"](e, b, zero))
    return e.inst("and", differ, LLVM_OPS["ne"](e, rest, zero))


@emits("remainder")
def _remainder(e: Emitter, a: Val, b: Val) -> Val:
    rest = _c_remainder(e, a, b)
    if rest.dtype.kind == "uint":
        return rest
    return e.select(_signs_differ(e, rest, b), LLVM_OPS["add"](e, rest, b), rest)


@emits("floor_div")
def _floor_div(e: Emitter, a: Val, b: Val) -> Val:
    if a.dtype.is_float:
        return _floor_div_float(e, a, b)
    quotient = _divide_towards_zero(e, a, b)
    if a.dtype.kind == "uint":
        return quotient
    rest = e.inst("sub", a, e.inst("mul", quotient, b))
    lower = e.inst("sub", quotient, e.constant(1, a.dtype, quotient.lanes))
    return e.select(_signs_differ(e, rest, b), lower, quotient)


def _floor_div_float(e: Emitter, a: Val, b: Val) -> Val:
    """Python's, as torch has it: from the remainder, which is exact."""
    a, b = e.aligned(a, b)
    zero, one = e.constant(0.0, a.dtype, a.lanes), e.constant(1.0, a.dtype, a.lanes)
    rest = _c_remainder(e, a, b)
    ratio = e.inst("fdiv", a, b)
    quotient = e.inst("fdiv", e.inst("fsub", a, rest), b)
    quotient = e.select(_signs_differ(e, rest, b), e.inst("fsub", quotient, one), quotient)
    floored = e.call("floor", quotient)
    above = e.inst("fcmp ogt", e.inst("fsub", quotient, floored), e.constant(0.5, a.dtype, a.lanes), dtype=BOOL)
    floored = e.select(above, e.inst("fadd", floored, one), floored)
    is_zero = e.inst("fcmp oeq", quotient, zero, dtype=BOOL)
    floored = e.select(is_zero, e.call("copysign", zero, ratio), floored)
    return e.select(e.inst("fcmp oeq", b, zero, dtype=BOOL), ratio, floored)


# ---- rounding --------------------------------------------------------------------------------------------------------


def _intrinsic(name: str, function: str) -> None:
    _TABLE[name] = lambda e, a: e.call(function, a)


_intrinsic("floor", "floor")
_intrinsic("ceil", "ceil")
_intrinsic("trunc", "trunc")
_intrinsic("round", "roundeven")


# ---- comparison and choice -------------------------------------------------------------------------------------------


def _comparison(name: str, floats: str, signed: str, unsigned: str) -> None:
    def emission(e: Emitter, a: Val, b: Val) -> Val:
        if a.dtype.is_float:
            if a.dtype.size == 2:
                a, b = cast(e, a, F32), cast(e, b, F32)
            return e.inst(f"fcmp {floats}", a, b, dtype=BOOL)
        return e.inst(f"icmp {signed if a.dtype.kind == 'int' else unsigned}", a, b, dtype=BOOL)

    _TABLE[name] = emission


_comparison("eq", "oeq", "eq", "eq")
_comparison("ne", "une", "ne", "ne")
_comparison("lt", "olt", "slt", "ult")
_comparison("le", "ole", "sle", "ule")
_comparison("gt", "ogt", "sgt", "ugt")
_comparison("ge", "oge", "sge", "uge")


@emits("isnan")
def _isnan(e: Emitter, a: Val) -> Val:
    return e.inst("fcmp uno", a, a, dtype=BOOL)


@emits("isinf")
def _isinf(e: Emitter, a: Val) -> Val:
    infinity = e.constant(inf, a.dtype, a.lanes)
    return e.inst("fcmp oeq", e.call("fabs", a), infinity, dtype=BOOL)


@emits("signbit")
def _signbit(e: Emitter, a: Val) -> Val:
    if a.dtype.kind == "uint":
        return e.constant(False, BOOL, a.lanes)
    if a.dtype.is_float:
        a = e.convert("bitcast", a, I64 if a.dtype is F64 else I32)
    return e.inst("icmp slt", a, e.constant(0, a.dtype, a.lanes), dtype=BOOL)


@emits("where")
def _where(e: Emitter, condition: Val, a: Val, b: Val) -> Val:
    return e.select(condition, a, b)


# ---- bits ------------------------------------------------------------------------------------------------------------
for _name in ("and", "or", "xor"):
    _arithmetic(_name, "", _name)


@emits("not")
def _not(e: Emitter, a: Val) -> Val:
    ones = True if a.dtype is BOOL else -1 if a.dtype.kind == "int" else (1 << a.dtype.bits) - 1
    return e.inst("xor", a, e.constant(ones, a.dtype, a.lanes))


def _shift_amount(e: Emitter, b: Val) -> tuple[Val, Val]:
    """Whether the amount is within the type's bits, and an amount that always is."""
    limit = e.constant(b.dtype.bits, b.dtype, b.lanes)
    within = e.inst("icmp ult", b, limit, dtype=BOOL)
    return within, e.select(within, b, e.constant(0, b.dtype, b.lanes))


@emits("shl")
def _shl(e: Emitter, a: Val, b: Val) -> Val:
    within, amount = _shift_amount(e, b)
    return e.select(within, e.inst("shl", a, amount), e.constant(0, a.dtype, a.lanes))


@emits("shr")
def _shr(e: Emitter, a: Val, b: Val) -> Val:
    opcode = "ashr" if a.dtype.kind == "int" else "lshr"
    within, amount = _shift_amount(e, b)
    gone = e.inst(opcode, a, e.constant(a.dtype.bits - 1, a.dtype, a.lanes))
    if opcode == "lshr":
        gone = e.constant(0, a.dtype, a.lanes)
    return e.select(within, e.inst(opcode, a, amount), gone)


@emits("philox")
def _philox(e: Emitter, *args: Val) -> Val:
    """Ten rounds on words of 32 bits in registers of 64, see `ir.scalar`."""
    seed, counter, stream, word = (cast(e, each, U64) for each in e.aligned(*args))

    def number(value: int) -> Val:
        return e.constant(value, U64, seed.lanes)

    def halves(x: Val) -> tuple[Val, Val]:
        return e.inst("and", x, number(0xFFFFFFFF)), e.inst("lshr", x, number(32))

    (key, other), (a, b), (c, d) = halves(seed), halves(counter), halves(stream)
    for _ in range(10):
        low, high = halves(e.inst("mul", a, number(0xD2511F53)))
        low_of_c, high_of_c = halves(e.inst("mul", c, number(0xCD9E8D57)))
        a, b = e.inst("xor", e.inst("xor", high_of_c, b), key), low_of_c
        c, d = e.inst("xor", e.inst("xor", high, d), other), low
        key, _ = halves(e.inst("add", key, number(0x9E3779B9)))
        other, _ = halves(e.inst("add", other, number(0xBB67AE85)))
    found = d
    for place, each in ((2, c), (1, b), (0, a)):
        found = e.select(e.inst("icmp eq", word, number(place), dtype=BOOL), each, found)
    return cast(e, found, args[0].dtype)


# ---- functions -------------------------------------------------------------------------------------------------------


def _library(name: str) -> Emission:
    """The function of a library, for what has no vector code of ours: of vectors if there is one, else lane by lane."""

    def emission(e: Emitter, *args: Val) -> Val:
        args = e.aligned(*args)
        first = args[0]
        wide = vector_function(name, first.dtype, first.lanes, e.instructions)
        if wide is not None:
            return e.machine_call(wide.symbol, wide.lanes, args)
        function = f"@{name}{'f' if first.dtype is F32 else ''}"
        element = "float" if first.dtype is F32 else "double"
        e.declare(f"declare {element} {function}({', '.join([element] * len(args))})")
        depth = max(a.depth for a in args)
        if first.lanes == 1:
            return e.value(f"call {element} {function}({', '.join(map(str, args))})", first.dtype, 1, depth)
        mapped = f"@og.{name}.{element}.{first.lanes}"
        e.definitions[mapped] = _mapped(mapped, function, element, first.lanes, len(args))
        return e.value(f"call {first.type} {mapped}({', '.join(map(str, args))})", first.dtype, first.lanes, depth)

    return emission


def _mapped(name: str, function: str, element: str, lanes: int, arity: int) -> str:
    """A function of vectors that calls a scalar function for each lane."""
    vector = f"<{lanes} x {element}>"
    names = [f"%x{k}" for k in range(arity)]
    picks = "".join(f"  %e{k} = extractelement {vector} {x}, i64 %i\n" for k, x in enumerate(names))
    call = f"call {element} {function}({', '.join(f'{element} %e{k}' for k in range(arity))})"
    return (
        f"define internal {vector} {name}({', '.join(f'{vector} {x}' for x in names)}) noinline {{\n"
        f"entry:\n  br label %lane\nlane:\n"
        f"  %i = phi i64 [ 0, %entry ], [ %next, %lane ]\n"
        f"  %old = phi {vector} [ poison, %entry ], [ %new, %lane ]\n{picks}"
        f"  %r = {call}\n  %new = insertelement {vector} %old, {element} %r, i64 %i\n"
        f"  %next = add i64 %i, 1\n  %more = icmp ult i64 %next, {lanes}\n"
        f"  br i1 %more, label %lane, label %done\ndone:\n  ret {vector} %new\n}}\n"
    )


def _function(name: str, single: Emission | None = None, double: Emission | None = None) -> None:
    """By vector code where there is some for the type, else by the C library."""
    library = _library(name)

    def emission(e: Emitter, *args: Val) -> Val:
        vector = single if args[0].dtype is F32 else double
        return (vector or library)(e, *args)

    _TABLE[name] = emission
    _FUNCTIONS.add(name)


def _trigonometric(name: str, shift: int) -> Emission:
    library = _library(name)

    def emission(e: Emitter, x: Val) -> Val:
        """Large arguments are rare and go to the C library, all lanes together."""
        fast = vector_math.sin_and_cos(e, x, shift)
        limit = e.constant(vector_math.TRIGONOMETRIC_LIMIT, F32, x.lanes)
        return e.rarely(e.inst("fcmp ugt", e.call("fabs", x), limit, dtype=BOOL), lambda: library(e, x), fast)

    return emission


def _gelu_by_erf(e: Emitter, x: Val) -> Val:
    """The formula of eager's kernel, for double precision."""

    def constant(value: float) -> Val:
        return e.constant(value, x.dtype, x.lanes)

    both = e.inst("fadd", _TABLE["erf"](e, e.inst("fmul", x, constant(math.sqrt(0.5)))), constant(1.0))
    return e.inst("fmul", e.inst("fmul", x, constant(0.5)), both)


for _name in ("exp", "expm1", "log", "log1p", "tanh", "sigmoid"):
    _function(_name, getattr(vector_math, _name), getattr(vector_math, _name))
for _name in ("exp2", "log2", "log10", "erf"):
    _function(_name, getattr(vector_math, _name))
_function("gelu", vector_math.gelu, _gelu_by_erf)
_function("sin", _trigonometric("sin", 0))
_function("cos", _trigonometric("cos", 1))
for _name in ("log", "sin", "cos"):  # a processor has no faster ones
    _TABLE[f"fast_{_name}"] = _TABLE[_name]
for _name in ("tan", "asin", "acos", "atan", "atan2", "sinh", "cosh", "asinh", "acosh", "atanh", "hypot", "erfc"):
    _function(_name)
for _name in ("lgamma", "pow", "nextafter"):
    _function(_name)

#: Those of many instructions: elementary functions, whose result has the type of their operands.
FUNCTIONS = frozenset(_FUNCTIONS)
