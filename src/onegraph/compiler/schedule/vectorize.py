"""Which axis of a kernel runs in vectors, how wide, and in which order the other axes nest.

The axis along which most accesses are contiguous is chosen; accesses of neighbouring lanes that are far apart count
against it. Heavy bodies get wide vectors: several registers per value hide the latency of long chains of dependent
operations, which narrower code would wait for.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from onegraph.base.context import Context
from onegraph.compiler.kernels import has_products, is_ordered
from onegraph.compiler.schedule.cost import statement_cost
from onegraph.compiler.target import Machine
from onegraph.ir.index import ONE, Index, Symbol, product
from onegraph.ir.loop import (
    Accumulate,
    Block,
    Kernel,
    Let,
    Load,
    Loop,
    Offset,
    Program,
    Statement,
    Store,
    Vector,
    statements,
    stores,
)

TILE_STATEMENTS = 20  # of a body that is written for every iteration of a tile
HEAVY = 12.0  # cost of a body above which it gets wide vectors
OFTEN = 16  # iterations of a loop, at most, by which its accesses weigh more than others
NEAR = 0.25  # the weight of a load that other iterations repeat
LIGHT = 6.0  # cost below which a body needs few registers per lane


def vectorize(program: Program, cx: Context, machine: Machine) -> Program:
    """Choose the vector axis of every kernel."""
    steps = (_kernel(step, machine) if isinstance(step, Kernel) else step for step in program.steps)
    return replace(program, steps=tuple(steps))


def _kernel(kernel: Kernel, machine: Machine) -> Kernel:
    if kernel.vector is not None or any(store.atomic for store in stores(kernel.body)):
        return kernel
    axis = _best_axis(kernel, machine)
    if axis is None:
        return kernel
    tile = _tile(kernel, axis, machine)
    if tile is not None:
        return replace(kernel, vector=tile)
    width = _width(kernel, axis, machine)
    return kernel if width < 2 else replace(kernel, vector=Vector(axis, width))


def _tile(kernel: Kernel, axis: Symbol, machine: Machine) -> Vector | None:
    """A square tile, where loads are far apart along the vector's axis and contiguous along another outer axis."""
    if axis not in kernel.axes or len(kernel.body) > TILE_STATEMENTS:
        return None
    if any(isinstance(statement, Loop) for statement in kernel.body):
        return None
    across: set[Symbol] = set()
    sizes = [4]
    for let in kernel.body:
        if isinstance(let, Let) and isinstance(let.value, Load) and isinstance(let.value.place, Offset):
            index = let.value.place.index
            sizes.append(let.dtype.size)
            if _contiguity(index, axis) < 0:
                across |= {a for a in kernel.axes if a != axis and index.coefficient(a) == ONE}
    if len(across) != 1:
        return None
    (other,) = across
    width = machine.lanes // (4 if max(sizes) == 8 else 2)
    if any(a.extent is not None and (a.extent.constant or width) < width for a in (axis, other)):
        return None
    return Vector(axis, width, other)


def _candidates(kernel: Kernel, machine: Machine) -> list[Symbol]:
    """Axes that may run in vectors: not those of loops in order.

    Along an outer axis every lane has locals of its own, which must stay small.
    """
    small = sum(local.size * local.dtype.size for local in kernel.locals) * 2 * machine.lanes <= machine.stack
    found = list(kernel.axes) if small else []
    for statement in kernel.body:
        if isinstance(statement, Loop) and not is_ordered(statement) and not has_products(kernel):
            found += [axis for axis in statement.axes if axis not in found]
    return found


def _accesses(kernel: Kernel) -> list[tuple[Index, float]]:
    """The offsets that the kernel touches, and how much each counts."""
    return list(_weighed(kernel.body, kernel.axes, 1.0))


def _weighed(block: Block, axes: tuple[Symbol, ...], weight: float) -> Iterator[tuple[Index, float]]:
    """Stores count double, what is in a loop as often as it is done, and what is read again, from near memory, less."""
    for statement in block:
        match statement:
            case Let(value=Load(place=Offset(index))):
                yield index, weight if index.symbols.issuperset(axes) else weight * NEAR
            case Store(place=Offset(index)):
                yield index, 2 * weight
            case Loop(inner, body):
                times = product([axis.extent for axis in inner if axis.extent is not None]).constant
                often = OFTEN if times is None else min(max(times, 1), OFTEN)
                yield from _weighed(body, (*axes, *inner), weight * often)


def _best_axis(kernel: Kernel, machine: Machine) -> Symbol | None:
    best: tuple[float, Symbol] | None = None
    accesses = _accesses(kernel)
    ordered = any(isinstance(statement, Loop) and is_ordered(statement) for statement in kernel.body)
    for position, axis in enumerate(_candidates(kernel, machine)):
        if ordered and not any(_contiguity(index, axis) == 1 for index, _ in accesses):
            continue  # rows far apart, each walked in order: one at a time uses whole cache lines
        extent = axis.extent.constant if axis.extent is not None else None
        if extent is not None and extent < 2:
            continue
        score = sum(weight * _contiguity(index, axis) for index, weight in accesses)
        if extent is not None and extent < 16:
            score -= 4 * (1 - extent / 16)
        score += 0.001 * position
        if best is None or score > best[0]:
            best = score, axis
    return best[1] if best is not None else None


def _contiguity(index: Index, axis: Symbol) -> float:
    """How well the lanes' accesses go together: 1 side by side, 0 the same element, less if far apart."""
    if axis not in index.symbols:
        return 0.0
    step = index.coefficient(axis)
    if step is None or step.constant is None:
        return -2.0
    return 1.0 if step.constant == 1 else 0.0 if step.constant == 0 else -1.5


def _in_vectors(kernel: Kernel, axis: Symbol) -> Iterator[Statement]:
    """The statements that run along the axis: behind a reduction along it there are single elements."""
    if axis in kernel.axes:
        yield from statements(kernel.body)
        return
    for loop in statements(kernel.body):
        if isinstance(loop, Loop) and axis in loop.axes:
            yield from statements(loop.body)


def _width(kernel: Kernel, axis: Symbol, machine: Machine) -> int:
    cost = sum(statement_cost(s) for s in _in_vectors(kernel, axis) if not isinstance(s, Store | Accumulate))
    sizes = [s.dtype.size for s in statements(kernel.body) if isinstance(s, Let | Accumulate)]
    width = machine.lanes * (2 if cost >= HEAVY else 1)
    totals = sum(isinstance(s, Accumulate) for s in statements(kernel.body))
    if has_products(kernel):
        return _columns(axis, machine)
    if axis in kernel.axes and totals and cost < LIGHT * totals:
        width = 8 * machine.lanes  # a reduction along columns: a wide strip of each row is read at a time
    elif totals > 2:
        held = machine.tile_rows * machine.tile_columns if axis in kernel.axes else machine.totals
        width = min(width, max(1 << (held // totals).bit_length() - 1, 4))
    if max(sizes, default=4) == 8:
        width //= 2
    if any(_contiguity(index, axis) < 0 for index, _ in _accesses(kernel)):
        width = min(width, machine.lanes // 2)
        if any(s.dtype.size < 4 for s in statements(kernel.body) if isinstance(s, Let) and isinstance(s.value, Load)):
            width = machine.lanes // 4
    return _fitting(width, axis)


def _columns(axis: Symbol, machine: Machine) -> int:
    """The columns of a tile: narrower ones where the last would be mostly empty, but each begins and ends."""
    extent = axis.extent.constant if axis.extent is not None else None
    widest = _fitting(machine.tile_columns, axis)
    widths = [widest >> by for by in range(3) if widest >> by >= machine.tile_columns // 4]
    if extent is None or not widths:
        return widest
    return min(widths, key=lambda width: -(-extent // width) * (width + machine.tile_columns // 8))


def _fitting(width: int, axis: Symbol) -> int:
    """The width, or less if the axis is that short."""
    extent = axis.extent.constant if axis.extent is not None else None
    while extent is not None and width > 2 and width // 2 >= extent:
        width //= 2
    return width
