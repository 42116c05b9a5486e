"""How a kernel's iterations are shared out: blocks of the outer axes and of the inner loops, and warps.

Sizes are powers of two, as Triton wants them. The rules are those that Inductor publishes for its Triton kernels, in
the few cases that our kernels have.
"""

from __future__ import annotations

from collections.abc import Iterator

from onegraph.base.dataclass import dataclass
from onegraph.compiler.kernels import is_ordered, place_indices
from onegraph.ir.index import ONE, Index, Symbol, product
from onegraph.ir.loop import Kernel, Loop, Place, loads, stores

PERSISTENT = 1024  # elements of a row that are held in registers between the loops over it
LONG = 2048  # elements of a longer row that are looked at together
TILE = 32  # of what is turned: rows and columns
MANY = 1 << 20  # iterations where their number is not known


@dataclass(frozen=True, slots=True)
class Blocks:
    """`x` iterations of the outer axes and `r` of an inner loop run side by side, in so many warps of 32 threads.

    `r` is 1 where no loop is shared out: then each lane runs the loops of its iteration alone. With `y`, that many
    iterations of the outer axis with the number `across` run side by side as well, and `x` counts those of the others.
    """

    x: int
    r: int
    warps: int
    y: int = 1
    across: int = -1

    def programs(self, kernel: Kernel) -> Index:
        """How many programs compute the kernel."""
        rest = [axis for number, axis in enumerate(kernel.axes) if number != self.across]
        count = blocks_in(product([axis.extent for axis in rest if axis.extent is not None]), self.x)
        if self.across < 0:
            return count
        extent = kernel.axes[self.across].extent
        return count if extent is None else count * blocks_in(extent, self.y)


def blocks_in(count: Index, size: int) -> Index:
    return (count + (size - 1)) // size


def blocks_of(kernel: Kernel) -> Blocks:
    """Blocks for the kernel on a GPU."""
    outer = extent_of(kernel.axes)
    longest = max((extent_of(loop.axes) for loop in shared_loops(kernel)), default=0)
    if not longest:
        across = turned_axis(kernel)
        if across is not None:
            return Blocks(TILE, 1, 4, TILE, across)
        x = min(max(power_of_two(outer) // 128, 256), 1024, power_of_two(outer))
        return Blocks(x, 1, min(max(x // 256, 4 if x >= 128 else 1), 8))
    if runs_along_outer(kernel):
        x = min(64, power_of_two(outer))
        r = min(power_of_two(longest), 16)
    elif longest <= PERSISTENT:
        r = power_of_two(longest)
        x = 1 if r >= 256 else min(PERSISTENT // r, 8, power_of_two(outer))
    else:
        x, r = 1, min(power_of_two(longest), LONG)
    return Blocks(x, r, min(max(x * r // 128, 1), 16))


def turned_axis(kernel: Kernel) -> int | None:
    """The number of the outer axis along which something is contiguous that is far apart along the last one.

    A tile along both is read and written in whole lines: it is turned within the multiprocessor.
    """
    if len(kernel.axes) < 2 or any(isinstance(statement, Loop) for statement in kernel.body):
        return None
    indices = [index for place in places(kernel) for index in place_indices(place)]
    for number, axis in enumerate(kernel.axes[:-1]):
        turned = [index for index in indices if index.coefficient(axis) == ONE and kernel.axes[-1] in index.symbols]
        if turned and extent_of((axis,)) >= TILE and extent_of(kernel.axes[-1:]) >= TILE:
            return number
    return None


def shared_loops(kernel: Kernel) -> Iterator[Loop]:
    """The loops whose iterations run side by side: the outermost ones, if no iteration sees another."""
    for statement in kernel.body:
        if isinstance(statement, Loop) and not is_ordered(statement):
            yield statement


def places(kernel: Kernel) -> list[Place]:
    """Where it reads and writes."""
    return [*(load.place for load in loads(kernel.body)), *(store.place for store in stores(kernel.body))]


def extent_of(axes: tuple[Symbol, ...]) -> int:
    """How many iterations the axes have."""
    count = product([axis.extent for axis in axes if axis.extent is not None]).constant
    return MANY if count is None else count


def runs_along_outer(kernel: Kernel) -> bool:
    """Whether neighbours in memory belong to neighbouring iterations of the outer axes, not of the loops."""
    if not kernel.axes:
        return False
    inner = [loop.axes[-1] for loop in shared_loops(kernel) if loop.axes]
    score = 0
    for place in places(kernel):
        (index,) = place_indices(place)
        score += index.coefficient(kernel.axes[-1]) == 1
        score -= any(index.coefficient(axis) == 1 for axis in inner)
    return score > 0


def power_of_two(count: int) -> int:
    """The least power of two that is not smaller."""
    return 1 << max(count - 1, 0).bit_length()
