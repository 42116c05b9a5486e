"""Kernels with a loop that runs in order, where an iteration sees what those before it left behind.

The outer axes stay independent: threads and vectors share these out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from onegraph.compiler.body import Body
from onegraph.compiler.lower.lowerer import Cell, Lowerer, is_empty, running
from onegraph.compiler.lower.scalars import Scalar
from onegraph.compiler.lower.views import Shape, View, axes_of, coordinates
from onegraph.ir.index import ZERO, Index
from onegraph.ir.loop import Coordinates, Kernel, Local
from onegraph.ir.types import DType, TensorType, contiguous_strides

State = Sequence[tuple[DType, float]]  # types of the numbers that a loop carries, and their first values
Step = Callable[[Cell, list[Scalar]], tuple[Sequence[Scalar], Sequence[Scalar]]]
Indices = tuple[Index, ...]


def scan(g: Lowerer, shape: Shape, dim: int, state: State, results: Sequence[TensorType], step: Step) -> list[View]:
    """Tensors of one shape, computed along a dimension in order.

    `step(cell, state)` gives the state for the next position, and the element of each result.
    """
    names = [g.buffer(TensorType(t.dtype, shape, t.strides)) for t in results]
    if is_empty(shape):
        return [g.empty(name) for name in names]
    axes = axes_of(shape, "i")
    outer = running((*axes[:dim], *axes[dim + 1 :]))
    carried = tuple(Local(f"{names[0]}_{k}", dtype, 1) for k, (dtype, _) in enumerate(state))
    body = Body(outer, volatile=[local.name for local in carried])
    first = Coordinates((ZERO,))
    for local, (_, start) in zip(carried, state, strict=True):
        body.store(local.name, first, body.cast(start, local.dtype))
    with body.within(running((axes[dim],))):
        cell = Cell(body, coordinates(axes))
        before = [Scalar(body, body.load(v.dtype, v.name, first), v.dtype) for v in carried]
        after, elements = step(cell, before)
        for local, value in zip(carried, after, strict=True):
            body.store(local.name, first, value.to(local.dtype).operand)
        for name, type, value in zip(names, results, elements, strict=True):
            body.store(name, Coordinates(cell.position), value.to(type.dtype).operand)
    g.steps.append(Kernel(f"k_{names[0]}", outer, body.block(), locals=carried))
    return [g.whole(name) for name in names]


class Update:
    """A tensor that a loop changes element by element."""

    def __init__(self, g: Lowerer, shape: Shape, dtype: DType, start: Callable[[Cell], Scalar]) -> None:
        self.g = g
        self.dtype = dtype
        self.view = g.pointwise(shape, dtype, start, contiguous_strides(shape))
        self.count = 0

    def loop(self, outer: Shape, inner: Shape, step: Callable[[Cell, Indices], None]) -> None:
        """For every position of `outer` apart, those of `inner` in order: `step(cell, at)` calls `put`."""
        if is_empty((*outer, *inner, *self.view.shape)):
            return
        axes, over = axes_of(outer, "i"), axes_of(inner, "r")
        body = Body(running(axes), volatile=(self.view.buffer,))
        with body.within(running(over)):
            step(Cell(body, coordinates(axes)), coordinates(over))
        self.g.kernel(f"{self.view.buffer}_{self.count}", running(axes), body)
        self.count += 1

    def put(self, cell: Cell, at: Sequence[Index], new: Callable[[Scalar], Scalar]) -> None:
        """Replace the element at these coordinates by `new(element)`."""
        place = Coordinates(tuple(at))
        old = Scalar(cell.body, cell.body.load(self.dtype, self.view.buffer, place), self.dtype)
        cell.body.store(self.view.buffer, place, new(old).to(self.dtype).operand)
