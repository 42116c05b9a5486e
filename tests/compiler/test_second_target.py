"""A target is declared in one place: here are two more, with kernels that Python interprets, or that nobody runs."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial

import torch
from compiler.graphs import CHECKED, record
from torch.fx import GraphModule

from onegraph.base.config import Config
from onegraph.base.context import Context
from onegraph.base.pipeline import Pass
from onegraph.compiler import compile_graph
from onegraph.compiler.cpu import CPU, schedule
from onegraph.compiler.interpreted import KERNEL, evaluated
from onegraph.compiler.runtime.executor import Executor
from onegraph.compiler.schedule.flatten import flatten
from onegraph.compiler.schedule.inline import inline
from onegraph.compiler.target import Code, Compile, Machine, Target
from onegraph.ir.loop import Kernel, Program
from onegraph.ir.loop_text import format_program
from onegraph.ir.plan import KernelInfo

SMALL = Machine(
    lanes=8,
    totals=8,
    tile_rows=2,
    tile_columns=8,
    threads=1,
    parts=2,
    thread_nanoseconds=1000,
    speed=1,
    stack=1024,
    near=1024,
    line=32,
    long_rows=range(0),
)


def no_library(graph: GraphModule, parameters: frozenset[int], config: Config, compiled: Compile) -> GraphModule:
    return graph


def without_kernel_names(program: Program, cx: Context) -> Program:
    """A pass of this target's own."""
    numbered = (replace(s, name=f"step{n}") if isinstance(s, Kernel) else s for n, s in enumerate(program.steps))
    return replace(program, steps=tuple(numbered))


def nothing(program: Program, kernel: Kernel) -> Callable[..., int]:
    return lambda pointers, sizes, threads: 0


def code_of(kernels: Mapping[str, Callable[..., int]], program: Program) -> Code:
    functions = [KERNEL(function) for function in kernels.values()]

    def text() -> str:
        return format_program(program)

    return Code(
        {name: number for number, name in enumerate(kernels)},
        tuple(map(KernelInfo, kernels)),
        tuple(ctypes.cast(function, ctypes.c_void_p).value or 0 for function in functions),
        functions,
        False,
        text,
        {"small": text},
    )


def built(make: Callable[[Program, Kernel], Callable[..., int]], program: Program, cx: Context) -> Code:
    return code_of({kernel.name: make(program, kernel) for kernel in program.kernels}, program)


INTERPRETED = Target(
    "cpu",
    SMALL,
    no_library,
    (
        Pass("inline", inline, "as anywhere"),
        Pass("without_kernel_names", without_kernel_names, "between others"),
        Pass("flatten", flatten, "last: plans are made of flat kernels"),
    ),
    partial(built, evaluated),
    CPU.launch,
)
#: Of torch's own second device: nothing is ever computed there.
META = Target("meta", SMALL, no_library, schedule(SMALL), partial(built, nothing), Executor)


def normalized(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    z = (x + y).exp()
    return z / z.sum(-1, keepdim=True), torch.mm(x, y.t())


def test_kernels_that_python_interprets() -> None:
    x, y = torch.randn(3, 5), torch.randn(3, 5)
    graph = compile_graph(record(normalized, x, y), Context(CHECKED), INTERPRETED)
    for found, expected in zip(graph(x, y), normalized(x, y), strict=True):
        torch.testing.assert_close(found, expected)
    names = [kernel.name for kernel in graph.plan.kernels]
    assert names and all(name.startswith("step") for name in names)
    assert "kernel step0" in graph.text("small") and "vector" not in graph.text("fused")


def test_buffers_lie_on_the_device_of_the_target() -> None:
    x, y = torch.randn(64, 64, device="meta"), torch.randn(64, 64, device="meta")
    graph = compile_graph(record(normalized, x, y), Context(CHECKED), META)
    assert graph.kernels == 1 and graph.fallbacks == ("aten.mm.default",)
    assert " on meta" in graph.text("memory")
    result, product = graph(x, y)
    assert result.is_meta and result.shape == product.shape == (64, 64)


def test_the_scheduler_asks_the_machine() -> None:
    x = torch.randn(64, 64)
    meta = compile_graph(record(torch.relu, x.to("meta")), Context(CHECKED), META)
    cpu = compile_graph(record(torch.relu, x), Context(CHECKED), CPU)
    assert "by 8" in meta.text("fused") and "by 32" in cpu.text("fused")
    assert "on " not in cpu.text("memory")
