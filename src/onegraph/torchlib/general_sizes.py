"""Operators on tensors whose sizes are symbols that may be 0 and 1.

Here are the rules for their results, in which nothing is asked that does not decide what the operator does. Any other
operator is asked of sizes from 2 on (`Sizes.narrow`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from onegraph.torchlib.aten import functional_form
from onegraph.torchlib.iterator import certain_broadcast
from onegraph.torchlib.layouts import GENERAL, RULES, Layout
from onegraph.torchlib.layouts.registry import laid_out
from onegraph.torchlib.private import OpOverload
from onegraph.torchlib.quick_meta import MADE_LIKE, has_numbers, is_elementwise, is_in_place, is_lenient, sample
from onegraph.torchlib.shapes import Sizes
from onegraph.torchlib.strides import contiguous, is_certainly, is_certainly_dense, is_certainly_equal
from onegraph.torchlib.symbolic_views import (
    contiguous_view,
    expanded,
    permuted,
    selected,
    sliced,
    split,
    strided_view,
    transposed,
    unbound,
    unsqueezed,
)

aten = torch.ops.aten

#: Their kernels ask nothing but what decides what they do, whatever the sizes.
ASKING = frozenset(
    {
        *(aten.squeeze.default, aten.squeeze.dim, aten.squeeze.dims, aten.detach.default, aten.alias.default),
        *(
            aten.scalar_tensor.default,
            aten.sym_size.int,
            aten.sym_stride.int,
            aten.sym_numel.default,
            aten.sym_storage_offset.default,
        ),
    }
)
#: What writes to places of a tensor, whatever these are: the result of the form that makes a new one has its sizes.
PUTTING = frozenset({aten.index_put.default, aten.index_add.default})
_FILLING = frozenset({aten.fill_.Scalar, aten.fill_.Tensor, aten.zero_.default})
_VIEWS: dict[OpOverload, Callable[..., Any]] = {
    aten.slice.Tensor: sliced,
    aten.select.int: selected,
    aten.expand.default: expanded,
    aten.unsqueeze.default: unsqueezed,
    aten.permute.default: permuted,
    aten.transpose.int: transposed,
    aten.t.default: transposed,
    aten.unbind.int: unbound,
    aten.split_with_sizes.default: split,
}


def general_view(sizes: Sizes, func: OpOverload, args: Sequence[Any], kwargs: Any) -> Any:
    """The meta tensor that a view is, or a list of them, or None where there is no rule for the call."""
    if args and isinstance(args[0], Tensor) and (args[0].is_conj() or args[0].is_neg()):
        return None
    rule = _VIEWS.get(func)
    if rule is not None:
        return rule(sizes, *args, **kwargs)
    found = contiguous_view(sizes, func, args)
    return strided_view(sizes, func, args) if found is None else found


def is_itself(func: OpOverload, args: Sequence[Any], kwargs: Any, tensors: Sequence[Tensor]) -> bool:
    """Whether a call gives its first argument, which it writes to and which has the sizes of the result."""
    if is_in_place(func) and (twin := functional_form(func)) in PUTTING:
        return RULES[twin](*args, **kwargs) is not None
    if not tensors or func not in _FILLING and not (is_lenient(func) and is_in_place(func)):
        return False
    shape = certain_broadcast([tensor.shape for tensor in tensors])
    return shape is not None and is_certainly_shape(tensors[0], shape)


def is_certainly_shape(tensor: Tensor, shape: Sequence[Any]) -> bool:
    """Whether a tensor has these sizes in every call."""
    return tensor.dim() == len(shape) and all(map(is_certainly_equal, tensor.shape, shape))


def general_layout(func: OpOverload, args: Sequence[Any], kwargs: Any, tensors: Sequence[Tensor]) -> Any:
    """What the results are (one layout or a tuple of them), or None where there is no rule for the call."""
    if func in FACTORIES:
        return _made(func, args, kwargs)
    if func is aten.empty_strided.default:
        return _strided(*args, **kwargs)
    if func in COPIES:
        return _copied(*args, **kwargs)
    if func in GENERAL:
        return RULES[func](*args, **kwargs)
    return _elementwise(func, args, kwargs, tensors) if tensors and is_elementwise(func) else None


def _elementwise(func: OpOverload, args: Sequence[Any], kwargs: Any, tensors: Sequence[Tensor]) -> Layout | None:
    """The operands are contiguous, or have one dimension at most: so is the result."""
    flat = all(tensor.dim() <= 1 for tensor in tensors) and func not in MADE_LIKE
    if not (flat or all(map(is_as_new, tensors))):
        return None
    made = sample(func, args, kwargs)
    shape = certain_broadcast([tensor.shape for tensor in tensors])
    if shape is None or type(made) is not Tensor or tuple(made.shape) != (1,) * len(shape):
        return None
    alike = [is_certainly_shape(tensor, shape) for tensor in tensors]
    if func in MADE_LIKE and not alike[0]:
        return None
    if (not all(alike) or has_numbers(func, args, tensors)) and not keeps_order(shape):
        return None
    return laid_out(shape, made.dtype)


def is_as_new(tensor: Tensor) -> bool:
    """Whether a tensor has the strides of a new one in every call, in dimensions of size 1, too."""
    return all(map(is_certainly_equal, tensor.stride(), contiguous(tensor.shape)))


def keeps_order(shape: Sequence[Any]) -> bool:
    """Whether torch's iterator goes through contiguous operands in their order, where it sorts the dimensions.

    It does not where an empty one stands before one of size 1.
    """
    for dim, size in enumerate(shape):
        if any(may_be_one(inner) for inner in shape[dim + 1 :]) and not size > 0:
            return False
    return True


def may_be_one(size: Any) -> bool:
    """Whether a size is 1 in some call; it asks nothing."""
    return not is_certainly(size != 1)


# ---- new tensors -----------------------------------------------------------------------------------------------------


def _shape_of(size: Sequence[Any]) -> Sequence[Any] | None:
    return size if all(n >= 0 for n in size) else None


def _first(size: Any, *_: Any) -> Sequence[Any] | None:
    return _shape_of(size)


def _second(x: Tensor, size: Any, *_: Any) -> Sequence[Any] | None:
    return _shape_of(size)


def _counted(*numbers: Any) -> Sequence[Any] | None:
    """As many as there are whole numbers from the first to the last."""
    start, end, step = {1: (0, *numbers, 1), 2: (*numbers, 1)}.get(len(numbers), numbers)
    if not all(isinstance(n, int | torch.SymInt) for n in (start, end)) or type(step) is not int or step != 1:
        return None
    return _shape_of([end - start])


FACTORIES: dict[OpOverload, Callable[..., Sequence[Any] | None]] = {
    **dict.fromkeys((aten.full.default, aten.zeros.default, aten.ones.default, aten.empty.memory_format), _first),
    **dict.fromkeys(
        (aten.new_zeros.default, aten.new_ones.default, aten.new_full.default, aten.new_empty.default), _second
    ),
    **dict.fromkeys((aten.arange.default, aten.arange.start, aten.arange.start_step), _counted),
}
_SIZED = {_first: 0, _second: 1}


def _made(func: OpOverload, args: Sequence[Any], kwargs: Any) -> Layout | None:
    """Contiguous; of the type that the operator gives for one element."""
    options = dict(kwargs)
    device = torch.device(options.pop("device", None) or _device(args))
    ordinary = options.pop("layout", None) in (None, torch.strided) and not options.pop("pin_memory", None)
    if (
        device.type != "cpu"
        or not ordinary
        or options.pop("memory_format", None) not in (None, torch.contiguous_format)
    ):
        return None
    shape = FACTORIES[func](*args)
    if shape is None:
        return None
    place = _SIZED.get(FACTORIES[func])
    given = [[1] * len(shape) if at == place else value for at, value in enumerate(args)]
    return laid_out(shape, sample(func, given, {**options, "device": "cpu"}).dtype)


def _strided(size: Sequence[Any], stride: Sequence[Any], *, dtype: Any = None, **others: Any) -> Layout | None:
    """With the strides that are given."""
    ordinary = others.get("layout") in (None, torch.strided) and not others.get("pin_memory")
    alike = ordinary and torch.device(others.get("device") or torch.get_default_device()).type == "cpu"
    shape = _shape_of(size) if alike and len(size) == len(stride) else None
    return None if shape is None else (shape, stride, dtype or torch.get_default_dtype())


COPIES = frozenset(
    {
        *(aten.clone.default, aten._to_copy.default, aten.empty_like.default, aten.zeros_like.default),
        *(aten.ones_like.default, aten.full_like.default, aten.fill.Scalar, aten.fill.Tensor),
    }
)
_KEPT = (None, torch.preserve_format, torch.contiguous_format)


def _copied(x: Tensor, *_: Any, dtype: Any = None, memory_format: Any = None, **others: Any) -> Layout | None:
    """A tensor with the strides of one that fills its memory, or a contiguous one if that is asked for."""
    ordinary = others.get("layout") in (None, torch.strided) and not others.get("pin_memory")
    if not ordinary or memory_format not in _KEPT or torch.device(others.get("device") or "cpu").type != "cpu":
        return None
    if memory_format is torch.contiguous_format:
        return laid_out(x.shape, dtype or x.dtype)
    return (x.shape, x.stride(), dtype or x.dtype) if is_certainly_dense(x) else None


def _device(args: Sequence[Any]) -> Any:
    return args[0].device if args and isinstance(args[0], Tensor) else torch.get_default_device()
