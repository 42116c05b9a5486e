"""A long reduction to few results is done in parts, which threads can share, and the parts are reduced in turn.

    kernel k_s():                              kernel k_s_parts(i: 32):
      for r0: 1048576:                           for r0: 32768:
        t0: f32 = load x[r0]                       t0: f32 = load x[i * 32768 + r0]
        t1: f32 = sum over t0                      t1: f32 = sum over t0
      store s[] = t1                             store s_parts[i] = t1
                                               kernel k_s():
                                                 for p: 32:
                                                   t0: f32 = load s_parts[p]
                                                   t1: f32 = sum over t0
                                                 store s[] = t1

Where no divisor of the axis is near, the last part is shorter: its surplus positions are masked.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from onegraph.base.context import Context
from onegraph.compiler.body import Body
from onegraph.compiler.codegen.accumulators import identity
from onegraph.compiler.schedule.splice import Splicer, plain_load
from onegraph.compiler.target import Machine
from onegraph.ir.index import ONE, Index, Symbol, product
from onegraph.ir.loop import (
    Accumulate,
    Buffer,
    Coordinates,
    Kernel,
    Let,
    Loop,
    Place,
    Program,
    Statement,
    Step,
    Store,
)
from onegraph.ir.scalar import REDUCTIONS
from onegraph.ir.types import BOOL, TensorType, contiguous_strides

MANY_ELEMENTS = 1 << 16


def split_reductions(program: Program, cx: Context, machine: Machine) -> Program:
    """Split the reductions that threads could not share otherwise."""
    table = program.table()
    buffers = list(program.buffers)
    steps: list[Step] = []
    for step in program.steps:
        pieces = _split(step, table, machine) if isinstance(step, Kernel) else None
        if pieces is None:
            steps.append(step)
        else:
            buffers.append(pieces[0])
            steps += pieces[1:]
    return replace(program, buffers=tuple(buffers), steps=tuple(steps))


def _split(kernel: Kernel, table: dict[str, Buffer], machine: Machine) -> tuple[Buffer, Kernel, Kernel] | None:
    match kernel.body:
        case (*before, Loop(axes, body), Store(output, place, value)) if all(isinstance(s, Let) for s in before):
            pass
        case _:
            return None
    last = body[-1]
    if not isinstance(last, Accumulate) or value != last.name or sum(isinstance(s, Accumulate) for s in body) > 1:
        return None
    rows = product([axis.extent or ONE for axis in kernel.axes]).constant
    count = product([axis.extent or ONE for axis in axes]).constant
    if rows is None or count is None or not 0 < rows < machine.threads or rows * count < MANY_ELEMENTS:
        return None
    if REDUCTIONS[last.op].positional:
        return None
    axis = max(axes, key=_extent)
    parts = _part_count(_extent(axis), -(-machine.parts // rows))
    if parts < 2:
        return None
    dtype = last.dtype
    extents = tuple(a.extent for a in kernel.axes if a.extent is not None)
    shape = (*extents, Index.of(parts))
    buffer = Buffer(f"{output}_parts", TensorType(dtype, shape, contiguous_strides(shape)))
    first = _partial(kernel, before, Loop(axes, body), axis, parts, buffer.name)
    return buffer, first, _total(kernel, last, parts, buffer.name, place)


def _extent(axis: Symbol) -> int:
    assert axis.extent is not None and axis.extent.constant is not None
    return axis.extent.constant


def _part_count(extent: int, wanted: int) -> int:
    """A divisor of the extent near the wanted number, or that number itself."""
    divisors = [count for count in range(max(wanted // 2, 2), 4 * wanted) if extent % count == 0]
    return min(divisors, key=lambda count: abs(count - wanted), default=min(wanted, extent))


def _partial(kernel: Kernel, before: Sequence[Statement], loop: Loop, axis: Symbol, parts: int, output: str) -> Kernel:
    """The kernel that reduces each part by itself."""
    length = -(-_extent(axis) // parts)
    part, within = Symbol(f"{axis.name}p", Index.of(parts)), Symbol(axis.name, Index.of(length))
    body = Body((*kernel.axes, part))
    body.enter(within if a == axis else a for a in loop.axes)
    position = Index.of(part) * length + Index.of(within)
    condition = body.apply("lt", BOOL, body.index(position), _extent(axis))
    copy = Splicer(body, plain_load(body), {axis: position}, None if condition is True else condition)
    copy.block((*before, *loop.body[:-1]))
    last = loop.body[-1]
    assert isinstance(last, Accumulate)
    value = copy.operand(last.args[0])
    if condition is not True:
        value = body.apply("where", last.dtype, condition, value, identity(REDUCTIONS[last.op].identity, last.dtype))
    total = body.accumulate(last.op, last.dtype, value)
    body.leave()
    body.store(output, Coordinates(tuple(map(Index.of, (*kernel.axes, part)))), total)
    return Kernel(f"{kernel.name}_parts", (*kernel.axes, part), body.block())


def _total(kernel: Kernel, last: Accumulate, parts: int, given: str, place: Place) -> Kernel:
    """The kernel that reduces the parts."""
    output = next(s.buffer for s in kernel.body if isinstance(s, Store))
    part = Symbol("p", Index.of(parts))
    body = Body(kernel.axes)
    body.enter((part,))
    value = body.load(last.dtype, given, Coordinates(tuple(map(Index.of, (*kernel.axes, part)))))
    total = body.accumulate(last.op, last.dtype, value)
    body.leave()
    body.store(output, place, total)
    return Kernel(kernel.name, kernel.axes, body.block())
