"""Products, linear algebra and Fourier transforms."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from onegraph.torchlib.arrays.array import FUNCTIONS, METHODS, Array, result, results, tensor_of
from onegraph.torchlib.arrays.elements import Unsupported
from onegraph.torchlib.arrays.joining import alike
from onegraph.torchlib.arrays.making import sizes_of
from onegraph.torchlib.arrays.reductions import axes_of, of
from onegraph.torchlib.arrays.ufuncs import product, written


@of(np.dot, method="dot")
def dot(a: Any, b: Any, out: Any = None) -> Any:
    left, right = alike((a, b))
    if left.dim() == 0 or right.dim() == 0:
        return written(left * right, out)
    if right.dim() > 2:
        raise Unsupported("numpy.dot with more than two dimensions")
    return written(product(left, right), out)


@of(np.inner)
def inner(a: Any, b: Any, /) -> Any:
    left, right = alike((a, b))
    if left.dim() == 0 or right.dim() == 0:
        return result(left * right)
    if left.dtype is torch.bool or left.shape[-1] != right.shape[-1]:
        raise Unsupported("numpy.inner of truth values, or of other sizes")
    return result(torch.tensordot(left, right, ([-1], [-1])))


@of(np.vdot)
def vdot(a: Any, b: Any, /) -> Any:
    left, right = alike((a, b))
    left, right = left.reshape(-1), right.reshape(-1)
    return result(product(left.conj_physical() if left.dtype.is_complex else left, right))


@of(np.outer)
def outer(a: Any, b: Any, out: Any = None) -> Any:
    left, right = alike((a, b))
    return written(left.reshape(-1, 1) * right.reshape(1, -1), out)


@of(np.kron)
def kron(a: Any, b: Any) -> Any:
    return result(torch.kron(*alike((a, b))))


@of(np.tensordot)
def tensordot(a: Any, b: Any, axes: Any = 2) -> Any:
    left, right = alike((a, b))
    if isinstance(axes, int):
        axes = range(left.dim() - axes, left.dim()), range(axes)
    first, second = (
        list(axes_of(tensor, sizes_of(tuple(each) if isinstance(each, range) else each)))
        for tensor, each in zip((left, right), axes, strict=True)
    )
    if left.dtype is torch.bool or [left.shape[dim] for dim in first] != [right.shape[dim] for dim in second]:
        raise Unsupported("numpy.tensordot of truth values, or of other sizes")
    return Array(torch.tensordot(left, right, (first, second)))


@of(np.einsum)
def einsum(subscripts: Any, *operands: Any, optimize: Any = False) -> Any:
    tensors = alike(operands)
    if type(subscripts) is not str or tensors[0].dtype is torch.bool or len(operands) == 1:
        raise Unsupported("numpy.einsum of this form")  # of one operand it may be a view
    return result(torch.einsum(subscripts, *tensors))


@of(np.trace, method="trace")
def trace(a: Any, offset: Any = 0, axis1: Any = 0, axis2: Any = 1) -> Any:
    tensor = tensor_of(a)
    if tensor.dtype is torch.uint8:
        raise Unsupported("a sum in unsigned integers")
    return result(tensor.diagonal(offset, axis1, axis2).sum(-1))


@of(np.cross)
def cross(a: Any, b: Any, axisa: Any = -1, axisb: Any = -1, axisc: Any = -1, axis: Any = None) -> Any:
    left, right = alike((a, b))
    if (axisa, axisb, axisc, axis) != (-1, -1, -1, None) or left.shape[-1] != 3 or right.shape[-1] != 3:
        raise Unsupported("numpy.cross of this form")
    return Array(torch.linalg.cross(*torch.broadcast_tensors(left, right)))


# ---- numpy.linalg ----------------------------------------------------------------------------------------------------


def fractional(a: Any) -> torch.Tensor:
    """The elements as linear algebra takes them."""
    tensor = tensor_of(a)
    if tensor.dtype is torch.float16:
        raise Unsupported("linear algebra in float16")
    return tensor if tensor.dtype.is_floating_point or tensor.dtype.is_complex else tensor.to(torch.float64)


def _of_matrix(function: Any, meaning: Callable[..., Any]) -> None:
    FUNCTIONS[function] = lambda a: results(meaning(fractional(a)))


_of_matrix(np.linalg.inv, torch.linalg.inv)
_of_matrix(np.linalg.det, torch.linalg.det)
_of_matrix(np.linalg.pinv, torch.linalg.pinv)
_of_matrix(np.linalg.cholesky, torch.linalg.cholesky)
_of_matrix(np.linalg.eigvalsh, torch.linalg.eigvalsh)


@of(np.linalg.solve)
def solve(a: Any, b: Any) -> Any:
    left, right = alike((Array(fractional(a)), Array(fractional(b))))
    if right.dim() != 1 and right.dim() != left.dim():
        raise Unsupported("numpy.linalg.solve of this form")
    return result(torch.linalg.solve(left, right))


@of(np.linalg.matrix_power)
def matrix_power(a: Any, n: Any) -> Any:
    return result(torch.linalg.matrix_power(fractional_only(a), n))


def fractional_only(a: Any) -> torch.Tensor:
    tensor = tensor_of(a)
    if tensor.dtype not in (torch.float32, torch.float64, torch.complex64, torch.complex128):
        raise Unsupported("linear algebra of integers")
    return tensor


@of(np.linalg.norm)
def norm(x: Any, ord: Any = None, axis: Any = None, keepdims: Any = False) -> Any:
    tensor = fractional(x)
    if axis is None and ord is None:
        made = torch.linalg.vector_norm(tensor, 2, None, keepdims is True)
    elif isinstance(axis, int) or (axis is None and tensor.dim() == 1):
        kind = 2 if ord is None else ord
        if not isinstance(kind, int | float):
            raise Unsupported(f"numpy.linalg.norm with ord={ord!r}")
        made = torch.linalg.vector_norm(tensor, kind, axes_of(tensor, -1 if axis is None else axis), keepdims is True)
    elif ord in (None, "fro") and (axis is not None or tensor.dim() == 2):
        made = torch.linalg.matrix_norm(tensor, "fro", axis or (-2, -1), keepdims is True)
    else:
        raise Unsupported(f"numpy.linalg.norm with ord={ord!r}")
    return result(made)


# ---- numpy.fft -------------------------------------------------------------------------------------------------------


def _transform(name: str, is_along_one: bool) -> None:
    meaning, last = getattr(torch.fft, name), (-2, -1) if name.endswith("2") else None

    def along_one(a: Any, n: Any = None, axis: Any = -1, norm: Any = None) -> Any:
        return result(meaning(fractional(a), n, axis, norm))

    def along_several(a: Any, s: Any = None, axes: Any = last, norm: Any = None) -> Any:
        tensor = fractional(a)
        if s is not None or tensor.dim() == 0:
            raise Unsupported(f"numpy.fft.{name} with s=, or of a number")
        return result(meaning(tensor, None, axes, norm))

    FUNCTIONS[getattr(np.fft, name)] = along_one if is_along_one else along_several


for _name in ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft"):
    _transform(_name, is_along_one=True)
for _name in ("fft2", "ifft2", "fftn", "ifftn", "rfft2", "irfft2", "rfftn", "irfftn"):
    _transform(_name, is_along_one=False)

METHODS["conj"] = METHODS["conjugate"] = lambda self: FUNCTIONS[np.conjugate](self)
