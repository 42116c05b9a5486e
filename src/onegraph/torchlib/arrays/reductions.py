"""Functions that reduce or accumulate along axes, and those that sort."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
import torch

from onegraph.torchlib.arrays.array import FUNCTIONS, METHODS, Array, result, tensor_of
from onegraph.torchlib.arrays.elements import Unsupported, numpy_type, torch_type
from onegraph.torchlib.arrays.ufuncs import written

Reduction = Callable[..., torch.Tensor]
M = TypeVar("M", bound=Callable[..., Any])


def axes_of(tensor: torch.Tensor, axis: Any) -> tuple[int, ...]:
    """The dimensions that `axis` names; all of them for None."""
    if axis is None:
        return tuple(range(tensor.dim()))
    given = axis if isinstance(axis, tuple) else (axis,)
    found = tuple(operator.index(each) for each in given)
    if any(not -tensor.dim() <= each < tensor.dim() for each in found):
        raise Unsupported("an axis that there is not")
    return tuple(each % tensor.dim() for each in found)


def axis_of(tensor: torch.Tensor, axis: Any) -> tuple[torch.Tensor, int]:
    """A tensor and the one dimension along which it is reduced: that of all elements for None."""
    if axis is None:
        return tensor.reshape(-1), 0
    (dim,) = axes_of(tensor, axis)
    return tensor, dim


def accumulated(tensor: torch.Tensor, dtype: Any) -> torch.Tensor:
    """What sums and products are computed in: small integers as large ones."""
    if dtype is not None:
        return converted(tensor, dtype)
    if tensor.dtype.is_floating_point or tensor.dtype.is_complex:
        return tensor
    if tensor.dtype is torch.uint8:
        raise Unsupported("a sum in unsigned integers")
    return tensor.to(torch.int64)


def converted(tensor: torch.Tensor, dtype: Any) -> torch.Tensor:
    wanted = torch_type(dtype)
    if tensor.dtype.is_complex and not wanted.is_complex:
        raise Unsupported("complex numbers without their imaginary parts, of which NumPy warns")
    return tensor.to(wanted)


def averaged(tensor: torch.Tensor, dtype: Any) -> torch.Tensor:
    """What means are computed in."""
    if dtype is not None:
        return converted(tensor, dtype)
    return tensor if tensor.dtype.is_floating_point or tensor.dtype.is_complex else tensor.to(torch.float64)


def product(tensor: torch.Tensor, axes: tuple[int, ...], keepdim: bool) -> torch.Tensor:
    for dim in sorted(axes, reverse=True):
        tensor = tensor.prod(dim, keepdim=keepdim)
    return tensor


def extreme(function: Any) -> Reduction:
    def reduced(tensor: torch.Tensor, axes: tuple[int, ...], keepdim: bool) -> torch.Tensor:
        if tensor.dtype.is_complex or not all(tensor.shape[dim] for dim in axes):
            raise Unsupported("an extreme of complex numbers, or of none")
        if tensor.dtype is torch.bool:
            return reduced(tensor.to(torch.uint8), axes, keepdim) != 0
        made: torch.Tensor = function(tensor, axes, keepdim)
        return made

    return reduced


def truth(function: Any) -> Reduction:
    def reduced(tensor: torch.Tensor, axes: tuple[int, ...], keepdim: bool) -> torch.Tensor:
        tensor = tensor if tensor.dtype is torch.bool else tensor != 0
        for dim in sorted(axes, reverse=True):
            tensor = function(tensor, dim, keepdim)
        return tensor

    return reduced


REDUCTIONS: dict[Any, tuple[Callable[[torch.Tensor, Any], torch.Tensor], Reduction]] = {
    np.sum: (accumulated, lambda tensor, axes, keepdim: tensor.sum(axes, keepdim)),
    np.prod: (accumulated, product),
    np.mean: (averaged, lambda tensor, axes, keepdim: tensor.mean(axes, keepdim)),
}
EXTREMES: dict[Any, Reduction] = {
    np.max: extreme(torch.amax),
    np.amax: extreme(torch.amax),
    np.min: extreme(torch.amin),
    np.amin: extreme(torch.amin),
    np.any: truth(torch.any),
    np.all: truth(torch.all),
}


def _reduction(function: Any, prepare: Any, reduce: Reduction) -> None:
    def reduced(a: Any, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: Any = False) -> Any:
        tensor = prepare(tensor_of(a), dtype)
        axes = axes_of(tensor, axis)
        return written(reduce(tensor, axes, keepdims is True) if axes else tensor.clone(), out)

    FUNCTIONS[function] = METHODS[function.__name__] = reduced


def _extreme(function: Any, reduce: Reduction) -> None:
    def reduced(a: Any, axis: Any = None, out: Any = None, keepdims: Any = False) -> Any:
        tensor = tensor_of(a)
        return written(reduce(tensor, axes_of(tensor, axis), keepdims is True), out)

    FUNCTIONS[function] = METHODS[function.__name__] = reduced


for _function, (_prepare, _reduce) in REDUCTIONS.items():
    _reduction(_function, _prepare, _reduce)
for _function, _reduce in EXTREMES.items():
    _extreme(_function, _reduce)


def of(*functions: Any, method: str | None = None) -> Callable[[M], M]:
    """Declare what these functions of NumPy do, and the method of arrays that takes the same arguments."""

    def register(meaning: M) -> M:
        FUNCTIONS.update(dict.fromkeys(functions, meaning))
        if method is not None:
            METHODS[method] = meaning
        return meaning

    return register


@of(np.var, method="var")
def var(a: Any, axis: Any = None, dtype: Any = None, out: Any = None, ddof: Any = 0, keepdims: Any = False) -> Any:
    given = tensor_of(a)
    tensor = averaged(given, dtype)
    axes = axes_of(tensor, axis)
    if not axes or given.dtype.is_complex or tensor.dtype.is_complex:
        raise Unsupported("a variance of one number, or of complex ones")
    with_mean = tensor - tensor.mean(axes, keepdim=True)
    count = 1
    for dim in axes:
        count = count * tensor.shape[dim]
    return written((with_mean * with_mean).sum(axes, keepdims is True) / (count - ddof), out)


@of(np.std, method="std")
def std(a: Any, axis: Any = None, dtype: Any = None, out: Any = None, ddof: Any = 0, keepdims: Any = False) -> Any:
    return written(var(a, axis, dtype, None, ddof, keepdims).tensor.sqrt(), out)


def _place_of_extreme(function: Any, find: Any) -> None:
    def found(a: Any, axis: Any = None, out: Any = None, *, keepdims: Any = False) -> Any:
        given = tensor_of(a)
        tensor, dim = axis_of(given, axis)
        if keepdims is True and axis is None or tensor.dtype.is_complex:
            raise Unsupported("argmax of complex numbers, or of all elements with keepdims")
        tensor = tensor.to(torch.uint8) if tensor.dtype is torch.bool else tensor
        return written(find(tensor, dim, keepdims is True), out)

    FUNCTIONS[function] = METHODS[function.__name__] = found


_place_of_extreme(np.argmax, torch.argmax)
_place_of_extreme(np.argmin, torch.argmin)


@of(np.ptp)
def ptp(a: Any, axis: Any = None, out: Any = None, keepdims: Any = False) -> Any:
    tensor = tensor_of(a)
    axes = axes_of(tensor, axis)
    if tensor.dtype is torch.bool:
        raise Unsupported("a range of truth values")
    made = EXTREMES[np.max](tensor, axes, keepdims is True) - EXTREMES[np.min](tensor, axes, keepdims is True)
    return written(made, out)


@of(np.cumsum, method="cumsum")
def cumsum(a: Any, axis: Any = None, dtype: Any = None, out: Any = None) -> Any:
    tensor, dim = axis_of(accumulated(tensor_of(a), dtype), axis)
    return written(tensor.cumsum(dim), out)


@of(np.cumprod, method="cumprod")
def cumprod(a: Any, axis: Any = None, dtype: Any = None, out: Any = None) -> Any:
    tensor, dim = axis_of(accumulated(tensor_of(a), dtype), axis)
    return written(tensor.cumprod(dim), out)


@of(np.count_nonzero)
def count_nonzero(a: Any, axis: Any = None, *, keepdims: Any = False) -> Any:
    tensor = tensor_of(a)
    return result((tensor != 0).sum(axes_of(tensor, axis), keepdims is True))


@of(np.average)
def average(a: Any, axis: Any = None, weights: Any = None, returned: Any = False, *, keepdims: Any = False) -> Any:
    tensor = averaged(tensor_of(a), None)
    if returned or weights is not None or not tensor.numel():
        raise Unsupported("numpy.average with weights, which may add up to zero")
    return result(tensor.mean(axes_of(tensor, axis), keepdims is True))


@of(np.median)
def median(a: Any, axis: Any = None, out: Any = None, overwrite_input: Any = False, keepdims: Any = False) -> Any:
    tensor, dim = axis_of(averaged(tensor_of(a), None), axis)
    count = tensor.shape[dim]
    if keepdims is True or overwrite_input or not count or tensor.dtype.is_complex:
        raise Unsupported("numpy.median of this form")
    ordered = tensor.sort(dim).values
    middle = (ordered.select(dim, (count - 1) // 2) + ordered.select(dim, count // 2)) / 2
    last = ordered.select(dim, count - 1)
    return written(torch.where(last.isnan(), last, middle), out)


def _ranked(function: Any, whole: float) -> None:
    def ranked(
        a: Any, q: Any, axis: Any = None, out: Any = None, overwrite_input: Any = False, method: Any = "linear"
    ) -> Any:
        """By linear interpolation between the neighbours, as NumPy does it."""
        given = tensor_of(a)
        if given.dtype is torch.bool or given.dtype.is_complex:
            raise Unsupported("ranks of truth values or complex numbers")
        tensor, dim = axis_of(averaged(given, None), axis)
        count = tensor.shape[dim]
        known = type(q) is float or whole > 1 and type(q) is int
        if not known or not 0 <= q <= whole or type(count) is not int or not count:
            raise Unsupported(f"numpy.{function.__name__} at several places, or of nothing")
        if method != "linear" or overwrite_input or tensor.dtype is torch.float16:
            raise Unsupported(f"numpy.{function.__name__} of this form")
        ordered, place = tensor.sort(dim).values, q / whole * (count - 1)
        low = int(place)
        below, above = ordered.select(dim, low), ordered.select(dim, min(low + 1, count - 1))
        last, part = ordered.select(dim, count - 1), place - low
        made = above - (above - below) * (1 - part) if part >= 0.5 else below + (above - below) * part
        return written(torch.where(last.isnan(), last, made), out)

    FUNCTIONS[function] = ranked


_ranked(np.quantile, 1.0)
_ranked(np.percentile, 100.0)


def _without_nan(function: Any, plain: Any, neutral: float) -> None:
    def reduced(a: Any, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: Any = False) -> Any:
        tensor = tensor_of(a)
        if tensor.dtype.is_floating_point:
            tensor = torch.where(tensor.isnan(), neutral, tensor)
        return FUNCTIONS[plain](Array(tensor), axis, dtype, out, keepdims)

    FUNCTIONS[function] = reduced


_without_nan(np.nansum, np.sum, 0.0)
_without_nan(np.nanprod, np.prod, 1.0)


@of(np.nanmean)
def nanmean(a: Any, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: Any = False) -> Any:
    tensor = averaged(tensor_of(a), dtype)
    axes, known = axes_of(tensor, axis), ~tensor.isnan()
    total = torch.where(known, tensor, 0).sum(axes, keepdims is True)
    return written(total / known.sum(axes, keepdims is True).to(total.dtype), out)


# ---- sorting ---------------------------------------------------------------------------------------------------------


@of(np.sort)
def sort(a: Any, axis: Any = -1, kind: Any = None, order: Any = None, *, stable: Any = None) -> Any:
    tensor, dim = axis_of(tensor_of(a), axis)
    if order is not None or tensor.dtype.is_complex:
        raise Unsupported("an order of complex numbers, or by fields")
    return Array(tensor.sort(dim).values)


@of(np.argsort, method="argsort")
def argsort(a: Any, axis: Any = -1, kind: Any = None, order: Any = None, *, stable: Any = None) -> Any:
    tensor, dim = axis_of(tensor_of(a), axis)
    if order is not None or tensor.dtype.is_complex or not (stable or kind in ("stable", "mergesort")):
        raise Unsupported("an order in which equal elements are anywhere")
    return Array(tensor.sort(stable=True, dim=dim).indices)


@of(np.searchsorted, method="searchsorted")
def searchsorted(a: Any, v: Any, side: Any = "left", sorter: Any = None) -> Any:
    places, values = tensor_of(a), tensor_of(v)
    if sorter is not None or places.dim() != 1:
        raise Unsupported("numpy.searchsorted of this form")
    wanted = torch_type(np.result_type(numpy_type(places), numpy_type(values)))
    return result(torch.searchsorted(places.to(wanted), values.to(wanted), right=side == "right"))


# ---- methods of universal functions ----------------------------------------------------------------------------------

REDUCED = {
    np.add: np.sum,
    np.multiply: np.prod,
    np.maximum: np.max,
    np.minimum: np.min,
    np.logical_and: np.all,
    np.logical_or: np.any,
}
ACCUMULATED = {np.add: np.cumsum, np.multiply: np.cumprod}


@of(np.ufunc.reduce)
def reduce(ufunc: Any, array: Any, axis: Any = 0, dtype: Any = None, out: Any = None, keepdims: Any = False) -> Any:
    if ufunc not in REDUCED or dtype is not None and REDUCED[ufunc] not in REDUCTIONS:
        raise Unsupported(f"numpy.{ufunc.__name__}.reduce")
    named = {} if dtype is None else {"dtype": dtype}
    return FUNCTIONS[REDUCED[ufunc]](array, axis, out=out, keepdims=keepdims, **named)


@of(np.ufunc.accumulate)
def accumulate(ufunc: Any, array: Any, axis: Any = 0, dtype: Any = None, out: Any = None) -> Any:
    if ufunc not in ACCUMULATED:
        raise Unsupported(f"numpy.{ufunc.__name__}.accumulate")
    return FUNCTIONS[ACCUMULATED[ufunc]](array, axis, dtype, out)


@of(np.ufunc.outer)
def outer(ufunc: Any, a: Any, b: Any) -> Any:
    left, right = tensor_of(a), tensor_of(b)
    return FUNCTIONS[ufunc](Array(left.reshape(*left.shape, *(1,) * right.dim())), Array(right))
