"""Building blocks of the tests of plans: kernels in Python, and both ways to run a plan."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from typing import Any

import torch

from onegraph import _C
from onegraph.compiler.runtime.executor import Executor
from onegraph.compiler.runtime.launcher import launcher
from onegraph.ir.plan import (
    Alloc,
    ExecPlan,
    ExternCall,
    KernelInfo,
    Slot,
)
from onegraph.ir.types import DType

Floats = ctypes.POINTER(ctypes.c_float)
Integers = ctypes.POINTER(ctypes.c_int64)
KERNEL = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.POINTER(ctypes.c_void_p), Integers, ctypes.c_int64)


def floats(pointers: Any, index: int) -> Any:
    return ctypes.cast(pointers[index], Floats)


@KERNEL
def add_one(pointers: Any, sizes: Any, threads: int) -> int:
    source, target = floats(pointers, 0), floats(pointers, 1)
    for i in range(sizes[0]):
        target[i] = source[i] + 1
    return 0


@KERNEL
def fail_on_negative(pointers: Any, sizes: Any, threads: int) -> int:
    return 2 if floats(pointers, 0)[0] < 0 else 0


@KERNEL
def count_threads(pointers: Any, sizes: Any, threads: int) -> int:
    ctypes.cast(pointers[0], Integers)[0] = threads
    return 0


KERNELS = (add_one, fail_on_negative, count_threads)
INFOS = (
    KernelInfo("add_one"),
    KernelInfo("fail_on_negative", (("IndexError", "first"), ("ZeroDivisionError", "a negative number"))),
    KernelInfo("count_threads"),
)
ADDRESSES = [ctypes.cast(kernel, ctypes.c_void_p).value or 0 for kernel in KERNELS]


def plan_of(
    *steps: Any, inputs: Sequence[Any] = (Slot(0),), slots: int = 8, registers: int = 8, constants: Any = ()
) -> ExecPlan:
    return ExecPlan(tuple(inputs), tuple(constants), slots, registers, INFOS, steps)


def alloc(target: int, dtype: DType, shape: Any, strides: Any, workspace: bool = False) -> Alloc:
    return Alloc(target, dtype, shape, strides, "cpu", workspace)


def both(plan: ExecPlan, constants: Any = None, threads: int = 0) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """The launcher and the reference."""
    native = launcher(plan, ADDRESSES, constants or {}, threads, KERNELS)
    assert isinstance(native, _C.Plan)
    return native, Executor(plan, ADDRESSES, constants or {}, threads, KERNELS)


def agree(plan: ExecPlan, *args: Any, constants: Any = None, times: int = 2) -> tuple[Any, ...]:
    native, reference = both(plan, constants)
    for _ in range(times):
        mine, theirs = native(*args), reference(*args)
        assert type(mine) is tuple and len(mine) == len(theirs)
        for a, b in zip(mine, theirs, strict=True):
            assert type(a) is type(b)
            if isinstance(a, torch.Tensor):
                assert a.dtype is b.dtype and a.shape == b.shape and a.stride() == b.stride()
                torch.testing.assert_close(a, b, rtol=0, atol=0, equal_nan=True)
            else:
                assert a == b
    return mine


def extern(
    name: str, *args: Any, out: Any = (), expected: Any = None, several: bool = False, **kwargs: Any
) -> ExternCall:
    outputs = out if isinstance(out, tuple) else (out,)
    return ExternCall(name, args, tuple(kwargs.items()), outputs, expected or (None,) * len(outputs), several)
