"""Axes are split where an index divides by a constant, then merged where one continues the other in all accesses.

Split:    x @ (i0 // 4) * 100 + i0 % 4     i0: 12     becomes     x @ i0 * 100 + i1     i0: 3, i1: 4
Merge:    x @ i0 * 8 + i1        i0: 4, i1: 8         becomes     x @ i0                i0: 32

Fewer and longer axes cost less per element, and an index without divisions moves along memory in steps.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TypeGuard

from onegraph.base.context import Context
from onegraph.compiler.kernels import indices, is_ordered
from onegraph.ir.index import Call, Index, Symbol
from onegraph.ir.loop import (
    Block,
    IndexValue,
    Kernel,
    Let,
    Load,
    Loop,
    Offset,
    Place,
    Program,
    Statement,
    Step,
    Store,
)

Axes = tuple[Symbol, ...]


def split_axes(program: Program, cx: Context) -> Program:
    """Split axes so that indices need no division."""
    return replace(program, steps=tuple(_split(step) if _is_open(step) else step for step in program.steps))


def merge_axes(program: Program, cx: Context) -> Program:
    """Merge axes that run through memory as one."""
    return replace(program, steps=tuple(_merge(step) if _is_open(step) else step for step in program.steps))


def _is_open(step: Step) -> TypeGuard[Kernel]:
    """Whether the axes of a kernel may change: others were chosen with the vector's."""
    return isinstance(step, Kernel) and step.vector is None


# ---- splitting -------------------------------------------------------------------------------------------------------


def _split(kernel: Kernel) -> Kernel:
    """One axis after another, until no division is left that splitting an axis removes."""
    for _ in range(16):
        found = _divided(kernel)
        if found is None:
            break
        axis, by = found
        assert axis.extent is not None
        high = Symbol(f"{axis.name}h", axis.extent // by)
        low = Symbol(f"{axis.name}l", Index.of(by))
        kernel = _replaced(kernel, {axis: (high, low)}, {axis: Index.of(high) * by + Index.of(low)})
    return kernel


def _divided(kernel: Kernel) -> tuple[Symbol, int] | None:
    """An axis, and a divisor of its extent by which some index divides it."""
    axes = {*kernel.axes, *(axis for loop in _loops(kernel.body) for axis in loop.axes)}
    for index in indices(kernel.body):
        for monomial, _ in index.terms:
            for atom in monomial:
                if isinstance(atom, Call) and atom.op in ("//", "%"):
                    found = _splitting(atom, axes)
                    if found is not None:
                        return found
    return None


def _splitting(call: Call, axes: set[Symbol]) -> tuple[Symbol, int] | None:
    """How to split an axis so that the quotient or remainder goes away."""
    divisor = call.b.constant
    if divisor is None or call.op not in ("//", "%"):
        return None
    for nested, _ in ((atom, 0) for monomial, _ in call.a.terms for atom in monomial):
        if isinstance(nested, Call):
            found = _splitting(nested, axes)
            if found is not None:
                return found
    for monomial, step in call.a.terms:
        if len(monomial) != 1 or monomial[0] not in axes or step <= 0 or divisor % step:
            continue
        axis, by = monomial[0], divisor // step
        assert isinstance(axis, Symbol) and axis.extent is not None
        extent = axis.extent.constant
        if extent is not None and extent > by > 1 and extent % by == 0:
            return axis, by
    return None


def _loops(block: Block) -> Iterable[Loop]:
    for statement in block:
        if isinstance(statement, Loop):
            yield statement
            yield from _loops(statement.body)


# ---- merging ---------------------------------------------------------------------------------------------------------


def _merge(kernel: Kernel) -> Kernel:
    while True:
        accesses = list(dict.fromkeys(indices(kernel.body)))
        loops = list(_loops(kernel.body))
        nests = [kernel.axes, *(loop.axes for loop in loops)]
        ordered = {loop.axes for loop in loops if is_ordered(loop)}
        pairs = (_mergeable(axes, nests, accesses, axes in ordered) for axes in nests)
        pair = next((pair for pair in pairs if pair is not None), None)
        if pair is None:
            return kernel
        high, low = pair
        assert high.extent is not None and low.extent is not None
        both = Symbol(low.name, high.extent * low.extent)
        # In every access the high axis continues the low one: with it at 0, the low one alone says it all.
        kernel = _replaced(kernel, {high: (), low: (both,)}, {high: Index.of(0), low: Index.of(both)})


def _mergeable(axes: Axes, nests: list[Axes], accesses: list[Index], ordered: bool) -> tuple[Symbol, Symbol] | None:
    """Two of the axes that are one in every access, and stand together in every loop; neighbours if it is ordered."""
    for position, high in enumerate(axes):
        for low in axes[position + 1 : position + 2] if ordered else axes:
            if high == low or any((high in nest) != (low in nest) for nest in nests):
                continue
            if all(_continues(index, high, low) for index in accesses):
                return high, low
    return None


def _continues(index: Index, high: Symbol, low: Symbol) -> bool:
    """Whether the index moves for one step of `high` as far as for a whole run of `low`."""
    if high not in index.symbols and low not in index.symbols:
        return True
    step, inner = index.coefficient(high), index.coefficient(low)
    assert low.extent is not None
    if step is None or inner is None or high in inner.symbols or low in step.symbols:
        return False
    return step == inner * low.extent


# ---- replacing -------------------------------------------------------------------------------------------------------


def _replaced(kernel: Kernel, axes: Mapping[Symbol, Axes], values: Mapping[Symbol, Index]) -> Kernel:
    """The kernel with axes replaced by others, and by expressions in the indices."""
    return replace(kernel, axes=_new_axes(kernel.axes, axes), body=_block(kernel.body, axes, values))


def _new_axes(axes: Axes, new: Mapping[Symbol, Axes]) -> Axes:
    return tuple(item for axis in axes for item in new.get(axis, (axis,)))


def _block(block: Block, axes: Mapping[Symbol, Axes], values: Mapping[Symbol, Index]) -> Block:
    return tuple(_statement(statement, axes, values) for statement in block)


def _statement(statement: Statement, axes: Mapping[Symbol, Axes], values: Mapping[Symbol, Index]) -> Statement:
    match statement:
        case Let(name, dtype, Load(buffer, place, condition)):
            return Let(name, dtype, Load(buffer, _place(place, values), condition))
        case Let(name, dtype, IndexValue(index)):
            return Let(name, dtype, IndexValue(index.substitute(values)))
        case Store(buffer, place, value, atomic):
            return Store(buffer, _place(place, values), value, atomic)
        case Loop(old, body):
            return Loop(_new_axes(old, axes), _block(body, axes, values))
    return statement


def _place(place: Place, values: Mapping[Symbol, Index]) -> Place:
    assert isinstance(place, Offset)
    return Offset(place.index.substitute(values))
