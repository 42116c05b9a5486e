"""An image with zeros around it, which a convolution in tiles reads, is put there by the convolution that makes it.

    kernel k_z(h: 9, w: 9):                        kernel k_z_border():
      t0: bool = ge(h - 1, 0)                        for w: 9:
      ...                                              store z[0, w] = 0.0
      t6: f32 = load y[h - 1, w - 1] if t5             store z[8, w] = 0.0
      t7: f32 = where(t5, t6, 0.0)                   for h: 7:
      store z[h, w] = t7                               store z[h + 1, 0] = 0.0
                                                       store z[h + 1, 8] = 0.0
                                                   kernel k_z(h: 7, w: 7):
                                                     t0: f32 = load y[h, w]
                                                     store z[h + 1, w + 1] = t0

`fuse` then joins the second kernel with the one that makes `y`, which needs no memory: nothing is copied, no element is
asked for where it is.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from onegraph.base.context import Context
from onegraph.compiler.body import Body
from onegraph.compiler.kernels import stored_by
from onegraph.compiler.schedule.inline import Definition, definition_of, rewritten
from onegraph.compiler.schedule.splice import Splicer, plain_load
from onegraph.compiler.schedule.tile_products import rows_of_product
from onegraph.ir.index import Index, Symbol
from onegraph.ir.loop import Apply, Check, Coordinates, IndexValue, Kernel, Let, Literal, Program, Step, Store, reads

MOST = 16  # rows and columns around an image, for each of which there is a store
Range = tuple[int, int]  # from the first to behind the last


def pad_in_place(program: Program, cx: Context) -> Program:
    """Divide the kernels that put something around an image that a product makes, for another one."""
    table = program.table()
    readers: dict[str, list[Step]] = {}
    for step in program.steps:
        for name in reads(step):
            readers.setdefault(name, []).append(step)
    pinned = {*program.outputs} | rewritten(program)
    joined, apart = _of_products(program)

    def parts(step: Step) -> Iterator[Step]:
        definition = definition_of(step)
        if isinstance(step, Kernel) and definition is not None and _joins(step, joined, apart):
            (name,) = (statement.buffer for statement in step.body if isinstance(statement, Store))
            users = readers.get(name, [])
            if name not in pinned and users and all(isinstance(u, Kernel) and rows_of_product(u, table) for u in users):
                yield from _parts(step, definition, name)
                return
        yield step

    return replace(program, steps=tuple(part for step in program.steps for part in parts(step)))


def _of_products(program: Program) -> tuple[set[str], set[str]]:
    """The buffers that are made of products element by element, and those behind any other reduction."""
    table = program.table()
    joined: set[str] = set()
    apart: set[str] = set()
    for step in program.steps:
        if isinstance(step, Kernel):
            if definition_of(step) is None:
                (joined if rows_of_product(step, table) else apart).update(stored_by(step))
            elif _joins(step, joined, apart):
                joined |= stored_by(step)
            elif not apart.isdisjoint(reads(step)):
                apart |= stored_by(step)
    return joined, apart


def _joins(kernel: Kernel, joined: set[str], apart: set[str]) -> bool:
    """Whether what is computed may be part of a product's kernel."""
    return not joined.isdisjoint(reads(kernel)) and apart.isdisjoint(reads(kernel))


def _parts(kernel: Kernel, definition: Definition, name: str) -> Iterator[Kernel]:
    """The border and what is within; the kernel itself if it has no border."""
    lets = {statement.name: statement.value for statement in kernel.body if isinstance(statement, Let)}
    within: dict[Symbol, Range] = {}
    filler: Literal = 0.0
    match lets.get(str(definition.stored)):
        case Apply("where", (str() as inside, _, (float() | int()) as number)):
            within, filler = _ranges(inside, lets) or {}, number
    around = sum(_size(axis) - (high - low) for axis, (low, high) in within.items())
    checks = any(isinstance(statement, Check) for statement in kernel.body)
    if not 0 < around <= MOST or checks or any(low >= high for low, high in within.values()):
        yield kernel
        return
    yield _border(kernel, definition, name, filler, within)
    axes = {axis: Symbol(axis.name, Index.of(high - low)) for axis, (low, high) in within.items()}
    outer = tuple(axes.get(axis, axis) for axis in kernel.axes)
    body = Body(outer, volatile=(name,))
    moved = {axis: Index.of(new) + within[axis][0] for axis, new in axes.items()}
    Splicer(body, plain_load(body), moved, stores=True).block(kernel.body)
    yield replace(kernel, axes=outer, body=body.block())


def _ranges(condition: str, lets: Mapping[str, object]) -> dict[Symbol, Range] | None:
    """The positions along axes for which the condition holds, if it says just that."""
    match lets.get(condition):
        case Apply("and", (str() as a, str() as b)):
            first, second = _ranges(a, lets), _ranges(b, lets)
            if first is None or second is None:
                return None
            both = {axis: first.get(axis) or second[axis] for axis in {**first, **second}}
            for axis in first.keys() & second.keys():
                both[axis] = max(first[axis][0], second[axis][0]), min(first[axis][1], second[axis][1])
            return both
        case Apply("ge" | "lt" as op, (str() as place, int() as bound)):
            match lets.get(place):
                case IndexValue(index) if len(index.symbols) == 1:
                    (axis,) = index.symbols
                    begin = (index - Index.of(axis)).constant
                    size = axis.extent.constant if axis.extent is not None else None
                    if begin is not None and size is not None:
                        return {axis: (max(bound - begin, 0), size) if op == "ge" else (0, min(bound - begin, size))}
    return None


def _border(
    kernel: Kernel, definition: Definition, name: str, filler: Literal, within: Mapping[Symbol, Range]
) -> Kernel:
    """Loops over all that is around: of each axis what is before and behind, where those before it are within."""
    outer = tuple(axis for axis in kernel.axes if axis not in within)
    body = Body(outer, volatile=(name,))
    ranges: dict[Symbol, Range] = {axis: (0, _size(axis)) for axis in within}
    for axis, (low, high) in within.items():
        along = {each: r for each, r in ranges.items() if each != axis}
        loops = {each: Symbol(f"r{k}", Index.of(end - begin)) for k, (each, (begin, end)) in enumerate(along.items())}
        at = {each: Index.of(loop) + along[each][0] for each, loop in loops.items()}
        with body.within(tuple(loops.values())):
            for position in (*range(low), *range(high, _size(axis))):
                place = tuple(index.substitute({**at, axis: Index.of(position)}) for index in definition.place)
                body.store(name, Coordinates(place), filler)
        ranges[axis] = low, high
    return Kernel(f"{kernel.name}_border", outer, body.block())


def _size(axis: Symbol) -> int:
    assert axis.extent is not None and axis.extent.constant is not None
    return axis.extent.constant
