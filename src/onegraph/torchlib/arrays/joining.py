"""Functions that choose, join and arrange elements."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np
import torch

from onegraph.torchlib.arrays.array import FUNCTIONS, METHODS, SIZES, Array, holds_arrays, result, tensor_of
from onegraph.torchlib.arrays.elements import CPU, Unsupported, numpy_type, torch_type
from onegraph.torchlib.arrays.making import asarray, sizes_of
from onegraph.torchlib.arrays.reductions import axes_of, axis_of, of
from onegraph.torchlib.arrays.ufuncs import call_ufunc, written


def alike(arrays: Any) -> list[torch.Tensor]:
    """Arrays with elements of the type to which all of theirs are promoted."""
    if not isinstance(arrays, tuple | list):
        raise Unsupported("a sequence that is an array")
    tensors = [tensor_of(each) for each in arrays]
    wanted = torch_type(np.result_type(*map(numpy_type, tensors)))
    return [each.to(wanted) for each in tensors]


@of(np.concatenate, np.concat)
def concatenate(arrays: Any, /, axis: Any = 0, out: Any = None) -> Any:
    tensors = alike(arrays)
    if axis is None:
        return written(torch.cat([each.reshape(-1) for each in tensors]), out)
    (dim,) = axes_of(tensors[0], axis)
    if any(each.dim() != tensors[0].dim() for each in tensors):
        raise Unsupported("arrays of different dimensions")
    return written(torch.cat(tensors, dim), out)


@of(np.stack)
def stack(arrays: Any, axis: Any = 0, out: Any = None) -> Any:
    return written(torch.stack(alike(arrays), operator.index(axis)), out)


def _stacked(function: Any, join: Any) -> None:
    FUNCTIONS[function] = lambda tup: Array(join(alike(tup)))


_stacked(np.vstack, torch.vstack)
_stacked(np.hstack, torch.hstack)
_stacked(np.dstack, torch.dstack)
_stacked(np.column_stack, torch.column_stack)


@of(np.where)
def where(condition: Any, /, *choices: Any) -> Array:
    if len(choices) != 2:
        raise Unsupported("numpy.where of a condition alone")
    test = tensor_of(condition)
    test = test if test.dtype is torch.bool else test != 0
    kinds = [each if type(each) in (int, float, complex) else numpy_type(tensor_of(each)) for each in choices]
    wanted = torch_type(np.result_type(*kinds))
    first, second = (tensor_of(each).to(wanted) for each in choices)
    return Array(torch.where(test, first, second))


@of(np.take, method="take")
def take(a: Any, indices: Any, axis: Any = None, out: Any = None, mode: Any = "raise") -> Any:
    tensor, dim = axis_of(tensor_of(a), axis)
    places = tensor_of(indices)
    if mode != "raise" or places.dtype.is_floating_point or places.dtype in (torch.bool, torch.complex64):
        raise Unsupported(f"numpy.take with mode={mode!r}")
    index = (slice(None),) * dim + (places.to(torch.int64),)
    return written(tensor[index], out)


@of(np.take_along_axis)
def take_along_axis(arr: Any, indices: Any, axis: Any = -1) -> Array:
    tensor, dim = axis_of(tensor_of(arr), axis)
    places = tensor_of(indices).to(torch.int64)
    size = tensor.shape[dim]
    return Array(torch.take_along_dim(tensor, torch.where(places < 0, places + size, places), dim))


@of(np.repeat, method="repeat")
def repeat(a: Any, repeats: Any, axis: Any = None) -> Array:
    tensor, dim = axis_of(tensor_of(a), axis)
    if not isinstance(repeats, SIZES):
        raise Unsupported("numpy.repeat by an array")
    return Array(tensor.repeat_interleave(repeats, dim))


@of(np.tile)
def tile(A: Any, reps: Any) -> Array:
    return Array(torch.tile(tensor_of(A), sizes_of(reps)).clone())


@of(np.roll)
def roll(a: Any, shift: Any, axis: Any = None) -> Array:
    tensor, shifts = tensor_of(a), sizes_of(shift)
    if axis is None and len(shifts) == 1:
        return Array(tensor.roll(shifts[0]))
    axes = axes_of(tensor, axis)
    if len(shifts) == 1:
        shifts *= len(axes)
    if axis is None or len(shifts) != len(axes):
        raise Unsupported("numpy.roll by several numbers along one axis")
    return Array(tensor.roll(shifts, axes))


@of(np.fft.fftshift)
def fftshift(x: Any, axes: Any = None) -> Array:
    return shifted_by_half(x, axes, 1)


@of(np.fft.ifftshift)
def ifftshift(x: Any, axes: Any = None) -> Array:
    return shifted_by_half(x, axes, -1)


def shifted_by_half(x: Any, axes: Any, sign: int) -> Array:
    tensor = tensor_of(x)
    dims = axes_of(tensor, tuple(axes) if isinstance(axes, list) else axes)
    return Array(tensor.roll([sign * (tensor.shape[dim] // 2) for dim in dims], dims))


@of(np.append)
def append(arr: Any, values: Any, axis: Any = None) -> Any:
    return concatenate((arr, values), axis)


@of(np.tri)
def tri(N: Any, M: Any = None, k: Any = 0, dtype: Any = float) -> Array:
    rows, columns = (torch.arange(count, device=CPU) for count in (N, N if M is None else M))
    return Array((columns <= rows.unsqueeze(1) + operator.index(k)).to(torch_type(dtype)))


@of(np.pad)
def pad(array: Any, pad_width: Any, mode: Any = "constant", *, constant_values: Any = 0) -> Array:
    tensor = tensor_of(array)
    if mode != "constant" or holds_arrays(pad_width) or not isinstance(constant_values, int | float):
        raise Unsupported(f"numpy.pad with mode={mode!r}")
    widths = np.broadcast_to(np.asarray(pad_width), (tensor.dim(), 2)).tolist()
    if np.min(widths, initial=0) < 0 or isinstance(constant_values, float) > tensor.dtype.is_floating_point:
        raise Unsupported("numpy.pad of this form")
    sides = [side for pair in reversed(widths) for side in pair]
    return Array(torch.nn.functional.pad(tensor, sides, value=constant_values))


@of(np.tril)
def tril(m: Any, k: Any = 0) -> Array:
    return Array(torch.tril(matrix_of(m), k))


@of(np.triu)
def triu(m: Any, k: Any = 0) -> Array:
    return Array(torch.triu(matrix_of(m), k))


def matrix_of(m: Any) -> torch.Tensor:
    tensor = tensor_of(m)
    if tensor.dim() < 2:
        raise Unsupported("a triangle of an array that is no matrix")
    return tensor


@of(np.diff)
def diff(a: Any, n: Any = 1, axis: Any = -1) -> Any:
    made = asarray(a)
    (dim,) = axes_of(made.tensor, axis)
    if n < 0:
        raise Unsupported("numpy.diff of a negative order")
    ufunc = np.not_equal if made.tensor.dtype is torch.bool else np.subtract
    for _ in range(n):
        before = (slice(None),) * dim
        made = call_ufunc(ufunc, made[(*before, slice(1, None))], made[(*before, slice(None, -1))])
    return made


@of(np.meshgrid)
def meshgrid(*xi: Any, copy: Any = True, sparse: Any = False, indexing: Any = "xy") -> tuple[Array, ...]:
    if sparse or copy is not True or indexing not in ("xy", "ij"):
        raise Unsupported("numpy.meshgrid of this form")
    made = torch.meshgrid(*(tensor_of(each).reshape(-1) for each in xi), indexing=indexing)
    return tuple(Array(each.clone(memory_format=torch.contiguous_format)) for each in made)


@of(np.clip)
def clip(a: Any, a_min: Any = None, a_max: Any = None, out: Any = None, *, min: Any = None, max: Any = None) -> Any:
    low, high = (a_min if min is None else min), (a_max if max is None else max)
    made = a if isinstance(a, Array) else asarray(a)
    if low is None and high is None or not isinstance(made, Array):
        raise Unsupported("numpy.clip without bounds")
    bounds = [each for each in (low, high) if each is not None]
    kinds = [each if type(each) in (int, float) else numpy_type(tensor_of(each)) for each in (made, *bounds)]
    made = Array(made.read().to(torch_type(np.result_type(*kinds))), is_scalar=made.is_scalar)
    for bound, ufunc in ((low, np.maximum), (high, np.minimum)):
        made = made if bound is None else call_ufunc(ufunc, made, bound)
    return made if out is None else written(made.tensor, out)


METHODS["clip"] = lambda self, min=None, max=None, out=None: clip(self, min, max, out)


@of(np.round, np.around, method="round")
def round(a: Any, decimals: Any = 0, out: Any = None) -> Any:
    tensor = tensor_of(a)
    places = operator.index(decimals)
    if tensor.dtype.is_complex or tensor.dtype is torch.bool or not tensor.dtype.is_floating_point and places < 0:
        raise Unsupported("numpy.round of complex numbers, or of integers to tens")
    if not tensor.dtype.is_floating_point:
        return written(tensor.clone(), out)
    scale = 10.0 ** abs(places)
    if places:
        scaled = tensor * scale if places > 0 else tensor / scale
        return written(scaled.round() / scale if places > 0 else scaled.round() * scale, out)
    return written(tensor.round(), out)


@of(np.nan_to_num)
def nan_to_num(x: Any, copy: Any = True, nan: Any = 0.0, posinf: Any = None, neginf: Any = None) -> Any:
    tensor = tensor_of(x)
    if copy is not True or tensor.dtype.is_complex:
        raise Unsupported("numpy.nan_to_num in place, or of complex numbers")
    return result(tensor.nan_to_num(nan, posinf, neginf) if tensor.dtype.is_floating_point else tensor.clone())


@of(np.isclose)
def isclose(a: Any, b: Any, rtol: Any = 1e-5, atol: Any = 1e-8, equal_nan: Any = False) -> Any:
    left, right = alike((a, b))
    if left.dtype.is_complex:
        raise Unsupported("numpy.isclose of complex numbers")
    if not left.dtype.is_floating_point:
        left, right = left.to(torch.float64), right.to(torch.float64)
    near = (left - right).abs() <= atol + rtol * right.abs()
    made = torch.where(left.isfinite() & right.isfinite(), near, left == right)
    return result(made | left.isnan() & right.isnan() if equal_nan else made)
