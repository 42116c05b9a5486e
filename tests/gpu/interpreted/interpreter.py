"""Triton's interpreter on tensors of the CPU, as a target: kernels for GPUs run without one.

It is used in a process that was started with `TRITON_INTERPRET=1`. Where it computes otherwise than a GPU, or not at
all, it is mended here:

- bfloat16 is converted by truncation, and 8-bit floats are rounded wrongly: conversions are torch's;
- what a comparison of single numbers gives is repeated as a float: it stays what it is;
- the complement of unsigned integers, numbers of bfloat16 and functions of libdevice are missing: they are torch's;
- assertions are dropped: they are kept.
"""

from __future__ import annotations

import ctypes
import dataclasses
import sys
import traceback
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import torch
import triton.language as tl
from gpu.interpreted.bounds import BOUNDS, OutOfBounds, accesses, check_accesses, pointer
from triton.language.extra import libdevice
from triton.runtime import interpreter
from triton.runtime.interpreter import InterpreterBuilder, TensorHandle, interpreter_builder

from onegraph.autograd.graphs import FunctionalGraph
from onegraph.base.config import Config
from onegraph.base.context import Context
from onegraph.compiler import compile_graph
from onegraph.compiler.interpreted import KERNEL
from onegraph.compiler.kernels import size_symbols
from onegraph.compiler.runtime.launcher import launcher
from onegraph.compiler.target import Code, Target
from onegraph.compiler.targets import TARGETS
from onegraph.compiler.triton.blocks import Blocks, blocks_of, extent_of, power_of_two
from onegraph.compiler.triton.cubins import function_of
from onegraph.compiler.triton.gpu import H100, machine_of, schedule
from onegraph.compiler.triton.sources import Source, sources_of
from onegraph.ir.index import Index
from onegraph.ir.loop import Kernel, Program
from onegraph.ir.plan import KernelInfo

FAILED = (("RuntimeError", "Triton's interpreter failed: see above"),)
LANES = 1 << 14  # a program costs half a millisecond, however many lanes it has
FUNCTIONS = {
    "rint": torch.round, "pow": torch.pow, "copysign": torch.copysign, "nextafter": torch.nextafter,
    "fmod": torch.fmod, "hypot": torch.hypot, "atan2": torch.atan2,
}  # fmt: skip
FUNCTIONS |= {"fast_logf": torch.log, "fast_sinf": torch.sin, "fast_cosf": torch.cos}
FUNCTIONS |= {
    name: getattr(torch, name)
    for name in (
        "trunc exp exp2 expm1 log log2 log10 log1p sin cos tan asin acos atan sinh cosh tanh asinh acosh atanh "
        "erf erfc lgamma rsqrt"
    ).split()
}
SHORT = {tl.bfloat16: torch.bfloat16, tl.float8e4nv: torch.float8_e4m3fn, tl.float8e5: torch.float8_e5m2}


def repair() -> None:
    """Mend the interpreter in this process."""
    for name, function in FUNCTIONS.items():
        setattr(libdevice, name, partial(applied, function))
    original = InterpreterBuilder.cast_impl
    InterpreterBuilder.cast_impl = InterpreterBuilder.create_fp_to_fp = converting(original)
    InterpreterBuilder.create_splat = splat
    InterpreterBuilder.get_all_ones_value = all_ones
    InterpreterBuilder.get_bf16 = lambda self, value: TensorHandle(bits_of_bfloat16(value), tl.bfloat16)
    interpreter_builder.options = dataclasses.replace(interpreter_builder.options, debug=True, sanitize_overflow=False)


def bits_of_bfloat16(value: float) -> Any:
    return torch.tensor([value], dtype=torch.bfloat16).view(torch.uint16).numpy()


def all_ones(self: Any, type: Any) -> Any:
    of = interpreter._get_np_dtype(type.scalar)
    ones = np.array([True if of == np.bool_ else -1]).astype(of)
    return TensorHandle(np.full(type.shape, ones[0]) if type.is_block() else ones, type.scalar)


def splat(self: Any, type: Any, x: Any) -> Any:
    return TensorHandle(np.full(type.shape, x.data.reshape(-1)[0], dtype=x.data.dtype), x.dtype.scalar)


def applied(function: Callable[..., torch.Tensor], *args: Any, _semantic: object = None) -> Any:
    """A function of torch on values of the interpreter."""
    arrays = np.broadcast_arrays(*(each.handle.data for each in args))
    found = function(*(torch.from_numpy(np.ascontiguousarray(each)) for each in arrays))
    scalar, shape = args[0].dtype.scalar, arrays[0].shape
    blocks = any(each.type.is_block() for each in args)
    handle = TensorHandle(found.numpy().reshape(shape), scalar)
    return tl.tensor(handle, tl.block_type(scalar, list(shape)) if blocks else scalar)


def converting(original: Callable[..., Any]) -> Callable[..., Any]:
    def cast(self: Any, source: Any, to: Any, *rest: Any) -> Any:
        before, after = source.dtype.scalar, to.scalar
        if before not in SHORT and after not in SHORT:
            return original(self, source, to)
        tensor = torch.from_numpy(np.ascontiguousarray(source.data))
        if before in SHORT:
            tensor = tensor.view(SHORT[before])
        if after not in SHORT:
            return TensorHandle(tensor.float().numpy().astype(interpreter._get_np_dtype(to)), after)
        bits = tensor.to(SHORT[after]).view(torch.uint16 if after is tl.bfloat16 else torch.uint8)
        return TensorHandle(bits.numpy(), after)

    return cast


def wide_blocks(kernel: Kernel) -> Blocks:
    """The blocks of a GPU, but more lanes in each program where there are many iterations."""
    blocks = blocks_of(kernel)
    lanes = min(LANES // (blocks.r * blocks.y), power_of_two(extent_of(kernel.axes)))
    return replace(blocks, x=max(blocks.x, lanes))


def runs(
    kernel: Kernel, source: Source, grid: tuple[Index, ...], begins: Sequence[int], checks: bool
) -> Callable[..., int]:
    """The function of a kernel, as plans call it. One that checks its accesses is told how many bytes there are of each
    operand from its pointer on; before it are those that it has in `begins`."""
    function = function_of(source)
    symbols = [symbol.name for symbol in size_symbols(kernel)]
    kinds = pointer_kinds(source)

    def run(pointers: Any, sizes: Any, threads: int) -> int:
        known = {name: sizes[place] for place, name in enumerate(symbols)}
        count = tuple(int(each.evaluate(known)) for each in grid)
        behind = [pointers[len(kinds) + place] or 0 for place in range(len(kinds) if checks else 0)]
        try:
            if all(count):
                given = [pointer(pointers[k], kind, k if checks else None) for k, kind in enumerate(kinds)]
                with BOUNDS.of([pointers[place] or 0 for place in range(len(behind))], begins, behind):
                    function[count](*given, *known.values(), **source.constants)
        except Exception as error:  # which cannot leave a function that C calls
            if isinstance(error.__cause__, OutOfBounds):
                pointers[2 * len(kinds)] = error.__cause__.index
                return -1 - error.__cause__.access  # see `onegraph.ir.plan`
            traceback.print_exc()
            print(source.text, file=sys.stderr)
            return 1
        return 0

    return run


def pointer_kinds(source: Source) -> list[str]:
    """The types of the parameters that are pointers, which stand in front."""
    return [kind for kind in source.signature.values() if kind[0] == "*"]


def build(program: Program, cx: Context) -> Code:
    found = sources_of(program, wide_blocks)
    checks = cx.config.sanitize
    kernels, infos = {}, []
    for kernel in program.kernels:
        source = found.sources[found.functions[kernel.name]]
        kernels[kernel.name] = KERNEL(runs(kernel, source, found.grids[kernel.name], found.begins[kernel.name], checks))
        infos.append(KernelInfo(kernel.name, FAILED, accesses(len(pointer_kinds(source))) if checks else ()))

    def text() -> str:
        return "\n\n".join(source.text for source in found.sources)

    return Code(
        {name: number for number, name in enumerate(kernels)},
        tuple(infos),
        tuple(ctypes.cast(function, ctypes.c_void_p).value or 0 for function in kernels.values()),
        kernels,
        False,
        text,
        {"triton": text},
        found.begins,
    )


def no_library(graph: Any, parameters: Any, config: Any, compiled: Any) -> Any:
    return graph


#: Options under which programs, plans and each access are checked, and nothing is taken from disk.
CHECKED: dict[str, Any] = {"cache": False, "verify": True, "sanitize": True}
#: What a GPU leaves to libraries is interpreted, too. The generator is the CPU's.
MACHINE = replace(machine_of(H100), runs_in_order=True, drawing_threads=0)
INTERPRETED = Target("cpu", MACHINE, no_library, schedule(MACHINE), build, launcher)


def native(graph: FunctionalGraph, **options: Any) -> tuple[Any, tuple[str, ...]]:
    """The graph as `opinfo.harness` asks for it, compiled with these options, too."""
    found = compile_graph(graph.module, Context(Config(**{**CHECKED, **options})), INTERPRETED)
    return found, found.fallbacks


def stand_in_for_processors() -> None:
    """Have what this process compiles for processors run as kernels for GPUs."""
    TARGETS["cpu"] = lambda device: INTERPRETED


repair()
check_accesses()
