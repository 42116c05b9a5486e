"""Sizes, strides and types of the results of the most common operators, without torch's Python meta kernels.

Those import sympy when they first check something, which costs more than compiling a small function, and take several
times as long. Element-wise operators follow the rules of torch's C++ iterator; their result type is asked of the real
operator, on one element. Sizes here are plain numbers and all tensors are on the CPU.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import torch
from torch import Tensor
from torch._ops import OpOverload

from onegraph.torchlib.aten import is_mutable, is_random, may_view
from onegraph.torchlib.strides import is_dense, suggested_format

aten = torch.ops.aten
Layout = tuple[Sequence[int], Sequence[int], torch.dtype]  # sizes, strides, type
Rule = Callable[..., "Layout | tuple[Layout, ...] | None"]
_RULES: dict[OpOverload, Rule] = {}

# Not marked as element-wise, though it is.
_ALSO_ITERATED = frozenset({aten.floor_divide.default})
# Element-wise, but their results are contiguous.
_CONTIGUOUS = frozenset({aten.masked_fill.Scalar, aten.masked_fill.Tensor, aten.mvlgamma.default, aten.pow.Scalar})
# They take numbers as they are, though other overloads take tensors in their place.
_WITH_NUMBERS = frozenset(
    {aten.pow.Tensor_Scalar, aten.clamp.default, aten.clamp_min.default, aten.clamp_max.default, aten.lerp.Scalar}
)
# They multiply by a number of their own.
_WITH_OWN_NUMBER = frozenset({aten.deg2rad.default, aten.rad2deg.default})
# Element-wise, but their results are made as by `empty_like`.
_MADE_LIKE = frozenset({aten.hardtanh.default, aten.nan_to_num.default, aten._conj_physical.default})
# Of complex numbers, these are more than one iteration: the last one has an operand of its own or writes in order.
_COMPLEX_WITH_NUMBERS = frozenset({aten.abs.default, aten.isinf.default})
_COMPLEX_CONTIGUOUS = frozenset({aten.angle.default})
# Marked as element-wise, but with layouts of their own.
_NOT_ITERATED = frozenset({"clone", "fill", "copy", "full_like", "_to_copy", "contiguous", "to", "lift_fresh_copy"})


def quick_layout(func: OpOverload, args: Sequence[Any], kwargs: Any, tensors: Sequence[Tensor]) -> Any:
    """What the results are (one layout or a tuple of them), or None where this file has no rule for the call."""
    rule = _RULES.get(func)
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
    return any(other is not written and torch._C._is_alias_of(other, written) for other in others)


def _over_same_memory(tensor: Tensor, storages: dict[int, torch.UntypedStorage]) -> Tensor:
    storage = tensor.untyped_storage()
    size, stride = [_hint(n) for n in tensor.shape], [_hint(n) for n in tensor.stride()]
    real = storages.setdefault(storage._cdata, torch.UntypedStorage(_hint(storage.nbytes())))
    return torch.empty(0, dtype=tensor.dtype).set_(real, _hint(tensor.storage_offset()), size, stride)


def _hint(number: Any) -> int:
    """A size as it is in this trace, without a guard."""
    return number.node.hint if isinstance(number, torch.SymInt) else number


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
    sample = func(*map(_sample, args), **{name: _sample(value) for name, value in kwargs.items()})
    rank = max(tensor.dim() for tensor in tensors)
    if type(sample) is not Tensor or tuple(sample.shape) != (1,) * rank:
        return None
    shape = _broadcast([tensor.shape for tensor in tensors], rank)
    if shape is None:
        return None
    complexes = any(tensor.dtype.is_complex for tensor in tensors)
    if func in _CONTIGUOUS or (complexes and func in _COMPLEX_CONTIGUOUS):
        return shape, contiguous(shape), sample.dtype
    if func in _MADE_LIKE and is_dense(shape, tensors[0].stride()):
        return shape, tensors[0].stride(), sample.dtype
    numbers = any(isinstance(args[i], (int, float, complex)) for i in _tensor_positions(func) if i < len(args))
    numbers = numbers or func in _WITH_OWN_NUMBER or _makes_numbers_tensors(func)
    numbers = numbers or (complexes and func in _COMPLEX_WITH_NUMBERS)
    return shape, iterator_strides(shape, tensors, numbers), sample.dtype


def _broadcast(shapes: Sequence[Sequence[int]], rank: int) -> tuple[int, ...] | None:
    found = [1] * rank
    for shape in shapes:
        for dim, size in enumerate(shape, rank - len(shape)):
            if size != 1 and found[dim] not in (1, size):
                return None
            found[dim] = found[dim] if size == 1 else size
    return tuple(found)


def _sample(value: Any) -> Any:
    """The same argument with one element: 1, which divides."""
    if isinstance(value, Tensor):
        return _one(value.dtype, value.dim())
    if isinstance(value, torch.SymInt | torch.SymFloat):
        return 1 if isinstance(value, torch.SymInt) else 1.0
    return [_sample(item) for item in value] if isinstance(value, list) else value


@cache
def _one(dtype: torch.dtype, rank: int) -> Tensor:
    with torch.utils._python_dispatch._disable_current_modes():
        return torch.ones((1,) * rank, dtype=dtype)


def iterator_strides(shape: Sequence[int], tensors: Sequence[Tensor], with_numbers: bool) -> Sequence[int]:
    """The strides that torch's iterator over these operands gives to its result."""
    if not with_numbers and all(tensor.shape == shape for tensor in tensors):
        if all(tensor.is_contiguous() for tensor in tensors):
            return contiguous(shape)
        for layout in (torch.channels_last, torch.channels_last_3d):
            rank = 4 if layout is torch.channels_last else 5
            if len(shape) == rank and all(tensor.is_contiguous(memory_format=layout) for tensor in tensors):
                return _filled(shape, [1, *range(rank - 1, 1, -1), 0])  # dimensions of size 1 have strides too
        first = tensors[0].stride()
        if all(tensor.stride() == first for tensor in tensors) and is_dense(shape, first):
            return first
    order = _iteration_order(shape, [_broadcast_strides(tensor, shape) for tensor in tensors])
    return contiguous(shape) if order == list(range(len(shape)))[::-1] else _filled(shape, order)


def _filled(shape: Sequence[int], order: Sequence[int]) -> list[int]:
    """The strides of a block of memory that is filled along one dimension after the other."""
    strides, step = [0] * len(shape), 1
    for dim in order:
        strides[dim] = step
        step *= shape[dim]
    return strides


def contiguous(shape: Sequence[int]) -> list[int]:
    strides, step = [], 1
    for size in reversed(shape):
        strides.append(step)
        step *= max(size, 1)
    return strides[::-1]


def _broadcast_strides(tensor: Tensor, shape: Sequence[int]) -> list[int]:
    missing = len(shape) - tensor.dim()
    own = [
        0 if size == 1 and wanted != 1 else stride
        for size, stride, wanted in zip(tensor.shape, tensor.stride(), shape[missing:], strict=True)
    ]
    return [0] * missing + own


def _iteration_order(shape: Sequence[int], operands: Sequence[Sequence[int]]) -> list[int]:
    """The dimensions from the fastest to the slowest: an insertion sort by the first operand's strides that tell."""

    def compare(a: int, b: int) -> int:
        for strides in operands:
            if strides[a] == 0 or strides[b] == 0:
                continue
            if strides[a] != strides[b]:
                return -1 if strides[a] < strides[b] else 1
            if shape[a] > shape[b]:
                return 1
        return 0

    order = list(range(len(shape)))[::-1]
    for i in range(1, len(order)):
        at = i
        for before in range(i - 1, -1, -1):
            relation = compare(order[before], order[at])
            if relation > 0:
                order[before], order[at] = order[at], order[before]
                at = before
            elif relation < 0:
                break
    return order


# ---- others ----------------------------------------------------------------------------------------------------------


def _rule(*ops: OpOverload) -> Callable[[Rule], Rule]:
    def register(rule: Rule) -> Rule:
        for op in ops:
            _RULES[op] = rule
        return rule

    return register


@_rule(aten.mm.default)
def _mm(a: Tensor, b: Tensor) -> Layout | None:
    if a.dim() != 2 or b.dim() != 2 or a.shape[1] != b.shape[0] or a.dtype != b.dtype:
        return None
    shape = (a.shape[0], b.shape[1])
    return shape, contiguous(shape), a.dtype


@_rule(aten.addmm.default)
def _addmm(bias: Tensor, a: Tensor, b: Tensor, *, beta: Any = 1, alpha: Any = 1) -> Layout | None:
    return _mm(a, b) if bias.dtype == a.dtype and bias.dim() == 1 and bias.shape[0] == b.shape[-1] else None


@_rule(aten.bmm.default)
def _bmm(a: Tensor, b: Tensor) -> Layout | None:
    if a.dim() != 3 or b.dim() != 3 or a.shape[0] != b.shape[0] or a.shape[2] != b.shape[1] or a.dtype != b.dtype:
        return None
    shape = (a.shape[0], a.shape[1], b.shape[2])
    return shape, contiguous(shape), a.dtype


@_rule(aten._softmax.default, aten._log_softmax.default)
def _softmax(x: Tensor, dim: int, half_to_float: bool) -> Layout | None:
    if half_to_float or not x.is_floating_point() or not x.is_contiguous():
        return None
    return x.shape, contiguous(x.shape), x.dtype


@_rule(aten.native_layer_norm.default)
def _layer_norm(x: Tensor, shape: list[int], weight: Any, bias: Any, eps: float) -> tuple[Layout, ...] | None:
    rank = x.dim() - len(shape)
    parameters = [p for p in (weight, bias) if p is not None]
    if any(p.dtype != x.dtype for p in parameters):
        return None
    if any(list(sizes) != list(shape) for sizes in (x.shape[rank:], *(p.shape for p in parameters))):
        return None
    inner = (*x.shape[:rank], *(1,) * len(shape))
    statistics = inner, contiguous(inner), x.dtype
    return (x.shape, contiguous(x.shape), x.dtype), statistics, statistics


@_rule(aten.embedding.default)
def _embedding(weight: Tensor, indices: Tensor, *_: Any, **__: Any) -> Layout | None:
    if weight.dim() != 2:
        return None
    shape = (*indices.shape, weight.shape[1])
    return shape, contiguous(shape), weight.dtype


@_rule(aten.cat.default)
def _cat(tensors: Sequence[Tensor], dim: int = 0) -> Layout | None:
    first = tensors[0]
    d = dim % max(first.dim(), 1)
    if suggested_format(first) is not torch.contiguous_format:  # which tensors with sizes of 1 may do too
        return None
    for x in tensors:
        alike = x.dim() == first.dim() and x.dtype == first.dtype and x.is_contiguous() and 0 not in x.shape
        if not alike or any(n != m for k, (n, m) in enumerate(zip(x.shape, first.shape, strict=True)) if k != d):
            return None
    if not first.dim():
        return None
    shape = (*first.shape[:d], sum(x.shape[d] for x in tensors), *first.shape[d + 1 :])
    return shape, contiguous(shape), first.dtype


@_rule(
    *(aten.empty_like.default, aten.zeros_like.default, aten.ones_like.default, aten.full_like.default),
    *(aten.rand_like.default, aten.randn_like.default, aten.randint_like.default, aten.randint_like.low_dtype),
)
def _like(x: Tensor, *_: Any, dtype: Any = None, memory_format: Any = None, **others: Any) -> Layout | None:
    """The strides are kept, those of dimensions of size 1 too, which the meta kernels make anew."""
    device, layout = others.get("device"), others.get("layout")
    ordinary = layout in (None, torch.strided) and torch.device(device or "cpu").type == "cpu"
    if not ordinary or others.get("pin_memory") or memory_format not in (None, torch.preserve_format):
        return None
    return (x.shape, x.stride(), dtype or x.dtype) if x.numel() and is_dense(x.shape, x.stride()) else None


@_rule(aten.isinf.default)
def _isinf(x: Tensor) -> Layout | None:
    """Of numbers that cannot be infinite, it is made as by `zeros_like`."""
    never = not x.is_floating_point() and not x.is_complex()
    return (_like(x, dtype=torch.bool) if never else None) or _elementwise(aten.isinf.default, (x,), {}, (x,))


@_rule(aten.ldexp.Tensor)
def _ldexp(x: Tensor, exponent: Tensor) -> Layout | None:
    """A product with powers of two, which are contiguous."""
    if not isinstance(x, Tensor) or not isinstance(exponent, Tensor) or exponent.is_complex():
        return None
    dtype = aten.pow.Scalar(2.0, _sample(exponent)).dtype
    powers = torch.empty(exponent.shape, dtype=dtype, device="meta")
    return _elementwise(aten.mul.Tensor, (x, powers), {}, (x, powers))


@_rule(aten.view_copy.default)
def _view_copy(x: Tensor, size: list[int]) -> Layout | None:
    """It takes any strides, unlike its meta kernel."""
    known = math.prod(n for n in size if n != -1)
    shape = [x.numel() // max(known, 1) if n == -1 else n for n in size]
    if size.count(-1) > 1 or any(n < 0 for n in shape) or not known or math.prod(shape) != x.numel():
        return None
    return shape, contiguous(shape), x.dtype


def _reduced(x: Tensor, dims: Any, keepdim: bool, dtype: torch.dtype) -> Layout | None:
    named = range(x.dim()) if not dims else [d % max(x.dim(), 1) for d in dims]
    if not x.is_contiguous() or any(not -max(x.dim(), 1) <= d < max(x.dim(), 1) for d in dims or ()):
        return None
    if len(set(named)) != len(named):
        return None
    shape = [1 if d in named else n for d, n in enumerate(x.shape) if keepdim or d not in named]
    return shape, contiguous(shape), dtype


@_rule(aten.sum.default, aten.sum.dim_IntList)
def _sum(x: Tensor, dims: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Layout | None:
    small = x.dtype.is_floating_point or x.dtype.is_complex
    return _reduced(x, dims, keepdim, dtype or (x.dtype if small else torch.int64))


@_rule(aten.mean.default, aten.mean.dim)
def _mean(x: Tensor, dims: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Layout | None:
    return _reduced(x, dims, keepdim, dtype or x.dtype) if (dtype or x.dtype).is_floating_point else None


@_rule(aten.amax.default, aten.amin.default)
def _amax(x: Tensor, dims: Any = (), keepdim: bool = False) -> Layout | None:
    return _reduced(x, dims, keepdim, x.dtype) if x.numel() else None
