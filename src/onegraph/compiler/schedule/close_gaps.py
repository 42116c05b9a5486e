"""A buffer that only kernels use has no gaps: nobody looks at its strides.

    buffer row: f32[4, 64] stride (4096, 1)        buffer row: f32[4, 64] stride (64, 1)

The strides of a result are eager's; a part of a larger tensor that is made anew would span as much memory as that one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from onegraph.base.context import Context
from onegraph.ir.index import ONE, ZERO, Index
from onegraph.ir.loop import Extern, Program, View, reads, writes
from onegraph.ir.types import TensorType, contiguous_strides


def close_gaps(program: Program, cx: Context) -> Program:
    """Give such buffers strides without gaps, in the order of dimensions that they have."""
    seen = {name for name in (*program.inputs, *program.outputs) if isinstance(name, str)}
    seen |= {
        name for step in program.steps if isinstance(step, Extern | View) for name in (*reads(step), *writes(step))
    }
    buffers = tuple(
        b if b.constant or b.name in seen else replace(b, type=without_gaps(b.type)) for b in program.buffers
    )
    return replace(program, buffers=buffers)


def without_gaps(type: TensorType) -> TensorType:
    """The type with strides of a block of memory; itself, if its elements fill one."""
    if ZERO in type.shape or _fills_block(type.shape, type.strides):
        return type
    strides = [stride.constant for stride in type.strides]
    if None in strides:
        return replace(type, strides=contiguous_strides(type.shape))
    order = sorted(range(type.rank), key=lambda dim: (strides[dim] or 0, -dim))
    found, step = [ONE] * type.rank, ONE
    for dim in order:
        found[dim] = step
        step = step * type.shape[dim]
    return replace(type, strides=tuple(found))


def _fills_block(shape: Sequence[Index], strides: Sequence[Index]) -> bool:
    """Whether one dimension after the other continues where the ones before it end."""
    left = [(size, stride) for size, stride in zip(shape, strides, strict=True) if size != ONE]
    step = ONE
    while left:
        inner = next((dim for dim in left if dim[1] == step), None)
        if inner is None:
            return False
        left.remove(inner)
        step = step * inner[0]
    return True
