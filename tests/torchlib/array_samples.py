"""Calls of NumPy's functions: of each in the table some, with arrays of every type of elements."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from onegraph.torchlib.arrays.elements import TORCH_TYPES

Call = tuple[tuple[Any, ...], dict[str, Any]]
SHAPES: tuple[tuple[int, ...], ...] = ((), (3,), (2, 3), (3, 3), (2, 1, 3))
NUMBERS = (2, 0, -1, 0.5, True, 1j, 300)


class Draw:
    """Arrays of small random numbers."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)

    def __call__(self, shape: tuple[int, ...], dtype: Any) -> np.ndarray[Any, Any]:
        kind = np.dtype(dtype).kind
        if kind in "bui":
            low, high = {"b": (0, 2), "u": (0, 7), "i": (-4, 5)}[kind]
            return np.asarray(self.rng.integers(low, high, shape)).astype(dtype)
        drawn = self.rng.standard_normal(shape)
        return np.asarray(drawn + 1j * self.rng.standard_normal(shape) if kind == "c" else drawn).astype(dtype)

    def each(self, shapes: tuple[tuple[int, ...], ...] = SHAPES) -> Iterator[np.ndarray[Any, Any]]:
        """One of each type and shape."""
        for dtype in TORCH_TYPES:
            for shape in shapes:
                yield self(shape, dtype)

    def pairs(self, shapes: tuple[tuple[int, ...], ...] = SHAPES[:3]) -> Iterator[Any]:
        """Two arrays of one shape, of each two types."""
        for dtype in TORCH_TYPES:
            for array in self.each(shapes):
                yield self(array.shape, dtype), array


def of_ufunc(function: np.ufunc, draw: Draw) -> Iterator[Call]:
    if function.nin == 1:
        yield from (((array,), {}) for array in draw.each())
        return
    for a, b in draw.pairs():
        yield (a, b.T if function is np.matmul else b), {}
    for array in draw.each():
        for number in NUMBERS:
            yield (array, number), {}
            yield (number, array), {}


def along_axes(function: Any, draw: Draw) -> Iterator[Call]:
    for array in draw.each((*SHAPES, (0,), (2, 0))):
        yield (array,), {}
        for axis in (0, -1, 2, (0, 1)):
            yield (array, axis), {}
            yield (array,), {"axis": axis, "keepdims": True}
        yield (array,), {"dtype": np.float64}
        yield (array,), {"kind": "stable"}


def of_one(*others: Call) -> Callable[[Any, Draw], Iterator[Call]]:
    """Each array alone, and with other arguments behind it."""

    def calls(function: Any, draw: Draw) -> Iterator[Call]:
        for array in draw.each():
            for args, kwargs in (((), {}), *others):
                yield (array, *args), kwargs

    return calls


def of_two(*others: Call) -> Callable[[Any, Draw], Iterator[Call]]:
    def calls(function: Any, draw: Draw) -> Iterator[Call]:
        for a, b in draw.pairs((*SHAPES[:3], (3, 3))):
            for args, kwargs in (((), {}), *others):
                yield (a, b, *args), kwargs

    return calls


def of_several(*others: Call) -> Callable[[Any, Draw], Iterator[Call]]:
    def calls(function: Any, draw: Draw) -> Iterator[Call]:
        for pair in draw.pairs((*SHAPES[:3], (3, 3))):
            for args, kwargs in (((), {}), *others):
                yield (list(pair), *args), kwargs
                yield (pair, *args), kwargs

    return calls


def fixed(*calls: Call) -> Callable[[Any, Draw], Iterator[Call]]:
    return lambda function, draw: iter(calls)


def _where(function: Any, draw: Draw) -> Iterator[Call]:
    for a, b in draw.pairs():
        condition = draw(a.shape, bool)
        for args in ((condition, a, b), (condition, a, 2), (condition, 1.5, b), (a, a, b)):
            yield args, {}


def _places(function: Any, draw: Draw) -> Iterator[Call]:
    for array in draw.each():
        yield (array, np.array([0, -1, 1])), {}
        yield (array, np.array([[0, 1]]), 0), {}
        yield (array, 1), {}


def _places_along(function: Any, draw: Draw) -> Iterator[Call]:
    for array in draw.each():
        yield (array, draw.rng.integers(-1, 1, array.shape), -1), {}


def _einsum(function: Any, draw: Draw) -> Iterator[Call]:
    for a, b in draw.pairs(((3,), (3, 3))):
        for text in ("ij,jk->ik", "i,i->", "ij,ij->i", "ij,kj"):
            yield (text, a, b), {}


def _full(function: Any, draw: Draw) -> Iterator[Call]:
    for dtype in TORCH_TYPES:
        for other in TORCH_TYPES:
            yield ((2, 3), draw((), dtype), other), {}
        yield (3, 2), {"dtype": dtype}
        yield ((2,), 0.5), {}


def _array(function: Any, draw: Draw) -> Iterator[Call]:
    for a, b in draw.pairs():
        yield ([a, b],), {}
        yield (a, b.dtype), {}
    yield ([[1, 2], [3, 4.5]],), {}
    yield (2.0,), {}


def _searched(function: Any, draw: Draw) -> Iterator[Call]:
    for a, b in draw.pairs(((3,), (2, 3))):
        yield (np.sort(a.reshape(-1)), b), {}
        yield (np.sort(a.reshape(-1)), b, "right"), {}


def _reduced(function: Any, draw: Draw) -> Iterator[Call]:
    for ufunc in (np.add, np.multiply, np.maximum, np.minimum, np.logical_and, np.logical_or, np.subtract):
        for array in draw.each():
            yield (ufunc, array), {}
            yield (ufunc, array, -1), {}


def _outer(function: Any, draw: Draw) -> Iterator[Call]:
    for ufunc in (np.add, np.multiply, np.less):
        for a, b in draw.pairs(((3,), (2, 3))):
            yield (ufunc, a, b), {}


def _made(*shapes: Any) -> Callable[[Any, Draw], Iterator[Call]]:
    def calls(function: Any, draw: Draw) -> Iterator[Call]:
        for dtype in TORCH_TYPES:
            for shape in shapes:
                yield (shape,), {"dtype": dtype}
        yield (shapes[0],), {}

    return calls


AXIS: tuple[Call, ...] = (*(((axis,), {}) for axis in (0, -1, 2)), *(((), {"axis": axis}) for axis in (0, -1, 1)))
NORMS: tuple[Call, ...] = (
    *AXIS, ((1,), {}), ((np.inf,), {}), ((None, (0, 1)), {}), (("fro",), {}), ((2, -1, True), {}),
)  # fmt: skip

#: What has other arguments than an array and an axis.
OTHERS: dict[Any, Callable[[Any, Draw], Iterator[Call]]] = {
    np.reshape: of_one(((-1,), {}), (((3, -1),), {}), (((-1, 1),), {})),
    np.transpose: of_one((((1, 0),), {})),
    np.swapaxes: of_one(((0, -1), {})),
    np.moveaxis: of_one(((0, -1), {}), (((0, 1), (-1, 0)), {})),
    np.expand_dims: of_one(*AXIS, (((0, -1),), {})),
    np.broadcast_to: of_one((((2, 2, 3),), {}), (((4, 3, 3),), {})),
    np.split: of_one(((1,), {}), (([1, 2],), {}), ((3, -1), {})),
    np.array_split: of_one(((3,), {}), ((2,), {})),
    np.vsplit: of_one(((1,), {}), (([1],), {})),
    np.dsplit: of_one(((3,), {})),
    np.repeat: of_one(((2,), {}), ((3, 0), {})),
    np.tile: of_one(((2,), {}), (((2, 1),), {})),
    np.roll: of_one(((1,), {}), ((-2, 0), {}), (((1, 2), (0, 1)), {}), ((1, (0, -1)), {})),
    np.pad: of_one(((1,), {}), ((((1, 2), (0, 3)),), {}), ((2,), {"constant_values": 3})),
    np.tri: fixed(((3,), {}), ((3, 4, 1), {}), ((2,), {"dtype": int})),
    np.rot90: of_one(((2,), {}), ((3,), {}), ((1, (1, 0)), {}), ((-1, (0, -1)), {})),
    np.hsplit: of_one(((1,), {}), (([1],), {})),
    np.quantile: of_one(((0.3,), {}), ((0.5, 0), {}), ((1, -1), {})),
    np.percentile: of_one(((25,), {}), ((99.0, 0), {})),
    np.clip: of_one(((0, 2), {}), ((None, 1.5), {}), ((), {"min": 0})),
    **dict.fromkeys((np.round, np.around), of_one(((2,), {}), ((), {"decimals": -1}))),
    np.take: _places,
    np.take_along_axis: _places_along,
    np.linalg.norm: of_one(*NORMS),
    np.linalg.matrix_power: of_one(((3,), {}), ((0,), {}), ((-1,), {})),
    np.einsum: _einsum,
    np.where: _where,
    np.full: _full,
    np.full_like: of_two(),
    np.array: _array,
    np.searchsorted: _searched,
    np.ufunc.reduce: _reduced,
    np.ufunc.accumulate: _reduced,
    np.ufunc.outer: _outer,
    np.zeros: _made(3, (2, 3)),
    np.ones: _made(3, (2, 3)),
    np.empty: _made(0, (2, 0)),
    np.eye: _made(3),
    np.identity: _made(3),
    np.arange: fixed(
        ((5,), {}), ((1, 10, 3), {"dtype": np.int32}), ((0, 1, 0.1), {}), ((5, 0, -2), {}), ((4,), {"dtype": float})
    ),
    np.linspace: fixed(
        ((0, 1, 7), {}), ((0, 10, 5), {"endpoint": False}), ((1.0, 2.0, 1), {}), ((0, 1), {"dtype": np.float32})
    ),
    np.meshgrid: of_two(((), {"indexing": "ij"})),
    np.tensordot: of_two(((1,), {}), ((((0,), (0,)),), {})),
    **dict.fromkeys((np.concatenate, np.concat, np.stack), of_several(((-1,), {}), ((None,), {}))),
    **dict.fromkeys((np.vstack, np.hstack, np.dstack, np.column_stack), of_several()),
    **dict.fromkeys(
        (np.dot, np.inner, np.vdot, np.outer, np.kron, np.cross, np.isclose, np.linalg.solve, np.append), of_two()
    ),
}  # fmt: skip
REDUCING = frozenset(
    {np.sum, np.prod, np.mean, np.max, np.amax, np.min, np.amin, np.any, np.all, np.var, np.std, np.argmax, np.argmin}
    | {np.ptp, np.cumsum, np.cumprod, np.count_nonzero, np.average, np.median, np.nansum, np.nanprod, np.nanmean}
    | {np.sort, np.argsort}
)


def calls_of(function: Any, draw: Draw) -> Iterator[Call]:
    """Calls of a function; some of them NumPy refuses."""
    if isinstance(function, np.ufunc):
        return of_ufunc(function, draw)
    if function in REDUCING:
        return along_axes(function, draw)
    return OTHERS.get(function, of_one(*AXIS))(function, draw)
