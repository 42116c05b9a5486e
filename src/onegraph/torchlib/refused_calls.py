"""Calls that real kernels refuse or warn of, and that rules for layouts and meta kernels let pass.

The real operator is asked, on tensors as small as they can be, so that the error is its own.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from onegraph.torchlib import private
from onegraph.torchlib.aten import map_leaves
from onegraph.torchlib.iterator import broadcast, certain_broadcast
from onegraph.torchlib.private import OpOverload
from onegraph.torchlib.quick_meta import INDEXING, check_masks
from onegraph.torchlib.strides import is_certainly_equal

aten = torch.ops.aten

#: Whether they accept tensors is decided by their ranks, their types, and whether they are empty.
_SMALL_TOO = frozenset(
    {
        *(aten.max.default, aten.min.default, aten.max.dim, aten.min.dim, aten.amax.default, aten.amin.default),
        *(aten.argmax.default, aten.argmin.default, aten.aminmax.default, aten.cat.default),
        *(aten.aminmax.out, aten.complex.out),
        *(aten._softmax.default, aten._log_softmax.default, aten._safe_softmax.default),
    }
)


def refuse(func: OpOverload, args: Sequence[Any], kwargs: Mapping[str, Any], plain: bool) -> None:
    """Refuse what the operator refuses. Only where all tensors are `plain` (dense, on the CPU), it is asked.

    Raises:
        Exception: what the operator raises for the program.
    """
    if func in INDEXING:
        check_masks(args[0], args[1])
    if plain and (func in _SMALL_TOO or func in _CHECKS):
        with private.DisableTorchDispatch():
            _try(func, args, kwargs)


def _try(func: OpOverload, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
    if func in _SMALL_TOO:
        func(*map_leaves(_small, list(args)), **map_leaves(_small, dict(kwargs)))
    else:
        _CHECKS[func](*args, **kwargs)


def _hint(number: Any) -> Any:
    """A size as it is in this trace, without a guard."""
    return number.node.hint if isinstance(number, torch.SymInt) else number


def _small(value: Any) -> Any:
    if not isinstance(value, Tensor):
        return value
    return torch.zeros([int(is_of_data(size) or size != 0) for size in value.shape], dtype=value.dtype)


def is_of_data(size: Any) -> bool:
    """Whether only the data say which size it is: it is not asked."""
    return isinstance(size, torch.SymInt) and bool(size.node.sizes.data.are_in(size.node.value))


# ---- operators whose sizes decide ------------------------------------------------------------------------------------

_CHECKS: dict[OpOverload, Callable[..., None]] = {}


def _spread(func: OpOverload) -> None:
    def check(x: Tensor, dims: Any = None, *, correction: Any = None, keepdim: bool = False) -> None:
        """A warning where there are no degrees of freedom."""
        rank = max(x.dim(), 1)
        if any(not -rank <= dim < rank for dim in dims or ()):
            return
        reduced = {dim % rank for dim in dims or range(rank)}
        kept = [size for dim, size in enumerate(x.shape) if dim not in reduced]
        count = 0 if 0 in kept else math.prod(size for dim, size in enumerate(x.shape) if dim in reduced)
        if count <= (1 if correction is None else correction):
            getattr(torch, func._schema.name.removeprefix("aten::"))(torch.zeros(1))

    _CHECKS[func] = check


for _func in (aten.var.correction, aten.std.correction, aten.var_mean.correction, aten.std_mean.correction):
    _spread(_func)


def _cholesky(x: Tensor, upper: bool = False) -> None:
    """It is deprecated, which the real one says."""
    torch.cholesky(torch.ones(1, 1))


def _triangular_solve(*_: Any, **__: Any) -> None:
    torch.triangular_solve(torch.ones(1, 1), torch.ones(1, 1))


def _searched(sequence: Tensor, x: Any, *_: Any, sorter: Tensor | None = None, **__: Any) -> None:
    """What does not lie in order is copied, of which the real one warns."""
    if any(isinstance(t, Tensor) and not t.is_contiguous() for t in (sequence, x, sorter)):
        torch.searchsorted(_zeros(sequence), _zeros(x), sorter=None if sorter is None else _zeros(sorter))


def _bucketized(x: Any, boundaries: Tensor, **_: Any) -> None:
    if not boundaries.is_contiguous() or (isinstance(x, Tensor) and not x.is_contiguous()):
        torch.bucketize(_zeros(x), _zeros(boundaries))


def _scatter(x: Tensor, dim: int, index: Tensor, source: Tensor, *, reduce: str) -> None:
    torch.scatter(torch.ones(1), 0, torch.zeros(1, dtype=torch.int64), torch.ones(1), reduce=reduce)


def _scalar(func: OpOverload) -> None:
    def check(x: Tensor, dim: int) -> None:
        """A tensor without dimensions has a first one, as for other reductions."""
        if not x.dim():
            func(torch.ones((), dtype=x.dtype), dim)

    _CHECKS[func] = check


_scalar(aten.cummax.default)
_scalar(aten.cummin.default)


# ---- operators that are asked again, at the sizes of the call, where it looks wrong ----------------------------------


def _zeros(value: Any) -> Any:
    if not isinstance(value, Tensor):
        return _hint(value)
    sizes, strides = ([_hint(number) for number in numbers] for numbers in (value.shape, value.stride()))
    return torch.empty_strided(sizes, strides, dtype=value.dtype).zero_()


def _doubted(looks_wrong: Callable[..., bool], *funcs: OpOverload) -> None:
    def asking(func: OpOverload) -> Callable[..., None]:
        def check(*args: Any, **kwargs: Any) -> None:
            if looks_wrong(*args, **kwargs):
                func(*map_leaves(_zeros, list(args)), **map_leaves(_zeros, dict(kwargs)))

        return check

    _CHECKS.update({func: asking(func) for func in funcs})


def _steps_back(*args: Any, **_: Any) -> bool:
    """There are no strides below zero."""
    size, stride = args[-2:]
    return any(_hint(step) < 0 for step in stride) and 0 not in map(_hint, size)


def _groups_of_others(x: Tensor, weight: Tensor | None, bias: Tensor | None, _: Any, channels: Any, *__: Any) -> bool:
    """Weights have one number for each channel: kernels would read beyond them."""
    return any(each is not None and each.numel() != channels for each in (weight, bias))


def _nothing_normalized(x: Tensor, normalized_shape: Sequence[Any], *_: Any) -> bool:
    return not normalized_shape


def _targets_of_others(x: Tensor, target: Tensor, weight: Tensor | None = None, *_: Any) -> bool:
    """A target for each place of a picture, and a weight for each class."""
    if x.dim() != 4 or target.shape != (x.shape[0], *x.shape[2:]):
        return True
    return weight is not None and weight.numel() != x.shape[1]


def _rolls_nothing(x: Tensor, shifts: Sequence[Any], dims: Sequence[int] = (), **_: Any) -> bool:
    return not x.dim() and bool(dims)


def _not_positive(x: Tensor, y: Tensor, reduction: Any = None, delta: Any = 1.0) -> bool:
    return bool(delta <= 0)


def _below_zero(x: Tensor, y: Tensor, reduction: Any = None, beta: Any = 1.0) -> bool:
    return bool(beta < 0)


def _wider(x: Tensor, y: Tensor, *_: Any) -> bool:
    """The loss has the sizes of its first argument."""
    return broadcast([x.shape, y.shape], max(x.dim(), y.dim())) != x.shape


def _has_a_rest(x: Tensor, factor: int) -> bool:
    return x.dim() < 3 or factor <= 0 or any(_hint(size) % factor for size in x.shape[-2:])


def _indexes_nothing(x: Tensor, dim: int, index: Tensor, *_: Any) -> bool:
    return bool(not x.numel() and index.numel())


def _adds_others(x: Tensor, dim: int, index: Tensor, source: Tensor, **_: Any) -> bool:
    """An index for each slice of the source, and slices of the same sizes: kernels would read beyond them."""
    if x.dim() != source.dim() or not -x.dim() <= dim < max(x.dim(), 1):
        return True
    dim = dim % max(x.dim(), 1)
    slices = source.shape[dim] if source.dim() else 1
    if index.numel() != slices or (x.dim() and not x.shape[dim] and slices):
        return True
    return any(a != b for d, (a, b) in enumerate(zip(x.shape, source.shape, strict=True)) if d != dim)


def _not_into_indices(*_: Any, out: Tensor, **__: Any) -> bool:
    return out.dtype != torch.int64


def _resized_to_nothing(x: Tensor, size: Sequence[Any], *_: Any, **__: Any) -> bool:
    return any(_hint(n) < 1 for n in size)


_doubted(_steps_back, aten.empty_strided.default, aten.new_empty_strided.default)
_doubted(_groups_of_others, aten.native_group_norm.default)
_doubted(_nothing_normalized, aten.native_layer_norm.default)
_doubted(_targets_of_others, aten.nll_loss2d_forward.default)
_doubted(_rolls_nothing, aten.roll.default)
_doubted(_not_positive, aten.huber_loss.default)
_doubted(_below_zero, aten.smooth_l1_loss.default)
_doubted(_wider, aten.soft_margin_loss.default)
_doubted(_has_a_rest, aten.pixel_unshuffle.default)
_doubted(_indexes_nothing, aten.index_fill.int_Scalar, aten.index_fill.int_Tensor)
_doubted(_indexes_nothing, aten.index_fill_.int_Scalar, aten.index_fill_.int_Tensor)
_doubted(
    _adds_others, aten.index_add.default, aten.index_add_.default, aten.index_copy.default, aten.index_copy_.default
)
_doubted(_not_into_indices, aten.multinomial.out)
_doubted(_resized_to_nothing, aten.upsample_linear1d.default, aten.upsample_bilinear2d.default)
_doubted(_resized_to_nothing, aten.upsample_bicubic2d.default, aten.upsample_trilinear3d.default)

# ---- operators with rules of their own -------------------------------------------------------------------------------


def _index_reduce(x: Tensor, dim: int, index: Tensor, source: Tensor, reduce: str, **_: Any) -> None:
    """It is new, which the real one says."""
    torch.index_reduce(torch.ones(1), 0, torch.zeros(1, dtype=torch.int64), torch.ones(1), reduce)


def _replaced(func: OpOverload, piece: Callable[..., Tensor]) -> None:
    def check(x: Tensor, source: Tensor, *args: Any, **kwargs: Any) -> None:
        """What is written has the sizes of what it is written to: kernels would read beyond it."""
        whole = torch.empty([_hint(n) for n in x.shape], device="meta")
        size = list(piece(whole, *map(_hint, args), **{name: _hint(n) for name, n in kwargs.items()}).shape)
        given = [_hint(n) for n in source.shape]
        if size != given:
            raise RuntimeError(
                f"expected src to have a size equal to the slice of self. src size = {given}, slice size = {size}"
            )

    _CHECKS[func] = check


_replaced(aten.select_scatter.default, aten.select.int)
_replaced(aten.slice_scatter.default, aten.slice.Tensor)
_replaced(aten.diagonal_scatter.default, aten.diagonal.default)


def _put(x: Tensor, index: Tensor, source: Tensor, *_: Any) -> None:
    if not x.numel() and index.numel():
        aten.put.default(torch.ones(0), torch.zeros(1, dtype=torch.int64), torch.ones(1))
    if index.numel() != source.numel():
        aten.put.default(torch.ones(1), torch.zeros(2, dtype=torch.int64), torch.ones(1))


def _index_put(x: Tensor, indices: Sequence[Tensor | None], values: Tensor, *_: Any) -> None:
    """The values spread over what is indexed, by whole numbers that stand together or not."""
    given = [index for index in indices if index is not None]
    if not given or any(index.dtype in (torch.bool, torch.uint8) for index in given):
        return
    shapes = [index.shape for index in given]
    shape = certain_broadcast(shapes) or broadcast(shapes, max(map(len, shapes)))
    if shape is None or len(indices) > x.dim():
        return
    named = [dim for dim, index in enumerate(indices) if index is not None]
    if any(is_certainly_equal(x.shape[dim], 0) for dim in named) and 0 not in shape:
        aten.index_put.default(torch.ones(0), [torch.zeros(1, dtype=torch.int64)], torch.ones(1))
    rest = [dim for dim in range(x.dim()) if dim not in named]
    first = named[0] if named == list(range(named[0], named[-1] + 1)) else 0
    size = (*(x.shape[dim] for dim in rest[:first]), *shape, *(x.shape[dim] for dim in rest[first:]))
    found = certain_broadcast([values.shape, size])
    if found is not None and len(found) == len(size) and all(map(is_certainly_equal, found, size)):
        return
    if values.dim() > len(size) or broadcast([values.shape, size], len(size)) != size:
        raise RuntimeError(
            f"shape mismatch: value tensor of shape {list(values.shape)} cannot be broadcast to indexing result of"
            f" shape {list(size)}"
        )


_CHECKS[aten.put.default] = _CHECKS[aten.put_.default] = _put
for _func in (aten.index_put.default, aten.index_put_.default, aten._index_put_impl_.default):
    _CHECKS[_func] = _index_put
if hasattr(aten, "cholesky"):  # torch 2.14 has removed it
    _CHECKS[aten.cholesky.default] = _cholesky
_CHECKS[aten.searchsorted.Tensor] = _CHECKS[aten.searchsorted.Scalar] = _searched
_CHECKS[aten.bucketize.Tensor] = _CHECKS[aten.bucketize.Scalar] = _bucketized
_CHECKS[aten.triangular_solve.default] = _triangular_solve
_CHECKS[aten.scatter.reduce] = _CHECKS[aten.scatter_.reduce] = _scatter
_CHECKS[aten.index_reduce.default] = _CHECKS[aten.index_reduce_.default] = _index_reduce
