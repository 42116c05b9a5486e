"""A buffer that kernels make and a library sees through a view gets the view's shape from the start.

    kernel k(i0: 96):                      kernel k(i0: 96):
      store a @ i0 = 1.0      a: [2, 6, 8]   store v @ i0 = 1.0      v: [12, 8]
    v = view a offset 0       v: [12, 8]   y = extern aten.mm.default(v, w)
    y = extern aten.mm.default(v, w)

Flat kernels know memory only by offsets, and a view less is a tensor less to make at every call.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from onegraph.base.context import Context
from onegraph.ir.index import product
from onegraph.ir.loop import (
    Block,
    Buffer,
    Extern,
    Kernel,
    Let,
    Load,
    Loop,
    Program,
    Statement,
    Step,
    Store,
    View,
    reads,
    writes,
)
from onegraph.torchlib.strides import is_dense


def absorb_views(program: Program, cx: Context) -> Program:
    """Give buffers the shape of the first view that covers them, where only kernels use them otherwise."""
    table = program.table()
    made = {name for step in program.steps if isinstance(step, Kernel) for name in writes(step)}
    pinned = {name for name in program.outputs if isinstance(name, str)}
    pinned |= {name for step in program.steps if isinstance(step, Extern) for name in (*reads(step), *writes(step))}
    renamed: dict[str, str] = {}
    for step in program.steps:
        if isinstance(step, View) and step.base in made - pinned - renamed.keys() and step.offset == 0:
            if _covers(table[step.name], table[step.base]):
                renamed[step.base] = step.name
    if not renamed:
        return program
    steps = tuple(_step(step, renamed) for step in program.steps if not _is_absorbed(step, renamed))
    return replace(program, steps=steps, buffers=tuple(b for b in program.buffers if b.name not in renamed))


def _covers(view: Buffer, base: Buffer) -> bool:
    """Whether the view has every element of a buffer without gaps, and nothing else."""
    return product(view.type.shape) == product(base.type.shape) and _is_dense(view) and _is_dense(base)


def _is_dense(buffer: Buffer) -> bool:
    """Whether the elements fill a block of memory in some order of the dimensions. Sizes must be known."""
    sizes, strides = ([n.constant for n in numbers] for numbers in (buffer.type.shape, buffer.type.strides))
    return None not in (*sizes, *strides) and is_dense(sizes, strides)  # type: ignore[arg-type]


def _is_absorbed(step: Step, renamed: Mapping[str, str]) -> bool:
    return isinstance(step, View) and renamed.get(step.base) == step.name


def _step(step: Step, renamed: Mapping[str, str]) -> Step:
    match step:
        case Kernel():
            return replace(step, body=_block(step.body, renamed))
        case View(name, base, offset):
            return View(name, renamed.get(base, base), offset)
    return step


def _block(block: Block, renamed: Mapping[str, str]) -> Block:
    return tuple(_statement(statement, renamed) for statement in block)


def _statement(statement: Statement, renamed: Mapping[str, str]) -> Statement:
    match statement:
        case Let(name, dtype, Load(buffer, place, condition)) if buffer in renamed:
            return Let(name, dtype, Load(renamed[buffer], place, condition))
        case Store(buffer) if buffer in renamed:
            return replace(statement, buffer=renamed[buffer])
        case Loop(axes, body):
            return Loop(axes, _block(body, renamed))
    return statement
