"""Graphs compiled for a device with grids: from the loops to launches, with kernels that Python evaluates.

The target is the processor's but for its kernels, which are those of a CUDA device: there is no Triton in this.
"""

from __future__ import annotations

import ctypes
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
import torch
from compiler.graphs import CHECKED, compare, record
from gpu.driver import StandIn

from onegraph.base.context import Context
from onegraph.compiler import compile_graph
from onegraph.compiler.cpu import CPU
from onegraph.compiler.interpreted import evaluated
from onegraph.compiler.kernels import operands, size_symbols
from onegraph.compiler.memory.check import InvalidPlan, check_plan
from onegraph.compiler.memory.plan import plan
from onegraph.compiler.runtime.executor import Executor
from onegraph.compiler.target import Code, Target
from onegraph.ir.index import Index
from onegraph.ir.loop import Kernel, Program
from onegraph.ir.loop_text import format_program, parse_program
from onegraph.ir.plan import KernelInfo, Launch

BLOCK = 64


def grid_of(program: Program, kernel: Kernel) -> tuple[Index, ...]:
    """As many programs as blocks of the first result, as far as its sizes are those of the kernel."""
    shape = program.table()[operands(kernel)[-1]].type.shape
    sizes = {*size_symbols(kernel)}
    along = [extent for extent in shape if extent.symbols <= sizes]
    return ((along[0] + (BLOCK - 1)) // BLOCK, Index.of(2)) if along else (Index.of(1),)


def on(driver: StandIn) -> Target:
    """The target whose kernels the stand-in launches."""

    def build(program: Program, cx: Context) -> Code:
        kernels = {}
        for kernel in program.kernels:
            types = "p" * len(operands(kernel)) + "i" * len(size_symbols(kernel))
            kernels[kernel.name] = driver.kernel(kernel.name, types)
            driver.bind(kernel.name, called(evaluated(program, kernel), types.count("p"), types.count("i")))
        return Code(
            {name: number for number, name in enumerate(kernels)},
            tuple(map(KernelInfo, kernels)),
            tuple(kernel.address for kernel in kernels.values()),
            tuple(kernels.values()),
            False,
            lambda: format_program(program),
            {},
            grids={kernel.name: grid_of(program, kernel) for kernel in program.kernels},
        )

    return replace(CPU, build=build, launch=partial(CPU.launch, device="cuda"), kept=None)


def called(function: Any, pointers: int, sizes: int) -> Any:
    def compute(parameters: Any, grid: Any) -> None:
        given = (ctypes.c_void_p * pointers)(*parameters[:pointers])
        numbers = (ctypes.c_int64 * sizes)(*(number for number in parameters[pointers : pointers + sizes]))
        assert function(given, numbers, 1) == 0

    return compute


def gelu(x: torch.Tensor, y: torch.Tensor) -> Any:
    return torch.nn.functional.gelu(x + y), (x * y).sum(-1)


def attention(x: torch.Tensor, y: torch.Tensor) -> Any:
    return torch.softmax(x @ y.t(), -1) @ y


PROGRAMS = {"gelu": gelu, "attention": attention}


@pytest.mark.parametrize("name", PROGRAMS)
def test_results_are_eager_s(name: str, driver: StandIn) -> None:
    driver.set(any_memory=1)
    function, target = PROGRAMS[name], on(driver)
    symbolic = {(0, 0): "n", (1, 0): "n"}
    graph = compile_graph(
        record(function, torch.randn(5, 8), torch.randn(5, 8), symbolic=symbolic), Context(CHECKED), target
    )
    assert "[" in graph.text("memory") and graph.kernels > 0
    reference = Executor(graph.plan, graph.addresses, {})
    for rows in (5, 3, 70):
        x, y = torch.randn(rows, 8), torch.randn(rows, 8)
        for run in (graph, reference):
            driver.forget()
            compare(run(x, y), function(x, y), rtol=1e-5, atol=1e-5)
            assert len(driver.launches()) == sum(isinstance(step, Launch) for step in graph.plan.steps)
            assert any(launch.grid[0] == -(-rows // BLOCK) for launch in driver.launches())


TEXT = """\
program(n, x):
  buffer x: f32[n] stride (1)
  buffer a: f32[n] stride (1)
  kernel k0(i0: n):
    t0: f32 = load x @ i0
    t1: f32 = neg(t0)
    store a @ i0 = t1
  return a
"""


def test_the_grid_is_computed_from_the_sizes_of_the_kernel() -> None:
    program = parse_program(TEXT)
    (kernel,) = program.kernels
    (size,) = size_symbols(kernel)
    blocks = (Index.of(size) + (BLOCK - 1)) // BLOCK
    steps = plan(program, {"k0": 0}, (KernelInfo("k0"),), "cuda", grids={"k0": (blocks, Index.of(3))})
    (launch,) = (step for step in steps.steps if isinstance(step, Launch))
    assert len(launch.grid) == 2 and launch.grid[1] == 3
    check_plan(program, steps, {"k0": 0}, grids={"k0": (blocks, Index.of(3))})
    for other in ({}, {"k0": (blocks,)}, {"k0": (blocks, Index.of(4))}, {"k0": (blocks + 1, Index.of(3))}):
        with pytest.raises(InvalidPlan, match="k0 is launched in another number of programs"):
            check_plan(program, steps, {"k0": 0}, grids=other)
