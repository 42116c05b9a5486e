"""Rough times: enough to decide what is worth a thread, a store, or a second computation."""

from __future__ import annotations

from collections.abc import Mapping

from onegraph.compiler.kernels import with_middles
from onegraph.compiler.target import Machine
from onegraph.ir.index import Index, Symbol, product
from onegraph.ir.loop import Accumulate, Apply, Block, Cast, Kernel, Let, Load, Loop, Store
from onegraph.ir.scalar import SCALAR_OPS

ACCESS = 2.0  # of memory that is near, in units of an addition


def block_cost(block: Block) -> float:
    """The cost of the statements once, without those in inner loops, in units of an addition."""
    return sum(statement_cost(statement) for statement in block)


def statement_cost(statement: object) -> float:
    match statement:
        case Let(value=Apply(op)):
            return SCALAR_OPS[op].cost
        case Let(value=Load()) | Store():
            return ACCESS
        case Let(value=Cast()) | Accumulate():
            return 1.0
    return 0.0


def iteration_cost(kernel: Kernel) -> Index:
    """The cost of the body with its loops, in units of an addition; it depends on their sizes."""
    return _cost(kernel.body, with_middles(kernel.axes, {}))


def _cost(block: Block, middle: Mapping[Symbol, Index]) -> Index:
    """A loop whose length depends on those around it counts as in the middle of them."""
    total = Index.of(round(block_cost(block)))
    for statement in block:
        if isinstance(statement, Loop):
            inner = with_middles(statement.axes, middle)
            count = product([axis.extent.substitute(middle) for axis in statement.axes if axis.extent is not None])
            total = total + _cost(statement.body, inner) * count
    return total


def part_nanoseconds(kernel: Kernel, chunk: int, machine: Machine) -> Index:
    """About how long one of the kernel's parts takes."""
    cost = iteration_cost(kernel)
    vector = kernel.vector.axis if kernel.vector is not None else None
    if vector in kernel.axes:
        cost = cost * chunk
    speed = machine.speed if vector is not None else 1
    constant = cost.constant
    if constant is not None:
        return Index.of(max(1, round(constant / speed)))
    return cost // speed + 1
