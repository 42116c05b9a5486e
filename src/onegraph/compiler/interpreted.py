"""A target whose kernels are evaluated in Python: what is wrong there, too, is no fault of the code of kernels.

It is slow, and for small graphs.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from onegraph.base.context import Context
from onegraph.compiler.evaluate import Array, CheckFailed, Evaluator, bfloat16_bits, from_bfloat16, number, numpy_type
from onegraph.compiler.kernels import operands, size_symbols
from onegraph.compiler.target import Code, Target
from onegraph.ir.loop import Buffer, Check, Kernel, Program, statements, writes
from onegraph.ir.loop_text import format_program
from onegraph.ir.plan import KernelInfo
from onegraph.ir.types import BF16

KERNEL = ctypes.CFUNCTYPE(
    ctypes.c_int64, ctypes.POINTER(ctypes.c_void_p), ctypes.POINTER(ctypes.c_int64), ctypes.c_int64
)


def evaluated(program: Program, kernel: Kernel) -> Callable[..., int]:
    """The function of a kernel, as plans call it."""
    errors = errors_of(kernel)
    table, names = program.table(), operands(kernel)
    symbols = [symbol.name for symbol in size_symbols(kernel)]

    def run(pointers: Any, sizes: Any, threads: int) -> int:
        known = {name: sizes[place] for place, name in enumerate(symbols)}
        raw = {name: elements(table[name], pointers[place], known) for place, name in enumerate(names)}
        memory = {name: from_bfloat16(a) if table[name].type.dtype is BF16 else a for name, a in raw.items()}
        try:
            Evaluator(program, memory, known).kernel(kernel)
        except CheckFailed as failed:
            return 1 + errors.index(failed.args)
        for name in writes(kernel):
            if table[name].type.dtype is BF16:
                raw[name][:] = bfloat16_bits(memory[name])
        return 0

    return run


def errors_of(kernel: Kernel) -> tuple[tuple[str, str], ...]:
    checks = (s for s in statements(kernel.body) if isinstance(s, Check))
    return tuple(dict.fromkeys((check.error, check.message) for check in checks))


def elements(buffer: Buffer, address: int, sizes: dict[str, int]) -> Array:
    """The memory of a buffer; that of bfloat16 as bits."""
    type = buffer.type
    pairs = [(number(n, sizes), number(step, sizes)) for n, step in zip(type.shape, type.strides, strict=True)]
    count = 0 if any(n == 0 for n, _ in pairs) else 1 + sum((n - 1) * step for n, step in pairs)
    raw = (ctypes.c_byte * (count * type.dtype.size)).from_address(address or 0)
    kind = np.dtype(np.uint16) if type.dtype is BF16 else numpy_type(type.dtype)
    return np.frombuffer(memoryview(raw), kind)


def build(program: Program, cx: Context) -> Code:
    kernels = {kernel.name: KERNEL(evaluated(program, kernel)) for kernel in program.kernels}
    return Code(
        {name: number for number, name in enumerate(kernels)},
        tuple(KernelInfo(kernel.name, errors_of(kernel)) for kernel in program.kernels),
        tuple(ctypes.cast(function, ctypes.c_void_p).value or 0 for function in kernels.values()),
        kernels,
        False,
        lambda: format_program(program),
        {},
    )


def interpreted(target: Target) -> Target:
    """The target for processors with code that Python evaluates."""
    return replace(target, build=build, kept=None)
