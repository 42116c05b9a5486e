"""Sizes, strides and types of the results of the most common operators, without torch's Python meta kernels.

Those import sympy when they first check something, which costs more than compiling a small function, and take several
times as long. Element-wise operators follow the rules of torch's C++ iterator; their result type is asked of the real
operator, on one element. Sizes here are plain numbers and all tensors are on the CPU.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import torch
from torch import Tensor

from onegraph.torchlib import private
from onegraph.torchlib.aten import is_mutable, is_random, may_view
from onegraph.torchlib.iterator import broadcast, iterator_strides
from onegraph.torchlib.layouts import RULES, Layout
from onegraph.torchlib.layouts.shapes import like
from onegraph.torchlib.private import OpOverload
from onegraph.torchlib.strides import contiguous, is_dense

aten = torch.ops.aten

# Not marked as element-wise, though they are; the last two by torch 2.11.
_ALSO_ITERATED = frozenset(
    {
        aten.floor_divide.default,
        aten.hardswish.default,
        aten._prelu_kernel.default,
        aten.leaky_relu.default,
        aten._conj_physical.default,
    }
)
# Element-wise, but their results are contiguous.
_CONTIGUOUS = frozenset({aten.masked_fill.Scalar, aten.masked_fill.Tensor, aten.mvlgamma.default, aten.pow.Scalar})
# They take numbers as they are, though other overloads take tensors in their place.
_WITH_NUMBERS = frozenset(
    {aten.pow.Tensor_Scalar, aten.clamp.default, aten.clamp_min.default, aten.clamp_max.default, aten.lerp.Scalar}
)
# They multiply by a number of their own.
_WITH_OWN_NUMBER = frozenset({aten.deg2rad.default, aten.rad2deg.default})
# Element-wise, but their results are made as by `empty_like`.
MADE_LIKE = frozenset(
    {
        aten.hardtanh.default,
        aten.nan_to_num.default,
        aten.conj_physical.default,
        aten._conj_physical.default,
        aten._prelu_kernel.default,
    }
)
# Of complex numbers, these are composed of others, or not iterated.
_COMPLEX_MADE_LIKE = frozenset({aten.abs.default})
_COMPLEX_WITH_NUMBERS = frozenset({aten.isinf.default})
_COMPLEX_CONTIGUOUS = frozenset({aten.angle.default})
# Marked as element-wise, but with layouts of their own.
_NOT_ITERATED = frozenset({"clone", "fill", "copy", "full_like", "_to_copy", "contiguous", "to", "lift_fresh_copy"})


def quick_layout(func: OpOverload, args: Sequence[Any], kwargs: Any, tensors: Sequence[Tensor]) -> Any:
    """What the results are (one layout or a tuple of them), or None where this file has no rule for the call."""
    rule = _COMPOSED.get(func) or RULES.get(func)
    if rule is not None:
        return rule(*args, **kwargs)
    return _elementwise(func, args, kwargs, tensors) if is_elementwise(func) else None


@cache
def is_elementwise(func: OpOverload) -> bool:
    schema = func._schema
    return (
        (torch.Tag.pointwise in func.tags or func in _ALSO_ITERATED)
        and not (is_mutable(func) or may_view(func) or is_random(func))
        and func._schema.name.removeprefix("aten::") not in _NOT_ITERATED
        and len(schema.returns) == 1
        and str(schema.returns[0].type) == "Tensor"
    )


#: Operators whose second argument is a list of indices.
INDEXING = frozenset(
    {
        torch.ops.aten.index.Tensor,
        torch.ops.aten.index_put.default,
        torch.ops.aten.index_put_.default,
        torch.ops.aten._index_put_impl_.default,
    }
)


def check_masks(indexed: Tensor, indices: Sequence[Tensor | None]) -> None:
    """Meta kernels look at the number of elements of a mask alone.

    Raises:
        IndexError: as the real kernels do, where a mask has not the shape of what it selects from.
    """
    dim = 0
    for index in indices:
        if index is None or index.dtype not in (torch.bool, torch.uint8):
            dim += 1
            continue
        for at, size in enumerate(index.shape):
            if dim + at >= indexed.dim() or size != indexed.shape[dim + at]:
                raise IndexError(
                    f"The shape of the mask {list(index.shape)} at index {at} does not match the shape of the indexed "
                    f"tensor {list(indexed.shape)} at index {dim + at}"
                )
        dim += index.dim()


@cache
def is_lenient(func: OpOverload) -> bool:
    """Whether the meta kernel of an element-wise operator may accept types that the real one refuses."""
    pointwise = torch.Tag.pointwise in func.tags and func.namespace == "aten" and not is_random(func)
    return pointwise or func is aten.copy_.default


def try_on_numbers(func: OpOverload, args: Sequence[Any], kwargs: Any) -> None:
    """Run the real operator on one element of each type, or, where it writes to memory that an argument shares, on such
    memory: it raises the error that the program would see.
    """
    tensors = [value for value in args if isinstance(value, Tensor)]
    if is_mutable(func) and tensors and _shares_memory(tensors):
        storages: dict[int, torch.UntypedStorage] = {}
        given = [_over_same_memory(value, storages) if isinstance(value, Tensor) else _sample(value) for value in args]
    else:
        given = [value.clone() if isinstance(value, Tensor) else value for value in map(_sample, args)]
    func(*given, **{name: _sample(value) for name, value in kwargs.items()})


def _shares_memory(tensors: Sequence[Tensor]) -> bool:
    """Whether the first of the tensors refers to an element twice, or another one may refer to its elements."""
    written, *others = tensors
    if any(
        _hint(stride) == 0 and _hint(size) > 1 for size, stride in zip(written.shape, written.stride(), strict=True)
    ):
        return True
    aliases = private.is_alias_of
    return any(other is not written and aliases(other, written) for other in others)


def _over_same_memory(tensor: Tensor, storages: dict[int, torch.UntypedStorage]) -> Tensor:
    storage = tensor.untyped_storage()
    size, stride = [_hint(n) for n in tensor.shape], [_hint(n) for n in tensor.stride()]
    real = storages.setdefault(storage._cdata, torch.UntypedStorage(_hint(storage.nbytes())))
    return torch.empty(0, dtype=tensor.dtype).set_(real, _hint(tensor.storage_offset()), size, stride)


def _hint(number: Any) -> int:
    """A size as it is in this trace, without a guard."""
    hint: int = number.node.hint if isinstance(number, torch.SymInt) else number
    return hint


def fits_in_place(func: OpOverload, tensors: Sequence[Tensor]) -> bool:
    """Whether a call of an operator that writes to its first argument alone gives just that, being of its sizes."""
    if not is_in_place(func):
        return False
    shape = tensors[0].shape
    return broadcast([tensor.shape for tensor in tensors], max(tensor.dim() for tensor in tensors)) == tuple(shape)


@cache
def is_in_place(func: OpOverload) -> bool:
    schema = func._schema
    written = [argument.alias_info is not None and argument.alias_info.is_write for argument in schema.arguments]
    return schema.name.endswith("_") and written[0] and sum(written) == 1 and len(schema.returns) == 1


@cache
def _tensor_positions(func: OpOverload) -> frozenset[int]:
    return frozenset(i for i, arg in enumerate(func._schema.arguments) if "Tensor" in str(arg.type))


@cache
def _makes_numbers_tensors(func: OpOverload) -> bool:
    """Whether the operator takes a number where another overload takes a tensor, which it is made for the iterator."""
    if func in _WITH_NUMBERS:
        return False
    packet = func._overloadpacket
    others = [getattr(packet, name)._schema.arguments for name in packet.overloads()]
    numbers = [i for i, argument in enumerate(func._schema.arguments) if isinstance(argument.type, torch.NumberType)]
    return any(i < len(other) and isinstance(other[i].type, torch.TensorType) for i in numbers for other in others)


# ---- element-wise operators ------------------------------------------------------------------------------------------


def _elementwise(func: OpOverload, args: Sequence[Any], kwargs: Any, tensors: Sequence[Tensor]) -> Layout | None:
    found = sample(func, args, kwargs)
    rank = max(tensor.dim() for tensor in tensors)
    if type(found) is not Tensor or tuple(found.shape) != (1,) * rank:
        return None
    shape = broadcast([tensor.shape for tensor in tensors], rank)
    if shape is None:
        return None
    complexes = any(tensor.dtype.is_complex for tensor in tensors)
    if func in _CONTIGUOUS or (complexes and func in _COMPLEX_CONTIGUOUS):
        return shape, contiguous(shape), found.dtype
    made_like = func in MADE_LIKE or (complexes and func in _COMPLEX_MADE_LIKE)
    if made_like and (0 in shape or is_dense(shape, tensors[0].stride())):
        return shape, tensors[0].stride(), found.dtype
    return shape, iterator_strides(shape, tensors, has_numbers(func, args, tensors)), found.dtype


def has_numbers(func: OpOverload, args: Sequence[Any], tensors: Sequence[Tensor]) -> bool:
    """Whether there are numbers among the operands that torch's iterator is given."""
    positions = [i for i in _tensor_positions(func) if i < len(args)]
    numbers = any(isinstance(args[i], int | float | complex | torch.SymInt | torch.SymFloat) for i in positions)
    numbers = numbers or func in _WITH_OWN_NUMBER or _makes_numbers_tensors(func)
    return numbers or (func in _COMPLEX_WITH_NUMBERS and any(tensor.dtype.is_complex for tensor in tensors))


def sample(func: OpOverload, args: Sequence[Any], kwargs: Any) -> Any:
    """What an operator gives for one element of each type."""
    return func(*map(_sample, args), **{name: _sample(value) for name, value in kwargs.items()})


def _sample(value: Any) -> Any:
    """The same argument with one element: 1, which divides."""
    if isinstance(value, Tensor):
        return _one(value.dtype, value.dim())
    if isinstance(value, torch.SymInt | torch.SymFloat):
        return 1 if isinstance(value, torch.SymInt) else 1.0
    return [_sample(item) for item in value] if isinstance(value, list) else value


@cache
def _one(dtype: torch.dtype, rank: int) -> Tensor:
    with private.disable_current_modes():
        return torch.ones((1,) * rank, dtype=dtype)


# ---- element-wise operators that are composed of others --------------------------------------------------------------


def _isinf(x: Tensor) -> Layout | None:
    """Of numbers that cannot be infinite, it is made as by `zeros_like`."""
    never = not x.is_floating_point() and not x.is_complex()
    return (like(x, dtype=torch.bool) if never else None) or _elementwise(aten.isinf.default, (x,), {}, (x,))


def _ldexp(x: Tensor, exponent: Tensor) -> Layout | None:
    """A product with powers of two, which are contiguous. Of other types, the powers become the product in place."""
    if x.dtype is not exponent.dtype or (x.dtype is not torch.float32 and (x.is_floating_point() or x.is_complex())):
        return None
    powers = torch.empty(exponent.shape, dtype=torch.float32, device="meta")
    return _elementwise(aten.mul.Tensor, (x, powers), {}, (x, powers))


_COMPOSED: dict[OpOverload, Callable[..., Layout | None]] = {aten.isinf.default: _isinf, aten.ldexp.Tensor: _ldexp}
