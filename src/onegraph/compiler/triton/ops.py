"""How each scalar operation of `ir.scalar` is written in Triton's language. A test compares the two tables.

Functions are those of CUDA's libdevice, which eager's kernels call as well, and division and roots are rounded as
there: Triton's own are faster, and differ in the last digits. Operands are names of values, or literals of a type.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from types import MappingProxyType

from onegraph.ir.loop import Literal
from onegraph.ir.types import BOOL, F64, U64, DType

#: Writes an operation on operands of the type.
Writing = Callable[..., str]
_TABLE: dict[str, Writing] = {}
TRITON_OPS = MappingProxyType(_TABLE)

#: Functions that kernels share, by name: a kernel's text has those that it calls.
HELPERS = MappingProxyType(
    {
        "remainder": """\
            @triton.jit
            def remainder(a, b):
                rest = a % b
                return tl.where((rest != 0) & ((rest < 0) != (b < 0)), rest + b, rest)
        """,
        "floor_div": """\
            @triton.jit
            def floor_div(a, b):
                rest = a % b
                return a // b - ((rest != 0) & ((rest < 0) != (b < 0))).to(a.dtype)
        """,
        "float_remainder": """\
            @triton.jit
            def float_remainder(a, b):
                rest = libdevice.fmod(a, b)
                return tl.where((rest != 0) & ((rest < 0) != (b < 0)), rest + b, rest)
        """,
        "float_floor_div": """\
            @triton.jit
            def float_floor_div(a, b):
                rest = libdevice.fmod(a, b)
                ratio = a / b
                quotient = (a - rest) / b
                quotient = tl.where((rest != 0) & ((rest < 0) != (b < 0)), quotient - 1, quotient)
                floored = tl.floor(quotient)
                floored = tl.where(quotient - floored > 0.5, floored + 1, floored)
                floored = tl.where(quotient == 0, libdevice.copysign(quotient * 0, ratio), floored)
                return tl.where(b == 0, ratio, floored)
        """,
        "philox": """\
            @triton.jit
            def philox(seed, counter, stream, word):
                low: tl.constexpr = 0xffffffff
                counter, stream = counter.to(tl.uint64), stream.to(tl.uint64)
                a, b, c, d = tl.philox(
                    seed.to(tl.uint64),
                    (counter & low).to(tl.uint32),
                    (counter >> 32).to(tl.uint32),
                    (stream & low).to(tl.uint32),
                    (stream >> 32).to(tl.uint32),
                )
                return tl.where(word == 0, a, tl.where(word == 1, b, tl.where(word == 2, c, d))).to(tl.uint64)
        """,
        "multiply": """\
            @triton.jit
            def multiply(a, b):
                return a * b
        """,
    }
)


def _infix(name: str, sign: str) -> None:
    _TABLE[name] = lambda dtype, a, b: f"{a} {sign} {b}"


def _libdevice(*names: str) -> None:
    for name in names:
        _TABLE[name] = lambda dtype, *args, name=name: f"libdevice.{name}({', '.join(args)})"


for _name, _sign in {
    "add": "+", "sub": "-", "mul": "*", "and": "&", "or": "|", "xor": "^", "trunc_div": "//",
    "eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">=",
}.items():  # fmt: skip
    _infix(_name, _sign)

_libdevice(
    "pow", "copysign", "nextafter", "trunc", "exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sin", "cos",
    "tan", "asin", "acos", "atan", "atan2", "sinh", "cosh", "tanh", "asinh", "acosh", "atanh", "hypot", "erf", "erfc",
    "lgamma", "rsqrt",
)  # fmt: skip


def _divided(dtype: DType, a: str, b: str) -> str:
    return f"{a} / {b}" if dtype is F64 else f"tl.div_rn({a}, {b})"


def _extreme(function: str, of_bools: str) -> Writing:
    def write(dtype: DType, a: str, b: str) -> str:
        if dtype is BOOL:
            return f"{a} {of_bools} {b}"
        return f"{function}({a}, {b}{', propagate_nan=tl.PropagateNan.ALL' if dtype.is_float else ''})"

    return write


def _philox(dtype: DType, *args: str) -> str:
    found = f"philox({', '.join(args)})"
    return found if dtype is U64 else f"{found}.to({triton_type(dtype)})"


def _fast(name: str) -> Writing:
    """What nvcc calls for `__sinf` and its like, of float32."""

    def write(dtype: DType, a: str) -> str:
        return f"libdevice.{name}({a})" if dtype is F64 else f"libdevice.fast_{name}f({a})"

    return write


def _signbit(dtype: DType, a: str) -> str:
    if dtype.is_float:
        a = f"{a}.to(tl.int{dtype.bits}, bitcast=True)"
    return f"{a} < 0"


def _one(dtype: DType) -> str:
    return typed(1.0, dtype)


def _shifted(sign: str) -> Writing:
    def write(dtype: DType, a: str, b: str) -> str:
        if b.isdecimal() and int(b) < dtype.bits:
            return f"{a} {sign} {b}"
        beyond = f"{a} >> {dtype.bits - 1}" if sign == ">>" and dtype.kind == "int" else f"{a} ^ {a}"
        return f"tl.where(({b} >= 0) & ({b} < {dtype.bits}), {a} {sign} ({b} & {dtype.bits - 1}), {beyond})"

    return write


_TABLE.update(
    {
        "div": _divided,
        "fma": lambda dtype, a, b, c: f"tl.fma({a}, {b}, {c})",
        "floor_div": lambda dtype, a, b: f"{'float_' if dtype.is_float else ''}floor_div({a}, {b})",
        "remainder": lambda dtype, a, b: f"{'float_' if dtype.is_float else ''}remainder({a}, {b})",
        "fmod": lambda dtype, a, b: f"libdevice.fmod({a}, {b})" if dtype.is_float else f"{a} % {b}",
        "neg": lambda dtype, a: f"-{a}" if dtype.kind != "uint" else f"0 - {a}",
        "abs": lambda dtype, a: a if dtype.kind == "uint" else f"tl.abs({a})",
        "sign": lambda dtype, a: f"({a} > 0).to({triton_type(dtype)}) - ({a} < 0).to({triton_type(dtype)})",
        "maximum": _extreme("tl.maximum", "|"),
        "minimum": _extreme("tl.minimum", "&"),
        "floor": lambda dtype, a: f"tl.floor({a})",
        "ceil": lambda dtype, a: f"tl.ceil({a})",
        "round": lambda dtype, a: f"libdevice.rint({a})",
        "isnan": lambda dtype, a: f"{a} != {a}",
        "isinf": lambda dtype, a: f'tl.abs({a}) == float("inf")',
        "signbit": _signbit,
        "where": lambda dtype, c, a, b: f"tl.where({c}, {a}, {b})",
        "not": lambda dtype, a: f"~{a}",
        "philox": _philox,
        "fast_log": _fast("log"),
        "fast_sin": _fast("sin"),
        "fast_cos": _fast("cos"),
        "shl": _shifted("<<"),
        "shr": _shifted(">>"),
        "sqrt": lambda dtype, a: f"tl.sqrt({a})" if dtype is F64 else f"tl.sqrt_rn({a})",
        "reciprocal": lambda dtype, a: _divided(dtype, _one(dtype), a),
        "sigmoid": lambda dtype, a: _divided(dtype, _one(dtype), f"(1 + libdevice.exp(-{a}))"),
        "gelu": lambda dtype, a: f"{a} * 0.5 * (1 + libdevice.erf({a} * 0.7071067811865476))",
    }
)

#: Operations that are written between their operands, where a literal takes the other operand's type.
INFIX = frozenset("add sub mul and or xor trunc_div eq ne lt le gt ge shl shr".split())


def triton_type(dtype: DType) -> str:
    """Triton's name of an element type, in registers."""
    if dtype is BOOL:
        return "tl.int1"
    kind = {"int": "int", "uint": "uint"}.get(dtype.kind)
    if kind is not None:
        return f"tl.{kind}{dtype.bits}"
    return {"f16": "tl.float16", "bf16": "tl.bfloat16", "f32": "tl.float32", "f64": "tl.float64"}[dtype.name]


def pointer_type(dtype: DType) -> str:
    """The type of a pointer to elements in memory, as Triton's signatures have it."""
    names = {"bool": "i1", "bf16": "bf16", "f16": "fp16", "f32": "fp32", "f64": "fp64"}
    return "*" + names.get(dtype.name, dtype.name)


def literal(value: Literal) -> str:
    """A number as Triton's language has it."""
    if isinstance(value, float) and not math.isfinite(value):
        return f'float("{value}")'
    return repr(value)


def typed(value: Literal, dtype: DType) -> str:
    """A number of this type, which is none of Python's: those are taken for the type of what they meet."""
    return f"tl.full([], {literal(value)}, {triton_type(dtype)})"
