"""What the arguments and fake results of a node mean here: sizes as index expressions, types, literals."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache, lru_cache
from typing import Any

import torch

from onegraph.base.dataclass import dataclass
from onegraph.compiler.lower.views import View
from onegraph.ir.index import ZERO, Index, product
from onegraph.ir.loop import Argument, Named
from onegraph.ir.ranges import is_least_one
from onegraph.ir.types import DType, TensorType, dtype_of_torch
from onegraph.torchlib.size_expression import Float


@cache
def dtype_of(dtype: torch.dtype) -> DType:
    """Our element type for torch's."""
    return dtype_of_torch(str(dtype).removeprefix("torch."), dtype.itemsize)


def storage_of(fake: torch.Tensor) -> int | None:
    """The identity of the storage; None where there is none."""
    return fake.untyped_storage()._cdata if fake.layout is torch.strided else None


def torch_dtype(dtype: DType) -> torch.dtype:
    """Torch's element type for ours."""
    found: torch.dtype = getattr(torch, dtype.torch_name)
    return found


def tensor_type(value: torch.Tensor) -> TensorType:
    """Element type, sizes and strides of a fake tensor."""
    strides = value.stride() if value.layout is torch.strided else ()
    if all(type(number) is int for number in (*value.shape, *strides)):
        return _static_type(value.dtype, tuple(value.shape), strides)
    return TensorType(dtype_of(value.dtype), tuple(map(index_of, value.shape)), tuple(map(step_of, strides)))


@lru_cache(10_000)
def _static_type(dtype: torch.dtype, shape: tuple[int, ...], strides: tuple[int, ...]) -> TensorType:
    return TensorType(dtype_of(dtype), tuple(map(Index.of, shape)), tuple(map(step_of, strides)))


def static(value: Index | int) -> int | None:
    """The integer that an argument is in every call; None if it depends on sizes."""
    return Index.of(value).constant


def number_of(value: Any) -> Any:
    """The plain number that an argument is, which is known to be one in every call."""
    return value.constant if isinstance(value, Index) else value


def fits(value: Any, dtype: DType) -> bool:
    """Whether torch takes the number for this element type; if not, the operator must raise when it is called."""
    if isinstance(value, Index):
        if value.constant is None:
            return True
        value = value.constant
    try:
        torch.full((2,), value, dtype=torch_dtype(dtype))
    except RuntimeError:
        return False
    return True


def listed(value: Any) -> list[Any]:
    """One number or a list of them as a list."""
    return list(value) if isinstance(value, (list, tuple)) else [value]


def index_of(value: int | torch.SymInt) -> Index:
    """An integer, static or symbolic, as an index expression."""
    if isinstance(value, torch.SymInt):
        index: Index = value.node.index
        return index
    return Index.of(int(value))


def step_of(stride: int | torch.SymInt) -> Index:
    """A stride as an index expression, for a tensor that has elements: no size that it is a product of is 0 there."""
    if isinstance(stride, int):
        return Index.of(stride)
    result = ZERO
    for monomial, coefficient in index_of(stride).terms:
        factors = (atom.a if is_least_one(atom) else Index((((atom,), 1),)) for atom in monomial)
        result = result + product(list(factors)) * coefficient
    return result


@dataclass(frozen=True, slots=True, eq=False)
class Fraction:
    """A symbolic floating-point number; `taken` are the numbers that are found in tensors."""

    symbol: torch.SymFloat
    taken: Mapping[Float, View]

    @property
    def value(self) -> Any:
        return self.symbol.node.value

    def simplify(self, index: Index) -> Index:
        """An index expression of those that the number is computed from, with what is known by now."""
        simplified: Index = self.symbol.node.sizes.simplify(index)
        return simplified


def specialized(value: Any) -> Any:
    """A symbolic fraction as the number that it is in this call, which becomes a guard; anything else as it is."""
    if isinstance(value, Fraction):
        return value.symbol.node.guard_float()
    if isinstance(value, list):
        return [specialized(item) for item in value]
    return value


def literal_argument(value: Any) -> Argument:
    """An argument of a library call that is not a tensor."""
    match value:
        case torch.dtype():
            return Named("dtype", str(value).removeprefix("torch."))
        case torch.layout():
            return Named("layout", str(value).removeprefix("torch."))
        case torch.memory_format():
            return Named("memory_format", str(value).removeprefix("torch."))
        case torch.device():
            return Named("device", str(value))
        case torch.SymInt():
            return index_of(value)
        case Index() | None | bool() | int() | float() | complex() | str():
            return value
        case list() | tuple():
            return tuple(literal_argument(item) for item in value)
    raise NotImplementedError(f"an argument of type {type(value).__name__} cannot be kept in a plan: {value!r}")
