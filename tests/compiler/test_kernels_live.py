"""Compiled kernels are shared by the graphs that live, and freed with the last of them."""

from __future__ import annotations

import gc

import pytest
import torch
from compiler.graphs import check, compiled
from torch import Tensor, randn

from onegraph.compiler.canonical import canonical
from onegraph.compiler.codegen import kernels
from onegraph.compiler.memory.check import InvalidPlan, check_plan
from onegraph.compiler.memory.plan import plan
from onegraph.ir.loop_text import parse_program
from onegraph.ir.plan import KernelInfo, Launch
from onegraph.ir.types import F32


def test_kernels_die_with_their_graphs() -> None:
    x = torch.randn(30)
    gc.collect()
    before = len(kernels.LIVING)
    first = compiled(lambda x: (x * 3.141).sin(), x)
    second = compiled(lambda x: (x * 3.141).sin(), x)
    assert first.addresses == second.addresses
    assert len(kernels.LIVING) == before + 1
    del first
    torch.testing.assert_close(second(x)[0], (x * 3.141).sin())
    run = second.run
    del second
    gc.collect()
    torch.testing.assert_close(run(x)[0], (x * 3.141).sin())
    del run
    gc.collect()
    assert len(kernels.LIVING) == before


def test_equal_layers_are_compiled_once() -> None:
    """Each kernel of a layer is one, however many layers there are."""

    def layers(x: torch.Tensor, w: torch.Tensor, count: int) -> torch.Tensor:
        for _ in range(count):
            normed = torch.nn.functional.layer_norm(x, (64,))
            x = x + torch.nn.functional.gelu(normed @ w) @ w
        return x

    x, w = torch.randn(8, 64), torch.randn(64, 64) / 8
    graphs = [compiled(lambda x, w, n=n: layers(x, w, n), x, w) for n in (8, 24)]
    assert [graph.kernels for graph in graphs] == [2 * 8 + 1, 2 * 24 + 1]
    assert len(graphs[0].plan.kernels) == len(graphs[1].plan.kernels) <= 8
    assert max(len(step.operands) for step in graphs[1].plan.steps if isinstance(step, Launch)) <= 6


def parts(*tensors: Tensor) -> tuple[Tensor, ...]:
    """Parts that are gathered, and some that are taken apart again."""
    gathered = torch.stack(tensors)
    first, second = gathered.reshape(2, -1).sin().chunk(2, 1)
    return gathered, first, second


def test_kernels_that_differ_in_where_they_begin_are_compiled_once() -> None:
    graph = check(parts, *(randn(3, 5) for _ in range(40)))
    assert graph.kernels >= 40 and len(graph.plan.kernels) <= 8


def test_where_a_kernel_begins_is_checked() -> None:
    program = parse_program(
        """\
program(x):
  buffer x: f32[8] stride (1)
  buffer a: f32[8] stride (1)
  kernel k0(i0: 4):
    t0: f32 = load x @ i0 + 4
    store a @ i0 = t0
  kernel k1(i0: 4):
    t0: f32 = load x @ i0
    store a @ i0 + 4 = t0
  return a
"""
    )
    forms = {kernel.name: canonical(kernel, {"x": F32, "a": F32}) for kernel in program.kernels}
    begins = {name: form.begins for name, form in forms.items()}
    assert begins == {"k0": (16, 0), "k1": (0, 16)} and forms["k0"].text == forms["k1"].text
    functions = {"k0": 0, "k1": 0}
    steps = plan(program, functions, (KernelInfo("k"),), "cpu", begins=begins)
    check_plan(program, steps, functions, begins=begins)
    with pytest.raises(InvalidPlan):
        check_plan(program, steps, functions, begins={**begins, "k1": (0, 12)})
