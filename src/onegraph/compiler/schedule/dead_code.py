"""Values that no store, check or reduction needs are dropped, and loops that are left empty with them."""

from __future__ import annotations

from dataclasses import replace

from onegraph.base.context import Context
from onegraph.compiler.kernels import place_indices
from onegraph.ir.index import Index
from onegraph.ir.loop import (
    Accumulate,
    Apply,
    Bitcast,
    Block,
    Cast,
    Check,
    IndexValue,
    Kernel,
    Let,
    Load,
    Loop,
    Operand,
    Place,
    Program,
    Statement,
    Store,
    Value,
)


def remove_dead_code(program: Program, cx: Context) -> Program:
    """Sweep every kernel backwards, keeping what something kept needs."""
    return replace(
        program,
        steps=tuple(
            replace(step, body=_live(step.body, set())) if isinstance(step, Kernel) else step for step in program.steps
        ),
    )


def _live(block: Block, needed: set[str]) -> Block:
    """The statements that matter; `needed` are the names that what follows uses, and grows by what these use."""
    kept: list[Statement] = []
    for statement in reversed(block):
        match statement:
            case Let(name, _, value):
                if name not in needed:
                    continue
                needed |= _names(value)
            case Accumulate(name, _, _, args):
                if name not in needed:
                    continue
                needed |= _operands(args)
            case Store(_, place, operand):
                needed |= _operands((operand,)) | _place(place)
            case Check(condition):
                needed |= _operands((condition,))
            case Loop(axes, body):
                live = _live(body, needed)
                if not live:
                    continue
                needed |= set().union(*(_symbols(axis.extent) for axis in axes if axis.extent is not None))
                statement = Loop(axes, live)
        kept.append(statement)
    return tuple(reversed(kept))


def _operands(operands: tuple[Operand, ...]) -> set[str]:
    return {operand for operand in operands if isinstance(operand, str)}


def _names(value: Value) -> set[str]:
    match value:
        case IndexValue(index):
            return _symbols(index)
        case Load(_, place, condition):
            return _place(place) | ({condition} if condition is not None else set())
        case Apply(_, args):
            return _operands(args)
        case Cast(arg) | Bitcast(arg):
            return {arg}
    return set()


def _place(place: Place) -> set[str]:
    return set().union(*map(_symbols, place_indices(place)))


def _symbols(index: Index) -> set[str]:
    return {symbol.name for symbol in index.symbols if symbol.signed}
