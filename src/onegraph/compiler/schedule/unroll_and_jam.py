"""A short outer axis is written out inside of the reduction: what is loaded for one of its iterations serves all.

    kernel k(i: 4, j: 3072):                     kernel k(j: 3072):
      for r: 768:                                  for r: 768:
        t0: f32 = load x[i, r]                       t0: f32 = load w[j, r]
        t1: f32 = load w[j, r]                       t1: f32 = load x[0, r]
        t2: f32 = mul(t0, t1)                        t2: f32 = mul(t1, t0)
        t3: f32 = sum over t2                        t3: f32 = sum over t2
      store y[i, j] = t3                             ...
                                                   store y[0, j] = t3
                                                   ...

Products of few rows are such kernels: their time is that of reading the weight, which this does once. The name is that
of the transformation in the literature: F. E. Allen, J. Cocke, "A catalogue of optimizing transformations" (1971).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from onegraph.base.context import Context
from onegraph.compiler.body import Body
from onegraph.compiler.kernels import place_indices
from onegraph.compiler.schedule.splice import Splicer, plain_load
from onegraph.compiler.target import Machine
from onegraph.ir.index import Index, Symbol, product
from onegraph.ir.loop import (
    Accumulate,
    Apply,
    Bitcast,
    Cast,
    Check,
    IndexValue,
    Kernel,
    Let,
    Load,
    Loop,
    Program,
    Store,
    loads,
    statements,
)

SHORT = 8  # iterations
STATEMENTS = 160  # of the iterations when they are written out
MUCH = 1 << 14  # elements: a load of fewer stays near anyway


def unroll_and_jam(program: Program, cx: Context, machine: Machine) -> Program:
    """Write out the short axes of reductions over which a large operand is read again and again."""
    most = machine.totals // 4  # of all iterations: they have a few lanes each
    steps = (_kernel(step, most) if isinstance(step, Kernel) else step for step in program.steps)
    return replace(program, steps=tuple(steps))


def _kernel(kernel: Kernel, most: int) -> Kernel:
    found = [statement for statement in kernel.body if isinstance(statement, Loop)]
    if len(found) != 1 or kernel.locals or not _is_plain(kernel, found[0]):
        return kernel
    totals = sum(isinstance(statement, Accumulate) for statement in found[0].body)
    for axis in kernel.axes:
        length = axis.extent.constant if axis.extent is not None else None
        if length is None or not 1 < length <= min(SHORT, most // totals):
            continue
        if length * _count_along(kernel, axis) > STATEMENTS:
            continue
        if any(_is_shared(load, axis, kernel, found[0]) for load in loads(found[0].body)):
            return _written_out(kernel, axis, length)
    return kernel


def _count_along(kernel: Kernel, axis: Symbol) -> int:
    """The statements that differ from one iteration of the axis to another: others are written once."""
    differing: set[str] = set()
    count = 0
    for statement in statements(kernel.body):
        used: set[object] = set()
        match statement:
            case Let(value=Apply(_, args)) | Accumulate(args=args):
                used.update(args)
            case Let(value=Cast(arg) | Bitcast(arg)):
                used.add(arg)
            case Let(value=IndexValue(index)):
                used.update(symbol.name for symbol in index.symbols)
            case Let(value=Load(place=place)) | Store(place=place):
                used.update(symbol.name for index in place_indices(place) for symbol in index.symbols)
                used.add(statement.value if isinstance(statement, Store) else None)
        if axis.name in used or not used.isdisjoint(differing):
            count += 1
            if isinstance(statement, Let | Accumulate):
                differing.add(statement.name)
    return count


def _is_plain(kernel: Kernel, loop: Loop) -> bool:
    """Whether the loop does nothing but reduce, and each element is stored once and not read back."""
    if not all(isinstance(statement, Let | Accumulate) for statement in loop.body):
        return False
    if not any(isinstance(statement, Accumulate) for statement in loop.body):
        return False
    stored = [statement for statement in kernel.body if isinstance(statement, Store)]
    names = {store.buffer for store in stored}
    if len(names) != len(stored) or any(store.atomic for store in stored):
        return False
    return not any(load.buffer in names for load in loads(kernel.body)) and not any(
        isinstance(statement, Check) for statement in kernel.body
    )


def _is_shared(load: Load, axis: Symbol, kernel: Kernel, loop: Loop) -> bool:
    """Whether each iteration of the axis would read all of a large operand, whose elements no other reads."""
    used = {symbol for index in place_indices(load.place) for symbol in index.symbols}
    others = [other for other in (*kernel.axes, *loop.axes) if other != axis]
    if axis in used or not used.issuperset(others) or load.condition is not None:
        return False
    count = product([other.extent for other in others if other.extent is not None]).constant
    return count is not None and count >= MUCH


def _written_out(kernel: Kernel, axis: Symbol, length: int) -> Kernel:
    body = Body(other for other in kernel.axes if other != axis)
    copies = [Splicer(body, plain_load(body), {axis: Index.of(position)}) for position in range(length)]
    for statement in kernel.body:
        if isinstance(statement, Loop):
            body.enter(statement.axes)
        for copy in copies:
            match statement:
                case Loop(_, inner):
                    copy.block(inner)
                case Store(buffer, place, value):
                    indices = tuple(map(copy.index, place_indices(place)))
                    moved: Any = replace(place, indices=indices)  # type: ignore[arg-type]  # of the same kind
                    body.store(buffer, moved, copy.operand(value))
                case Let():
                    copy.statement(statement)
        if isinstance(statement, Loop):
            body.leave()
    return replace(kernel, axes=tuple(other for other in kernel.axes if other != axis), body=body.block())
