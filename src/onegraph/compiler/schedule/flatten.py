"""Coordinates become offsets in memory.

load x[i0, i1]       x: f32[4, 8] stride (8, 1)      load x @ i0 * 8 + i1
"""

from __future__ import annotations

from dataclasses import replace

from onegraph.base.context import Context
from onegraph.ir.loop import (
    Block,
    Buffer,
    Kernel,
    Let,
    Load,
    Loop,
    Offset,
    Place,
    Program,
    Statement,
    Store,
)


def flatten(program: Program, cx: Context) -> Program:
    """Replace all coordinates in kernels by offsets."""
    table = program.table()
    steps = tuple(
        replace(step, body=_block(step.body, table)) if isinstance(step, Kernel) else step for step in program.steps
    )
    return replace(program, steps=steps)


def _block(block: Block, table: dict[str, Buffer]) -> Block:
    return tuple(_statement(statement, table) for statement in block)


def _statement(statement: Statement, table: dict[str, Buffer]) -> Statement:
    match statement:
        case Let(name, dtype, Load(buffer, place, condition)):
            return Let(name, dtype, Load(buffer, _offset(buffer, place, table), condition))
        case Store(buffer, place, value, atomic):
            return Store(buffer, _offset(buffer, place, table), value, atomic)
        case Loop(axes, body):
            return Loop(axes, _block(body, table))
    return statement


def _offset(buffer: str, place: Place, table: dict[str, Buffer]) -> Place:
    if isinstance(place, Offset):
        return place
    if buffer not in table:  # a local, which has one dimension
        return Offset(place.indices[0])
    return Offset(table[buffer].type.offset(place.indices))
