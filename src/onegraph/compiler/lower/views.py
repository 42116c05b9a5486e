"""Tensors as lowerings see them: a buffer, and for each element where in the buffer it stands."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache

from onegraph.base.dataclass import dataclass
from onegraph.ir.index import ONE, ZERO, Index, Symbol, product
from onegraph.ir.types import DType

Shape = tuple[Index, ...]


@dataclass(frozen=True, slots=True)
class View:
    """The tensor of this shape whose element at `axes` is the element of the buffer at `indices`.

    An operator that only moves elements about makes a new view and no kernel.
    """

    buffer: str
    dtype: DType
    shape: Shape
    axes: tuple[Symbol, ...]
    indices: tuple[Index, ...]

    @property
    def rank(self) -> int:
        return len(self.shape)

    @property
    def numel(self) -> Index:
        return product(self.shape)

    def at(self, coordinates: Sequence[Index]) -> tuple[Index, ...]:
        """Where in the buffer the element at these coordinates stands."""
        values = dict(zip(self.axes, coordinates, strict=True))
        return tuple(index.substitute(values) for index in self.indices)

    def reindexed(self, shape: Shape, where: Callable[[tuple[Index, ...]], Sequence[Index]]) -> View:
        """The tensor of that shape whose element at x is this one's at `where(x)`."""
        axes = axes_of(shape)
        return View(self.buffer, self.dtype, shape, axes, self.at(where(coordinates(axes))))

    def expanded(self, shape: Shape) -> View:
        """Broadcast to the shape: missing dimensions and those of size 1 are repeated."""
        missing = len(shape) - self.rank
        if missing == 0 and shape == self.shape:
            return self
        return self.reindexed(
            shape, lambda x: [ZERO if size == ONE else at for size, at in zip(self.shape, x[missing:], strict=True)]
        )

    def permuted(self, order: Sequence[int]) -> View:
        """Dimension k of the result is dimension `order[k]` of this one."""
        inverse = sorted(range(self.rank), key=lambda k: order[k])
        return self.reindexed(tuple(self.shape[d] for d in order), lambda x: [x[k] for k in inverse])

    def reshaped(self, shape: Shape) -> View:
        """The same elements in the same (row-major) order with another shape."""
        if shape == self.shape:
            return self
        return self.reindexed(shape, lambda x: _renumbered(x, shape, self.shape))


def broadcast(shapes: Sequence[Shape]) -> Shape:
    """The shape that all of them are broadcast to."""
    rank = max(map(len, shapes))
    padded = [(ONE,) * (rank - len(shape)) + shape for shape in shapes]
    return tuple(next((n for n in sizes if n != ONE), ONE) for sizes in zip(*padded, strict=True))


# Most shapes of a network come again in each of its layers.
@lru_cache(maxsize=1 << 10)
def axes_of(shape: Shape, prefix: str = "d") -> tuple[Symbol, ...]:
    """A symbol per dimension."""
    return tuple([Symbol(f"{prefix}{k}", size) for k, size in enumerate(shape)])


@lru_cache(maxsize=1 << 10)
def coordinates(axes: tuple[Symbol, ...]) -> tuple[Index, ...]:
    """The symbols as expressions; an axis that has one element only is at 0."""
    return tuple([ZERO if axis.extent == ONE else Index.of(axis) for axis in axes])


@lru_cache(maxsize=1 << 10)
def _renumbered(position: tuple[Index, ...], shape: Shape, other: Shape) -> tuple[Index, ...]:
    """The position in another shape of the element that has this one."""
    return tuple(unflatten(flatten(position, shape), other))


def flatten(position: Sequence[Index], shape: Shape) -> Index:
    """The number of the element in row-major order."""
    number = ZERO
    for at, size in zip(position, shape, strict=True):
        number = number * size + at
    return number


def unflatten(number: Index, shape: Shape) -> list[Index]:
    """The position of the element with that number in row-major order."""
    position: list[Index] = []
    for dim, size in enumerate(shape):
        if size == ONE or size == ZERO:
            position.append(ZERO)
            continue
        below = product(shape[dim + 1 :])
        quotient = number if below == ONE or below == ZERO else number // below
        position.append(quotient if all(s == ONE for s in shape[:dim]) else quotient % size)
    return position
