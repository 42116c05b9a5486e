"""With `eager_rounding` off, 16-bit floats are rounded where they are stored, and not between operators.

t1: f32 = mul(t0, 2.0)          t1: f32 = mul(t0, 2.0)
t2: bf16 = cast(t1)             t2: bf16 = cast(t1)             (dead)
t3: f32 = cast(t2)
t4: f32 = add(t3, 1.0)          t4: f32 = add(t1, 1.0)
"""

from __future__ import annotations

from dataclasses import replace

from onegraph.base.context import Context
from onegraph.compiler.body import Body
from onegraph.compiler.kernels import stored_by
from onegraph.compiler.schedule.splice import Splicer, plain_load
from onegraph.ir.loop import Cast, Kernel, Operand, Program, Value
from onegraph.ir.types import BF16, F16, F32, DType


def drop_roundings(program: Program, cx: Context) -> Program:
    """Use the value before a rounding where what was rounded is widened again."""
    short = any(buffer.type.dtype in (BF16, F16) for buffer in program.buffers)
    if cx.config.eager_rounding or not short:
        return program
    return replace(program, steps=tuple(_kernel(s) if isinstance(s, Kernel) else s for s in program.steps))


def _kernel(kernel: Kernel) -> Kernel:
    rebuilder = _Rebuilder(kernel)
    rebuilder.block(kernel.body)
    return replace(kernel, body=rebuilder.body.block())


class _Rebuilder(Splicer):
    """Copies a kernel. `wide` has, for each rounded value, the one that it was made of."""

    def __init__(self, kernel: Kernel) -> None:
        body = Body(kernel.axes, volatile=stored_by(kernel))
        super().__init__(body, plain_load(body), {}, stores=True)
        self.wide: dict[Operand, Operand] = {}

    def value(self, dtype: DType, value: Value) -> Operand:
        if not isinstance(value, Cast):
            return super().value(dtype, value)
        operand = self.operand(value.arg)
        if dtype is F32 and operand in self.wide:
            return self.wide[operand]
        made = super().value(dtype, value)
        if dtype in (BF16, F16) and self.body.dtype_of(operand) is F32:
            self.wide[made] = operand
        return made
