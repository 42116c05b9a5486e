"""Universal functions. NumPy says which types they compute in; each has its meaning on tensors of these types."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from onegraph.torchlib.arrays.array import FUNCTIONS, Array, results, tensor_of
from onegraph.torchlib.arrays.elements import CPU, Unsupported, numpy_type, torch_type

Operator = Callable[..., Any]


def where_zero(function: Operator) -> Operator:
    """Division of integers: by zero it gives zero."""

    def divided(a: torch.Tensor, b: Any) -> Any:
        if a.dtype.is_floating_point:
            return function(a, b)
        b = as_operand(b, a.dtype)
        found = function(a, torch.where(b == 0, 1, b))
        return torch.where(b == 0, 0, found).to(a.dtype)

    return divided


def as_operand(value: Any, dtype: torch.dtype) -> torch.Tensor:
    return value if isinstance(value, torch.Tensor) else torch.full((), value, dtype=dtype, device=CPU)


def power(a: torch.Tensor, b: Any) -> torch.Tensor:
    if not (a.dtype.is_floating_point or a.dtype.is_complex) and not (isinstance(b, int) and b >= 0):
        raise Unsupported("integers to powers that may be negative")
    return torch.pow(a, b)


def shifted(left: bool) -> Operator:
    """Shifts by the width of the type or more give what is left: zeros, or the sign."""

    def shift(a: torch.Tensor, b: Any) -> torch.Tensor:
        b, width = as_operand(b, a.dtype), a.element_size() * 8
        inside = (b >= 0) & (b < width)
        by = torch.where(inside, b, width - 1).to(a.dtype)
        if not left:
            return torch.bitwise_right_shift(torch.bitwise_right_shift(a, by), torch.where(inside, 0, 1).to(a.dtype))
        return torch.where(inside, torch.bitwise_left_shift(a, by), 0).to(a.dtype)

    return shift


def ordered(function: Operator) -> Operator:
    """What is of real numbers."""

    def compared(*operands: Any) -> Any:
        if any(isinstance(each, torch.Tensor) and each.dtype.is_complex for each in operands):
            raise Unsupported("an order of complex numbers")
        return function(*operands)

    return compared


def product(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    if a.dtype is torch.bool:
        return torch.matmul(a.to(torch.uint8), b.to(torch.uint8)) != 0
    return torch.matmul(a, b)


#: Those whose second operand may be a number of Python's, and the others.
WITH_NUMBERS: dict[str, Operator] = {
    "add": torch.add,
    "subtract": torch.subtract,
    "multiply": torch.multiply,
    "divide": torch.true_divide,
    "floor_divide": where_zero(torch.floor_divide),
    "remainder": where_zero(torch.remainder),
    "fmod": where_zero(torch.fmod),
    "power": power,
    "equal": torch.eq,
    "not_equal": torch.ne,
    "less": ordered(torch.lt),
    "less_equal": ordered(torch.le),
    "greater": ordered(torch.gt),
    "greater_equal": ordered(torch.ge),
    "bitwise_and": torch.bitwise_and,
    "bitwise_or": torch.bitwise_or,
    "bitwise_xor": torch.bitwise_xor,
    "left_shift": shifted(left=True),
    "right_shift": shifted(left=False),
}
OF_TENSORS: dict[str, Operator] = {
    **{
        name: getattr(torch, name)
        for name in """arctan2 logaddexp logaddexp2 fmax fmin copysign nextafter heaviside hypot gcd lcm
        logical_and logical_or logical_xor logical_not negative positive rint sign exp exp2 expm1 log log2 log10 log1p
        sqrt square reciprocal sin cos tan arcsin arccos arctan sinh cosh tanh arcsinh arccosh arctanh deg2rad rad2deg
        isfinite isinf isnan signbit floor ceil trunc absolute""".split()
        if hasattr(torch, name)
    },
    "maximum": ordered(torch.maximum),
    "minimum": ordered(torch.minimum),
    "rint": ordered(torch.round),
    "sign": torch.sgn,
    "invert": torch.bitwise_not,
    "conjugate": torch.conj_physical,
    "fabs": torch.abs,
    "radians": torch.deg2rad,
    "degrees": torch.rad2deg,
    "float_power": torch.pow,
    "matmul": product,
}
#: Those that give integers as they are, of which torch has no such loops.
IDENTITY_OF_INTEGERS = ("floor", "ceil", "trunc", "rint")


def call_ufunc(ufunc: np.ufunc, *args: Any, out: Any = None, dtype: Any = None, **others: Any) -> Any:
    """What a universal function gives for arrays and numbers.

    Raises:
        Unsupported: it is not known, or asked in a way in which it is not.
    """
    name = ufunc.__name__
    meaning = WITH_NUMBERS.get(name) or OF_TENSORS.get(name)
    others = {key: value for key, value in others.items() if DEFAULTS.get(key, ...) is not value}
    if meaning is None or others or len(args) > ufunc.nin:
        raise Unsupported(f"numpy.{name}")
    operands = [operand(value) for value in args]
    if dtype is not None and name not in ("add", "subtract", "multiply", "divide"):
        raise Unsupported(f"numpy.{name} with a dtype")
    named: dict[str, Any] = {} if dtype is None else {"signature": (*(None,) * ufunc.nin, np.dtype(dtype))}
    *wanted, given = ufunc.resolve_dtypes((*(kind for kind, _ in operands), None), **named)
    keeps = name in WITH_NUMBERS and any(isinstance(value, torch.Tensor) for _, value in operands)
    values = [converted(value, kind, keeps) for (_, value), kind in zip(operands, wanted, strict=True)]
    fractional = torch_type(wanted[0]).is_floating_point or torch_type(wanted[0]).is_complex
    if name in IDENTITY_OF_INTEGERS and not fractional:
        made = values[0].clone()
    else:
        if keeps and not isinstance(values[0], torch.Tensor):
            values[0] = as_operand(values[0], torch_type(wanted[0]))
        made = meaning(*values)
    return written(made.to(torch_type(given)), out)


DEFAULTS = {"where": True, "casting": "same_kind", "order": "K", "subok": True}


def operand(value: Any) -> tuple[Any, Any]:
    """The type of an operand as NumPy sees it (Python's numbers are of Python's types), and the operand."""
    if isinstance(value, torch.SymInt) or type(value) is int:
        return int, value
    if isinstance(value, torch.SymFloat) or type(value) is float:
        return float, value
    if type(value) is complex:
        return complex, value
    tensor = tensor_of(value)
    return numpy_type(tensor), tensor


def converted(value: Any, kind: np.dtype[Any], keeps_numbers: bool) -> Any:
    wanted = torch_type(kind)
    if isinstance(value, torch.Tensor):
        return value.to(wanted)
    if type(value) is int and np.issubdtype(kind, np.integer) and not np.iinfo(kind).min <= value <= np.iinfo(kind).max:
        raise Unsupported("a number that its type does not hold")
    if keeps_numbers and (type(value) is not float or kind == np.float64 or abs(value) < np.finfo(kind).max):
        return value
    return torch.full((), value, dtype=wanted, device=CPU)


def written(made: Any, out: Any) -> Any:
    """The result, or the array that it is written to."""
    if type(out) is tuple:
        (out,) = out
    if out is None:
        return results(made)
    if type(out) is not Array or out.is_scalar:
        raise Unsupported("out= of something that is no array")
    if not np.can_cast(numpy_type(made), numpy_type(out.tensor), "same_kind") or made.dim() > out.tensor.dim():
        raise Unsupported("out= of another type")
    out.write(made)
    return out


def divmod_of(a: Any, b: Any, out: Any = (None, None)) -> tuple[Any, Any]:
    """The quotient and the rest."""
    quotient = call_ufunc(np.floor_divide, a, b, out=out[0])
    return quotient, call_ufunc(np.remainder, a, b, out=out[1])


FUNCTIONS[np.divmod] = divmod_of


# ---- operators -------------------------------------------------------------------------------------------------------

BINARY = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "truediv": np.divide,
    "floordiv": np.floor_divide,
    "mod": np.remainder,
    "pow": np.power,
    "matmul": np.matmul,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
    "lshift": np.left_shift,
    "rshift": np.right_shift,
}
COMPARISONS = {
    "eq": np.equal,
    "ne": np.not_equal,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
}
UNARY = {"neg": np.negative, "pos": np.positive, "abs": np.absolute, "invert": np.invert}


def _operator(name: str, ufunc: np.ufunc) -> None:
    def forward(self: Array, other: Any) -> Any:
        return call_ufunc(ufunc, self, other)

    def reflected(self: Array, other: Any) -> Any:
        return call_ufunc(ufunc, other, self)

    def in_place(self: Array, other: Any) -> Any:
        if self.is_scalar:
            return call_ufunc(ufunc, self, other)
        return call_ufunc(ufunc, self, other, out=self)

    setattr(Array, f"__{name}__", forward)
    if name not in COMPARISONS:
        setattr(Array, f"__r{name}__", reflected)
        setattr(Array, f"__i{name}__", in_place)


def reflected_divmod(self: Array, other: Any) -> Any:
    return divmod_of(other, self)


for _name, _method in {"__divmod__": divmod_of, "__rdivmod__": reflected_divmod}.items():
    setattr(Array, _name, _method)


def _unary_operator(name: str, ufunc: np.ufunc) -> None:
    setattr(Array, f"__{name}__", lambda self: call_ufunc(ufunc, self))


for _name, _ufunc in (BINARY | COMPARISONS).items():
    _operator(_name, _ufunc)
for _name, _ufunc in UNARY.items():
    _unary_operator(_name, _ufunc)


def _bind(ufunc: np.ufunc) -> None:
    FUNCTIONS[ufunc] = lambda *args, **kwargs: call_ufunc(ufunc, *args, **kwargs)


for _name in WITH_NUMBERS | OF_TENSORS:
    _bind(getattr(np, _name))
