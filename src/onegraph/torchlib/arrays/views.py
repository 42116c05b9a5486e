"""Functions and attributes that give views, of the same memory in another shape; and what is asked of a shape."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np
import torch

from onegraph.torchlib.arrays.array import ATTRIBUTES, FUNCTIONS, Array, holds_arrays, results, tensor_of
from onegraph.torchlib.arrays.elements import Unsupported, numpy_type
from onegraph.torchlib.arrays.making import asarray, in_c_order, sizes_of
from onegraph.torchlib.arrays.reductions import axes_of, of


def view_of(a: Any) -> torch.Tensor:
    """The tensor of which a view is made: that of an array, or a new one."""
    return a.view() if isinstance(a, Array) else tensor_of(a)


def viewed(a: Any, tensor: torch.Tensor) -> Array:
    """A view of an array; a view of a scalar is another scalar, or a new array."""
    if isinstance(a, Array) and a.is_scalar:
        return Array(tensor.clone(), is_scalar=tensor.dim() == 0)
    again = isinstance(a, Array) and tensor is a.tensor
    return Array(tensor[...] if again else tensor, is_writeable=not isinstance(a, Array) or a.is_writeable)


@of(np.reshape)
def reshape(a: Any, /, shape: Any, order: Any = "C", *, copy: Any = None) -> Array:
    in_c_order(order)
    if copy is not None:
        raise Unsupported("numpy.reshape with copy=")
    return viewed(a, view_of(a).reshape(sizes_of(shape)))


@of(method="reshape")
def reshape_method(self: Array, *shape: Any, order: Any = "C", copy: Any = None) -> Array:
    return reshape(self, shape[0] if len(shape) == 1 else shape, order, copy=copy)


@of(np.ravel, method="ravel")
def ravel(a: Any, order: Any = "C") -> Array:
    in_c_order(order)
    return viewed(a, view_of(a).reshape(-1))


@of(method="flatten")
def flatten(self: Array, order: Any = "C") -> Array:
    in_c_order(order)
    return Array(self.read().reshape(-1).clone())


@of(np.transpose, np.permute_dims)
def transpose(a: Any, axes: Any = None) -> Array:
    tensor = view_of(a)
    order = tuple(range(tensor.dim()))[::-1] if axes is None else sizes_of(axes)
    return viewed(a, tensor.permute(order))


@of(method="transpose")
def transpose_method(self: Array, *axes: Any) -> Array:
    return transpose(self, (axes[0] if len(axes) == 1 else axes) or None)


ATTRIBUTES["T"] = transpose


@of(np.matrix_transpose, np.linalg.matrix_transpose)
def matrix_transpose(x: Any, /) -> Array:
    return viewed(x, view_of(x).transpose(-1, -2))


ATTRIBUTES["mT"] = matrix_transpose


@of(np.swapaxes, method="swapaxes")
def swapaxes(a: Any, axis1: Any, axis2: Any) -> Array:
    tensor = view_of(a)
    return viewed(a, tensor.transpose(*axes_of(tensor, axis1), *axes_of(tensor, axis2)))


@of(np.moveaxis)
def moveaxis(a: Any, source: Any, destination: Any) -> Array:
    tensor = view_of(a)
    return viewed(a, tensor.movedim(axes_of(tensor, sizes_of(source)), axes_of(tensor, sizes_of(destination))))


@of(np.squeeze, method="squeeze")
def squeeze(a: Any, axis: Any = None) -> Array:
    tensor = view_of(a)
    if axis is None:
        return viewed(a, tensor.squeeze())
    axes = axes_of(tensor, axis)
    if any(tensor.shape[dim] != 1 for dim in axes):
        raise Unsupported("squeeze of a size that is not one")
    return viewed(a, tensor.squeeze(axes))


@of(np.expand_dims)
def expand_dims(a: Any, axis: Any) -> Array:
    tensor = view_of(a)
    axes = sizes_of(axis)
    dims = tensor.dim() + len(axes)
    if any(not -dims <= each < dims for each in axes):
        raise Unsupported("an axis that there is not")
    for dim in sorted(each % dims for each in axes):
        tensor = tensor.unsqueeze(dim)
    return viewed(a, tensor)


@of(np.broadcast_to)
def broadcast_to(array: Any, shape: Any, subok: Any = False) -> Array:
    return Array(view_of(array).expand(sizes_of(shape)), is_writeable=False)


def _at_least(function: Any, reshaped: Any) -> None:
    def made(*arrays: Any) -> Any:
        found = [asarray(each) for each in arrays]
        found = [each if each.tensor.dim() >= DIMS[function] else viewed(each, reshaped(each.view())) for each in found]
        return found[0] if len(found) == 1 else tuple(found)

    FUNCTIONS[function] = made


DIMS = {np.atleast_1d: 1, np.atleast_2d: 2, np.atleast_3d: 3}
_at_least(np.atleast_1d, lambda tensor: tensor.reshape(1))
_at_least(np.atleast_2d, lambda tensor: tensor.reshape(1, -1))
_at_least(
    np.atleast_3d,
    lambda tensor: tensor.reshape(1, -1, 1) if tensor.dim() < 2 else tensor.unsqueeze(-1),
)


@of(np.diagonal, method="diagonal")
def diagonal(a: Any, offset: Any = 0, axis1: Any = 0, axis2: Any = 1) -> Array:
    return Array(view_of(a).diagonal(offset, axis1, axis2), is_writeable=False)


@of(np.diag)
def diag(v: Any, k: Any = 0) -> Array:
    tensor = view_of(v)
    if tensor.dim() == 2:
        return diagonal(v, k)
    if tensor.dim() != 1:
        raise Unsupported("numpy.diag of this form")
    return Array(torch.diag(tensor, k))


@of(np.real)
def real(val: Any) -> Array:
    """Of real numbers the array itself."""
    if isinstance(val, Array) and not val.tensor.dtype.is_complex:
        return val
    tensor = view_of(val)
    return viewed(val, tensor.real if tensor.dtype.is_complex else tensor)


@of(np.imag)
def imag(val: Any) -> Array:
    tensor = view_of(val)
    return viewed(val, tensor.imag) if tensor.dtype.is_complex else Array(torch.zeros_like(tensor), is_writeable=False)


ATTRIBUTES["real"] = real
ATTRIBUTES["imag"] = imag


@of(np.flip)
def flip(m: Any, axis: Any = None) -> Array:
    given = m if isinstance(m, Array) else asarray(m)
    axes = axes_of(given.tensor, axis)
    return given[tuple(slice(None, None, -1) if dim in axes else slice(None) for dim in range(given.tensor.dim()))]


@of(np.flipud)
def flipud(m: Any) -> Array:
    return flip(m, 0)


@of(np.fliplr)
def fliplr(m: Any) -> Array:
    return flip(m, 1)


@of(np.rot90)
def rot90(m: Any, k: Any = 1, axes: Any = (0, 1)) -> Array:
    given = asarray(m)
    first, second = axes_of(given.tensor, tuple(axes))
    turns = operator.index(k) % 4
    if first == second:
        raise Unsupported("a turn in one dimension")
    if turns in (1, 3):
        return flip(swapaxes(given, first, second), first if turns == 1 else second)
    return flip(given, (first, second)) if turns else given[...]


@of(np.split, np.array_split)
def split(ary: Any, indices_or_sections: Any, axis: Any = 0) -> list[Array]:
    given = asarray(ary)
    (dim,) = axes_of(given.tensor, axis)
    size = given.tensor.shape[dim]
    if not isinstance(size, int) or holds_arrays(indices_or_sections):
        raise Unsupported("numpy.split of a size that changes")
    if isinstance(indices_or_sections, int):
        count = indices_or_sections
        if count < 1 or size % count:
            raise Unsupported("numpy.split in parts of different sizes")
        places = [size // count * each for each in range(1, count)]
    else:
        places = [operator.index(each) for each in indices_or_sections]
    bounds = zip([0, *places], [*places, size], strict=True)
    return [given[(slice(None),) * dim + (slice(*each),)] for each in bounds]


def _split_along(function: Any, axis: int) -> None:
    def split_along(ary: Any, indices_or_sections: Any) -> list[Array]:
        given = asarray(ary)
        if given.tensor.dim() < max(2, axis + 1):
            raise Unsupported("an array of fewer dimensions")
        return split(given, indices_or_sections, axis)

    FUNCTIONS[function] = split_along


@of(np.hsplit)
def hsplit(ary: Any, indices_or_sections: Any) -> list[Array]:
    given = asarray(ary)
    if not given.tensor.dim():
        raise Unsupported("an array of fewer dimensions")
    return split(given, indices_or_sections, 1 if given.tensor.dim() > 1 else 0)


_split_along(np.vsplit, 0)
_split_along(np.dsplit, 2)


# ---- what is asked ---------------------------------------------------------------------------------------------------

ATTRIBUTES.update(
    shape=lambda self: tuple(self.tensor.shape),
    ndim=lambda self: self.tensor.dim(),
    size=lambda self: self.tensor.numel(),
    dtype=lambda self: numpy_type(self.tensor),
    itemsize=lambda self: self.tensor.element_size(),
    nbytes=lambda self: self.tensor.numel() * self.tensor.element_size(),
)


@of(np.shape)
def shape(a: Any) -> Any:
    return tuple(tensor_of(a).shape)


@of(np.ndim)
def ndim(a: Any) -> int:
    return tensor_of(a).dim()


@of(np.size)
def size(a: Any, axis: Any = None) -> Any:
    tensor = tensor_of(a)
    return tensor.numel() if axis is None else tensor.shape[axes_of(tensor, axis)[0]]


@of(np.iscomplexobj)
def iscomplexobj(x: Any) -> bool:
    return tensor_of(x).dtype.is_complex


@of(np.isrealobj)
def isrealobj(x: Any) -> bool:
    return not iscomplexobj(x)


@of(np.angle)
def angle(z: Any, deg: Any = False) -> Any:
    tensor = tensor_of(z)
    if deg or not tensor.dtype.is_complex:
        raise Unsupported("numpy.angle of this form")
    return results(tensor.angle())
