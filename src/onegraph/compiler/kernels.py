"""Facts about kernels that several stages need: their operands, sizes, canonical form, and how they are split."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from onegraph.compiler.target import Machine
from onegraph.ir.index import ONE, ZERO, Index, Symbol, is_not_negative, product
from onegraph.ir.loop import (
    Accumulate,
    Block,
    Coordinates,
    IndexValue,
    Kernel,
    Let,
    Load,
    Loop,
    Place,
    Store,
    Vector,
    loads,
    reads,
    statements,
    stores,
    writes,
)
from onegraph.ir.scalar import REDUCTIONS


def operands(kernel: Kernel) -> tuple[str, ...]:
    """The buffers of a kernel in the order in which it is given them: those it reads, then those it only writes."""
    return tuple(dict.fromkeys((*reads(kernel), *writes(kernel))))


def place_indices(place: Place) -> tuple[Index, ...]:
    return place.indices if isinstance(place, Coordinates) else (place.index,)


def indices(block: Block) -> Iterator[Index]:
    """Every index expression in the statements."""
    for statement in statements(block):
        match statement:
            case Let(value=Load(place=place)) | Store(place=place):
                yield from place_indices(place)
            case Let(value=IndexValue(index)):
                yield index
            case Loop(axes):
                yield from (axis.extent for axis in axes if axis.extent is not None)


def size_symbols(kernel: Kernel) -> tuple[Symbol, ...]:
    """The sizes that a kernel is given, in that order."""
    found: set[Symbol] = set()
    for index in (*indices(kernel.body), *(axis.extent for axis in kernel.axes if axis.extent is not None)):
        found |= _sizes(index)
    return tuple(sorted(found, key=lambda symbol: symbol.name))


def _sizes(index: Index) -> set[Symbol]:
    found: set[Symbol] = set()
    for symbol in index.symbols:
        if symbol.extent is not None:
            found |= _sizes(symbol.extent)
        elif not symbol.signed:
            found.add(symbol)
    return found


def with_middles(axes: Iterable[Symbol], known: Mapping[Symbol, Index]) -> Mapping[Symbol, Index]:
    """What is known, and the middle of each axis: there, loops whose length depends on others have a usual one."""
    return {**known, **{axis: axis.extent.substitute(known) // 2 for axis in axes if axis.extent is not None}}


def has_products(kernel: Kernel) -> bool:
    """Whether it is a tile of a product, whose columns are what runs in vectors."""
    return any(isinstance(s, Accumulate) and REDUCTIONS[s.op].products for s in statements(kernel.body))


def stored_by(kernel: Kernel) -> set[str]:
    """The buffers and locals that the kernel stores to: their loads have a place in its order."""
    return {store.buffer for store in stores(kernel.body)}


def is_ordered(loop: Loop) -> bool:
    """Whether an iteration may see, or overwrite, what an earlier one stored: then they run one after the other."""
    written = {store.buffer for store in stores(loop.body)}
    if any(load.buffer in written for load in loads(loop.body)):
        return True
    return not _writes_apart(loop, ())


def _writes_apart(loop: Loop, outer: tuple[Symbol, ...]) -> bool:
    """Whether it is certain that each iteration of these loops stores to places of its own."""
    axes = (*outer, *loop.axes)
    for statement in loop.body:
        match statement:
            case Loop() if not _writes_apart(statement, axes):
                return False
            case Store(place=place) if not _are_apart(place_indices(place), axes):
                return False
    return True


def _are_apart(place: tuple[Index, ...], axes: tuple[Symbol, ...]) -> bool:
    """Whether each index alone tells the axes in it apart, and all together all axes.

    Sorted by what they are multiplied by, each must step over all that the ones before it reach.
    """
    known: set[Symbol] = set()
    for index in place:
        if any(symbol.signed for symbol in index.symbols):
            return False  # read from a tensor
        steps: list[tuple[Index, Index]] = []
        for axis in index.symbols & set(axes):
            step = index.coefficient(axis)
            if step is None or step.symbols & set(axes) or axis.extent is None:
                return False
            steps.append((-step if (step.constant or 0) < 0 else step, axis.extent))
            known.add(axis)
        reached = ZERO
        for step, extent in sorted(steps, key=_magnitude):
            if not is_not_negative(step - reached - 1):
                return False
            reached = reached + step * (extent - 1)
    return all(axis in known or axis.extent == ONE for axis in axes)


def _magnitude(step: tuple[Index, Index]) -> tuple[int, int]:
    """What tells steps apart that are constants, or products of sizes."""
    terms = step[0].terms
    return max((len(monomial) for monomial, _ in terms), default=0), sum(coefficient for _, coefficient in terms)


def chunk_size(kernel: Kernel, machine: Machine) -> int:
    """How many iterations of the vector axis make one part, where it is an outer axis."""
    vector = kernel.vector
    if vector is None or vector.axis not in kernel.axes:
        return 1
    rows = product([rows_of(axis, vector) for axis in kernel.axes if axis != vector.axis]).constant
    extent = vector.axis.extent.constant if vector.axis.extent is not None else None
    if rows is None or extent is None:
        return 4096 if vector.width <= 64 else 64 * vector.width
    parts = max(1, 2 * machine.threads // max(rows, 1))
    size = -(-max(extent, 1) // parts)
    return -(-size // vector.width) * vector.width


def rows_of(axis: Symbol, vector: Vector | None) -> Index:
    """How many parts an outer axis other than the vector's makes: its extent, or tiles of it."""
    assert axis.extent is not None
    if vector is not None and vector.across == axis:
        return chunk_count(axis, vector.width)
    return axis.extent


def chunk_count(axis: Symbol, chunk: int) -> Index:
    assert axis.extent is not None
    return (axis.extent + (chunk - 1)) // chunk


def part_count(kernel: Kernel, chunk: int) -> Index:
    """How many iterations of its outermost loop the kernel has: what threads share out."""
    vector = kernel.vector
    count = ONE
    for axis in kernel.axes:
        is_vector = vector is not None and axis == vector.axis
        count = count * (chunk_count(axis, chunk) if is_vector else rows_of(axis, vector))
    return count
