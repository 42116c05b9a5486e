"""Functions that make arrays: of numbers, of sizes, of other arrays."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np
import torch

from onegraph.torchlib.arrays.array import FUNCTIONS, SIZES, Array, stored, tensor_of
from onegraph.torchlib.arrays.elements import CPU, Unsupported, numpy_type, torch_type
from onegraph.torchlib.arrays.reductions import of


def sizes_of(shape: Any) -> tuple[Any, ...]:
    """A shape, which may be one number."""
    if isinstance(shape, tuple | list):
        return tuple(each if isinstance(each, torch.SymInt) else operator.index(each) for each in shape)
    return (shape if isinstance(shape, torch.SymInt) else operator.index(shape),)


def in_c_order(order: Any) -> None:
    if order not in ("C", "K", None):
        raise Unsupported(f"order={order!r}")


@of(np.array)
def array(
    object: Any, dtype: Any = None, *, copy: Any = True, order: Any = "K", subok: Any = False, ndmin: Any = 0
) -> Array:
    in_c_order(order)
    if copy is not True or ndmin:
        raise Unsupported("numpy.array with copy= or ndmin=")
    tensor = tensor_of(object) if dtype is None else stored(object, torch_type(dtype))
    return Array(tensor.clone())


@of(np.asarray, np.asanyarray, np.ascontiguousarray)
def asarray(a: Any, dtype: Any = None, order: Any = None) -> Array:
    in_c_order(order)
    if isinstance(a, Array) and not a.is_scalar and (dtype is None or torch_type(dtype) is a.tensor.dtype):
        return a
    return array(a, dtype)


@of(np.ascontiguousarray)
def ascontiguousarray(a: Any, dtype: Any = None) -> Array:
    made = asarray(a, dtype)
    if made.flipped or not made.tensor.is_contiguous() or not made.tensor.dim():
        return Array(np_contiguous(made.read()))
    return made


def np_contiguous(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.clone(memory_format=torch.contiguous_format).reshape(tensor.shape or (1,))


def _filled(name: str, value: Any) -> None:
    def made(shape: Any, dtype: Any = float, order: Any = "C") -> Array:
        in_c_order(order)
        return Array(torch.full(sizes_of(shape), value, dtype=torch_type(dtype), device=CPU))

    def made_like(a: Any, dtype: Any = None, order: Any = "K", subok: Any = True, shape: Any = None) -> Array:
        in_c_order(order)
        if shape is not None:
            raise Unsupported(f"numpy.{name}_like with shape=")
        like = tensor_of(a)
        return Array(torch.full_like(like, value, dtype=like.dtype if dtype is None else torch_type(dtype)))

    FUNCTIONS[getattr(np, name)] = made
    FUNCTIONS[getattr(np, f"{name}_like")] = made_like


_filled("zeros", 0)
_filled("ones", 1)
_filled("empty", 0)


@of(np.full)
def full(shape: Any, fill_value: Any, dtype: Any = None, order: Any = "C") -> Array:
    in_c_order(order)
    value = tensor_of(fill_value) if dtype is None else stored(fill_value, torch_type(dtype))
    return Array(value.expand(sizes_of(shape)).clone(memory_format=torch.contiguous_format))


@of(np.full_like)
def full_like(
    a: Any, fill_value: Any, dtype: Any = None, order: Any = "K", subok: Any = True, shape: Any = None
) -> Array:
    in_c_order(order)
    if shape is not None:
        raise Unsupported("numpy.full_like with shape=")
    like = tensor_of(a)
    wanted = like.dtype if dtype is None else torch_type(dtype)
    return Array(torch.empty_like(like, dtype=wanted).copy_(stored(fill_value, wanted)))


@of(np.arange)
def arange(start: Any, stop: Any = None, step: Any = 1, dtype: Any = None) -> Array:
    if stop is None:
        start, stop = 0, start
    given = (start, stop, step)
    if all(isinstance(each, SIZES) for each in given) and (dtype is None or np.dtype(dtype) == np.int64):
        return Array(torch.arange(start, stop, step, dtype=torch.int64, device=CPU))
    if not all(isinstance(each, int | float) for each in given):
        raise Unsupported("numpy.arange of arrays, or of numbers that change")
    kind = np.dtype(dtype) if dtype is not None else np.result_type(*given)
    count = len(np.arange(start, stop, step))
    if kind.kind not in "if" or kind.kind == "i" and any(isinstance(each, float) for each in given):
        raise Unsupported(f"numpy.arange of {kind}")
    places = torch.arange(count, dtype=torch.float64 if kind.kind == "f" else torch.int64, device=CPU)
    return Array((places * ((start + step) - start) + start).to(torch_type(kind)))


@of(np.linspace)
def linspace(
    start: Any, stop: Any, num: Any = 50, endpoint: Any = True, retstep: Any = False, dtype: Any = None
) -> Array:
    if retstep or not all(isinstance(each, int | float) for each in (start, stop)) or type(num) is not int or num < 0:
        raise Unsupported("numpy.linspace of arrays, or of numbers that change")
    wanted = torch.float64 if dtype is None else torch_type(dtype)
    if not wanted.is_floating_point:
        raise Unsupported("numpy.linspace of integers")
    places, parts = torch.arange(num, dtype=torch.float64, device=CPU), num - 1 if endpoint else num
    if parts <= 0:
        return Array((places * (stop - start) + start).to(wanted))
    made = places * ((stop - start) / parts) + start
    return Array((torch.where(places == parts, float(stop), made) if endpoint else made).to(wanted))


@of(np.eye)
def eye(N: Any, M: Any = None, k: Any = 0, dtype: Any = float, order: Any = "C") -> Array:
    in_c_order(order)
    rows, columns = (torch.arange(count, device=CPU) for count in (N, N if M is None else M))
    return Array((columns - rows.unsqueeze(1) == operator.index(k)).to(torch_type(dtype)))


@of(np.identity)
def identity(n: Any, dtype: Any = None) -> Array:
    return eye(n, dtype=float if dtype is None else dtype)


@of(np.copy)
def copy(a: Any, order: Any = "K", subok: Any = False) -> Array:
    in_c_order(order)
    return Array(tensor_of(a).clone())


@of(method="copy")
def copy_method(self: Array, order: Any = "C") -> Array:
    in_c_order(order)
    return Array(self.read().clone(memory_format=torch.contiguous_format), is_scalar=self.is_scalar)


@of(method="astype")
def astype(
    self: Array, dtype: Any, order: Any = "K", casting: Any = "unsafe", subok: Any = True, copy: Any = True
) -> Array:
    in_c_order(order)
    wanted = torch_type(dtype)
    if not np.can_cast(numpy_type(self.tensor), dtype, casting) or self.tensor.dtype.is_complex > wanted.is_complex:
        raise Unsupported("astype that discards imaginary parts, or is refused")
    if copy is False and wanted is self.tensor.dtype:
        return self
    made = self.read().to(wanted)
    return Array(made.clone() if made is self.tensor else made, is_scalar=self.is_scalar)


@of(method="fill")
def fill(self: Array, value: Any) -> None:
    self[...] = value


@of(method="tolist")
def tolist(self: Array) -> Any:
    raise Unsupported("ndarray.tolist")
