"""Products of matrices run in tiles of rows and columns, whose totals stay in registers.

    kernel k(i: 128, j: 768):                    kernel k(j: 768, i: 32):
      for r: 768:                                  local totals: f32[4]
        t0: f32 = load x[i, r]                     for r: 768:
        t1: f32 = load w[r, j]                       t0: f32 = load x[4 * i, r]
        t2: f32 = mul(t0, t1)                        t1: f32 = load w[r, j]
        t3: f32 = sum over t2                        t2: f32 = dot over t0, t1
      t4: f32 = load b[j]                            t3: f32 = load x[4 * i + 1, r]
      t5: f32 = add(t3, t4)                          t4: f32 = dot over t3, t1
      store y[i, j] = t5                             ...
                                                   store totals[0] = t2
                                                   ...
                                                   for row: 4:
                                                     t10: f32 = load totals[row]
                                                     ...
                                                     store y[4 * i + row, j] = t12

Several rows are written out inside of the reduction, so that a vector of the second factor is loaded once for all of
them; columns are vectors of several registers each (`vectorize`). Neighbouring tiles share the second factor. What
follows the reduction is done row by row, while the totals are near. The last tile need not be full.

Long sums are made in blocks. Several tiles go through a block of the second factor, which stays near, before any goes
through the next one; their totals are added up in memory. Source: K. Goto, R. van de Geijn, "Anatomy of
high-performance matrix multiplication" (2008).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

from onegraph.base.context import Context
from onegraph.compiler.body import Body
from onegraph.compiler.kernels import indices, place_indices, stored_by
from onegraph.compiler.schedule.splice import Splicer, plain_load
from onegraph.compiler.target import Machine
from onegraph.ir.index import ONE, ZERO, Call, Index, Symbol, least, product
from onegraph.ir.loop import (
    Accumulate,
    Apply,
    Block,
    Buffer,
    Coordinates,
    Kernel,
    Let,
    Load,
    Local,
    Loop,
    Operand,
    Program,
    Statement,
    Step,
    loads,
    stores,
)
from onegraph.ir.types import F32

BLOCK = 384  # of what is summed over: so many additions in a row lose little
TOGETHER = 11  # tiles at most, whose part of the first factor stays near, too


def tile_products(program: Program, cx: Context, machine: Machine) -> Program:
    """Write out tiles of the rows of products."""
    table = program.table()
    steps = (part for step in program.steps for part in _parts(step, table, machine))
    return replace(program, steps=tuple(steps))


def _parts(step: Step, table: dict[str, Buffer], machine: Machine) -> Iterator[Step]:
    """The kernels of a step: two for a product whose columns do not fill panels."""
    axes = rows_of_product(step, table) if isinstance(step, Kernel) else ()
    if not axes:
        yield step
        return
    assert isinstance(step, Kernel)
    step, rows = with_rows_as_one(step, axes)
    height = _height(rows.extent or ONE, machine.tile_rows)
    for part in _of_whole_panels(step):
        yield _tiles(part, rows, height, machine)


def with_rows_as_one(kernel: Kernel, rows: tuple[Symbol, ...]) -> tuple[Kernel, Symbol]:
    """The kernel with one axis in the place of these, which are in order, and that axis.

    Tiles then need not end where a row of pixels does; what lies in memory in that order is found without a division.
    """
    if len(rows) == 1:
        return kernel, rows[0]
    extents = [axis.extent or ONE for axis in rows]
    row = Symbol(rows[-1].name, product(extents))
    rest, values = Index.of(row), {}
    for axis, extent in zip(rows[:0:-1], extents[:0:-1], strict=True):
        values[axis], rest = rest % extent, rest // extent
    values[rows[0]] = rest
    axes = (*(axis for axis in kernel.axes if axis not in rows), row)
    body = Body(axes, volatile=stored_by(kernel))
    Splicer(body, plain_load(body), values, stores=True).block(kernel.body)
    return replace(kernel, axes=axes, body=body.block()), row


def _of_whole_panels(kernel: Kernel) -> Iterator[Kernel]:
    """The kernel; two where the last panel is not full: that one has a kernel of its own."""
    for axis in kernel.axes:
        extent = axis.extent.constant if axis.extent is not None else None
        width = next((width for width in _widths(kernel, axis) if extent is not None and extent % width), None)
        if extent is not None and width is not None:
            whole = extent // width * width
            if whole:
                yield _moved(kernel, axis, Symbol(axis.name, Index.of(whole)), ZERO)
            last = _moved(kernel, axis, Symbol(axis.name, Index.of(extent - whole)), Index.of(whole))
            yield replace(last, name=f"{kernel.name}_last")
            return
    yield kernel


def _widths(kernel: Kernel, axis: Symbol) -> Iterator[int]:
    """The constants by which an index divides the axis."""
    for index in indices(kernel.body):
        for atom in (atom for monomial, _ in index.terms for atom in monomial):
            if isinstance(atom, Call) and atom.op == "//" and atom.a == Index.of(axis) and atom.b.constant is not None:
                yield atom.b.constant


def _moved(kernel: Kernel, axis: Symbol, new: Symbol, begin: Index) -> Kernel:
    """The part of the kernel with an axis from here on, which is `new`."""
    axes = tuple(new if other == axis else other for other in kernel.axes)
    body = Body(axes, volatile=stored_by(kernel))
    Splicer(body, plain_load(body), {axis: begin + Index.of(new)}, stores=True).block(kernel.body)
    return replace(kernel, axes=axes, body=body.block())


def _height(rows: Index, most: int) -> int:
    """How many rows a tile has: few are computed in vain by the last one, and each loads the second factor once."""
    count = rows.constant
    if count is None:
        return most
    return min(range(min(most, count), 0, -1), key=lambda height: -(-count // height) * (height + 1))


def _tiles(kernel: Kernel, rows: Symbol, height: int, machine: Machine) -> Kernel:
    """Tiles of one height. What the last one has beyond the last row is that row again, with the same result."""
    extent = rows.extent or ONE
    ((loop, total),) = [(s, a) for s in kernel.body if isinstance(s, Loop) for a in s.body if isinstance(a, Accumulate)]
    blocks, *near = _in_blocks(loop.axes)
    others = tuple(other for other in kernel.axes if other != rows)
    count = _together(extent, height, others, machine) if near else 1
    group = Symbol(rows.name, (extent + (height * count - 1)) // (height * count))
    tile = Symbol(f"{rows.name}b", Index.of(count))
    row = Symbol(f"{rows.name}t", Index.of(height * count))
    totals = Local(f"{kernel.name}_totals", F32, height * count)
    first, begin = Index.of(group) * (height * count), Index.of(tile if count > 1 else 0) * height
    axes = (*others, group)
    body = Body(axes, volatile=(totals.name, *stored_by(kernel)))
    copies = [
        Splicer(body, plain_load(body), {rows: least(first + begin + position, extent - 1)})
        for position in range(height)
    ]
    before = kernel.body[: kernel.body.index(loop)]
    for copy in copies:
        copy.block(tuple(statement for statement in before if isinstance(statement, Let)))
    nest = [blocks]
    if near:
        body.enter((row,))
        body.store(totals.name, Coordinates((Index.of(row),)), 0.0)
        body.leave()
        nest = [blocks, *[(tile,)] * (count > 1), *near]
        ((part,), ((inner,),)) = blocks, near
        for copy in copies:
            copy.axes[loop.axes[0]] = Index.of(part) * (inner.extent or ONE) + Index.of(inner)
    for symbols in nest:
        body.enter(symbols)
    for copy in copies:
        copy.block(_contracted(loop.body))
    body.leave()
    for position, copy in enumerate(copies):
        place, value = Coordinates((begin + position,)), copy.names[total.name]
        if near:
            value = body.apply("add", F32, body.load(F32, totals.name, place), value)
        body.store(totals.name, place, value)
    for _ in nest[1:]:
        body.leave()
    body.enter((row,))
    rest = Splicer(body, plain_load(body), {rows: least(first + Index.of(row), extent - 1)}, stores=True)
    rest.names[total.name] = body.load(F32, totals.name, Coordinates((Index.of(row),)))
    rest.block(tuple(statement for statement in kernel.body if statement is not loop))
    body.leave()
    return replace(kernel, axes=axes, body=body.block(), locals=(totals,))


def _in_blocks(axes: tuple[Symbol, ...]) -> list[tuple[Symbol, ...]]:
    """The axes of a sum; or those of its blocks and within a block, where it is long and can be divided evenly."""
    extent = axes[0].extent.constant if len(axes) == 1 and axes[0].extent is not None else None
    if extent is None or extent <= BLOCK:
        return [axes]
    least_count = -(-extent // BLOCK)
    count = next((count for count in range(least_count, 2 * least_count) if extent % count == 0), None)
    if count is None:
        return [axes]
    (axis,) = axes
    return [(Symbol(f"{axis.name}b", Index.of(count)),), (Symbol(axis.name, Index.of(extent // count)),)]


def _together(rows: Index, height: int, others: tuple[Symbol, ...], machine: Machine) -> int:
    """How many tiles go through a block of the second factor before the next one: so few that all threads have work,
    and of those numbers the one with which fewest are computed in vain."""
    extents = [None if axis.extent is None else axis.extent.constant for axis in others]
    if rows.constant is None or None in extents:
        return 1
    tiles = -(-rows.constant // height)
    panels = -(-math.prod(extents) // machine.tile_columns)  # type: ignore[arg-type]
    most = max(min(TOGETHER, tiles * panels // machine.threads), 1)
    return min(range(most, most // 2, -1), key=lambda count: -(-tiles // count) * count)


def _contracted(block: Block) -> Block:
    """The sum of a product becomes a product that is added without a rounding between; it leaves dead code."""
    lets = {statement.name: statement for statement in block if isinstance(statement, Let)}
    made: list[Statement] = []
    for statement in block:
        match statement:
            case Accumulate(name, dtype, _, (str() as value,)):
                made.append(Accumulate(name, dtype, "dot", _factors(lets[value])))
            case _:
                made.append(statement)
    return tuple(made)


def _factors(let: Let) -> tuple[Operand, ...]:
    """What is multiplied; nothing if the value is no product."""
    match let.value:
        case Apply("mul", args):
            return args
    return ()


def rows_of_product(kernel: Kernel, table: dict[str, Buffer]) -> tuple[Symbol, ...]:
    """The axes of a product's rows; none for what is no product whose columns lie side by side."""
    found = [statement for statement in kernel.body if isinstance(statement, Loop)]
    if len(found) != 1 or kernel.locals or any(store.atomic for store in stores(kernel.body)):
        return ()
    (loop,) = found
    if not all(isinstance(statement, Let | Accumulate) for statement in loop.body):
        return ()
    totals = [statement for statement in loop.body if isinstance(statement, Accumulate)]
    if len(totals) != 1 or totals[0].op != "sum" or totals[0].dtype is not F32:
        return ()
    if not _adds_products(loop.body, totals[0]):
        return ()
    factors = list(loads(loop.body))
    for load in factors:
        shared = _symbols(load)
        rows = tuple(axis for axis in kernel.axes if axis not in shared)
        if all(axis.extent in (None, ONE) for axis in rows) or not _is_along(load, kernel.axes, loop.axes, table):
            continue
        if any(axis.extent is None or axis.extent.constant is None for axis in rows[1:]):
            continue  # to find them in one axis takes long, in a call and for a proof of where they are
        if all(_symbols(other).issuperset(rows) for other in factors if other is not load):
            return rows
    return ()


def _adds_products(body: Block, total: Accumulate) -> bool:
    """Whether what is added up is a product."""
    (value,) = total.args
    return any(isinstance(let, Let) and let.name == value and _factors(let) for let in body)


def _symbols(load: Load) -> set[Symbol]:
    return {symbol for index in place_indices(load.place) for symbol in index.symbols}


def _is_along(load: Load, axes: tuple[Symbol, ...], inner: tuple[Symbol, ...], table: dict[str, Buffer]) -> bool:
    """Whether neighbours in memory are neighbours among the columns."""
    place = load.place
    if load.buffer not in table or not isinstance(place, Coordinates) or load.condition is not None:
        return False
    strides = table[load.buffer].type.strides
    along = [index for index, stride in zip(place.indices, strides, strict=True) if stride == ONE]
    near = {symbol for index in along for symbol in index.symbols}
    return not near.isdisjoint(axes) and near.isdisjoint(inner)
