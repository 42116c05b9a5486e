"""What nothing needs is dropped: values and loops of kernels, whole kernels, views, and results of library calls."""

from __future__ import annotations

from dataclasses import replace

from onegraph.base.context import Context
from onegraph.compiler.kernels import place_indices
from onegraph.ir.index import Index, Symbol
from onegraph.ir.loop import (
    Accumulate,
    Apply,
    Bitcast,
    Block,
    Cast,
    Check,
    Extern,
    IndexValue,
    Kernel,
    Let,
    Load,
    Loop,
    Operand,
    Place,
    Program,
    Statement,
    Step,
    Store,
    Value,
    View,
    reads,
    statements,
    writes,
)

# Library calls that do nothing but give their result. Others stay: they may draw random numbers, or raise.
WITHOUT_EFFECT = ("aten.empty", "aten.fill.Tensor")


def remove_dead_code(program: Program, cx: Context) -> Program:
    """Sweep the steps, and every kernel's statements, backwards, keeping what something kept needs."""
    needed = {name for name in program.outputs if isinstance(name, str)} | {size.buffer for size in program.sizes}
    kept: list[Step] = []
    for step in reversed(program.steps):
        match step:
            case Kernel():
                checks = any(isinstance(statement, Check) for statement in statements(step.body))
                if not checks and not needed & set(writes(step)):
                    continue
                step = replace(step, body=_live(step.body, set()))
            case View(name):
                if name not in needed:
                    continue
            case Extern():
                if step.operator.startswith(WITHOUT_EFFECT) and not needed & set(writes(step)):
                    continue
                step = replace(
                    step, outputs=tuple(o if isinstance(o, Symbol) or o in needed else None for o in step.outputs)
                )
        needed |= {*reads(step), *writes(step)}
        kept.append(step)
    named = {*needed, *(name for name in program.inputs if isinstance(name, str))}
    buffers = tuple(buffer for buffer in program.buffers if buffer.name in named)
    return replace(program, steps=tuple(reversed(kept)), buffers=buffers)


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
