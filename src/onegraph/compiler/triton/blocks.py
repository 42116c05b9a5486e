"""How a kernel's iterations are shared out: blocks of the outer axes and of the inner loops, and warps.

Sizes are powers of two, as Triton wants them. The rules are those that Inductor publishes for its Triton kernels, in
the few cases that our kernels have.
"""

from __future__ import annotations

from collections.abc import Iterator

from onegraph.base.dataclass import dataclass
from onegraph.compiler.kernels import is_ordered, place_indices
from onegraph.ir.index import Symbol, product
from onegraph.ir.loop import Kernel, Loop, loads, stores

PERSISTENT = 1024  # elements of a row that are held in registers between the loops over it
LONG = 2048  # elements of a longer row that are looked at together
MANY = 1 << 20  # iterations where their number is not known


@dataclass(frozen=True, slots=True)
class Blocks:
    """`x` iterations of the outer axes and `r` of an inner loop run side by side, in so many warps of 32 threads.

    `r` is 1 where no loop is shared out: then each lane runs the loops of its iteration alone.
    """

    x: int
    r: int
    warps: int


def blocks_of(kernel: Kernel) -> Blocks:
    """Blocks for the kernel on a GPU."""
    outer = extent_of(kernel.axes)
    longest = max((extent_of(loop.axes) for loop in shared_loops(kernel)), default=0)
    if not longest:
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


def shared_loops(kernel: Kernel) -> Iterator[Loop]:
    """The loops whose iterations run side by side: the outermost ones, if no iteration sees another."""
    for statement in kernel.body:
        if isinstance(statement, Loop) and not is_ordered(statement):
            yield statement


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
    for access in (*loads(kernel.body), *stores(kernel.body)):
        (index,) = place_indices(access.place)
        score += index.coefficient(kernel.axes[-1]) == 1
        score -= any(index.coefficient(axis) == 1 for axis in inner)
    return score > 0


def power_of_two(count: int) -> int:
    """The least power of two that is not smaller."""
    return 1 << max(count - 1, 0).bit_length()
