"""The text of kernels in Triton's language. It is written without Triton, and shown as a person reads it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from compiler.graphs import CHECKED, record
from torch import Tensor

from onegraph.base.context import Context
from onegraph.base.pipeline import run_passes
from onegraph.compiler.lower.graph import lower_graph
from onegraph.compiler.memory import reuse
from onegraph.compiler.triton.gpu import A100, H100, machine_of, schedule
from onegraph.compiler.triton.index_text import Term, index_text
from onegraph.compiler.triton.ops import TRITON_OPS
from onegraph.compiler.triton.sources import ALIGNMENT, Sources, sources_of
from onegraph.ir.index import Index, Symbol
from onegraph.ir.loop import Extern, Kernel
from onegraph.ir.loop_check import check_program
from onegraph.ir.loop_text import format_program, parse_program
from onegraph.ir.scalar import SCALAR_OPS

GPU = machine_of(H100)


def sources(function: Callable[..., Any], *inputs: Tensor, symbolic: Any = None) -> Sources:
    """The kernels of a function, as they are written for a GPU; its fake inputs may lie anywhere."""
    cx = Context(CHECKED)
    lowered = lower_graph(record(function, *inputs, symbolic=symbolic), cx, "cpu", GPU)
    program = run_passes(lowered.program, schedule(GPU), cx, check_program, format_program, "schedule")
    return sources_of(program)


def text(function: Callable[..., Any], *inputs: Tensor, symbolic: Any = None) -> str:
    """Of the only kernel, without its imports and the hash in its name."""
    (source,) = sources(function, *inputs, symbolic=symbolic).sources
    return source.text.partition("@triton.jit\n")[2].replace(source.name, source.name.rpartition("_")[0])


def test_every_scalar_operation_is_written() -> None:
    assert TRITON_OPS.keys() == SCALAR_OPS.keys()


def test_one_element_after_the_other() -> None:
    x, y = torch.randn(33, 70), torch.randn(33, 70)
    assert text(lambda x, y: F.gelu(x + y), x, y) == (
        "def add_gelu(p0, p1, p2, XBLOCK: tl.constexpr):\n"
        "    x = tl.program_id(0) * XBLOCK + tl.arange(0, XBLOCK)\n"
        "    xmask = x < 2310\n"
        "    t0 = tl.load(p0 + x, xmask, other=0)\n"
        "    t1 = tl.load(p1 + x, xmask, other=0)\n"
        "    t2 = t0 + t1\n"
        "    t3 = t2 * 0.5 * (1 + libdevice.erf(t2 * 0.7071067811865476))\n"
        "    tl.store(p2 + x, t3, xmask)\n"
    )


def test_rows_that_are_held_in_registers() -> None:
    assert text(lambda x: torch.softmax(x, -1), torch.randn(64, 256)) == (
        "def max_sub_exp_sum_reciprocal(p0, p1, XBLOCK: tl.constexpr, RBLOCK: tl.constexpr):\n"
        "    x = tl.program_id(0) * XBLOCK + tl.arange(0, XBLOCK)[:, None]\n"
        '    t1 = tl.full([XBLOCK, RBLOCK], float("-inf"), tl.float32)\n'
        "    r1 = tl.arange(0, RBLOCK)[None, :]\n"
        "    t0 = tl.load(p0 + (x * 256 + r1))\n"
        "    t1 = tl.maximum(t1, t0, propagate_nan=tl.PropagateNan.ALL)\n"
        "    t1 = tl.where(tl.max((t1 != t1).to(tl.int32), 1)[:, None] != 0,"
        ' float("nan"), tl.max(t1, 1)[:, None])\n'
        "    t5 = tl.full([XBLOCK, RBLOCK], 0, tl.float32)\n"
        "    t3 = t0 - t1\n"
        "    t4 = libdevice.exp(t3)\n"
        "    t5 = t5 + t4\n"
        "    t5 = tl.sum(t5, 1)[:, None]\n"
        "    t6 = tl.div_rn(tl.full([], 1.0, tl.float32), t5)\n"
        "    t8 = t0 - t1\n"
        "    t9 = libdevice.exp(t8)\n"
        "    t10 = t9 * t6\n"
        "    tl.debug_barrier()\n"
        "    tl.store(p1 + (x * 256 + r1), t10)\n"
    )


def test_long_rows() -> None:
    assert text(lambda x: x.sum(-1), torch.randn(264, 5000)) == (
        "def sum(p0, p1, XBLOCK: tl.constexpr, RBLOCK: tl.constexpr):\n"
        "    x = tl.program_id(0) * XBLOCK + tl.arange(0, XBLOCK)[:, None]\n"
        "    t1 = tl.full([XBLOCK, RBLOCK], 0, tl.float32)\n"
        "    for begin1 in range(0, 5000, RBLOCK):\n"
        "        r2 = begin1 + tl.arange(0, RBLOCK)[None, :]\n"
        "        rmask3 = r2 < 5000\n"
        "        t0 = tl.load(p0 + (x * 5000 + r2), rmask3, other=0)\n"
        "        t1 = tl.where(rmask3, t1 + t0, t1)\n"
        "    t1 = tl.sum(t1, 1)[:, None]\n"
        "    tl.debug_barrier()\n"
        "    tl.store(p1 + x, t1)\n"
    )


def test_tiles_of_what_is_turned() -> None:
    assert text(lambda x: x.t().contiguous() + 1, torch.randn(100, 70)) == (
        "def add(p0, p1, YBLOCK: tl.constexpr, XBLOCK: tl.constexpr):\n"
        "    program = tl.program_id(0)\n"
        "    y = program // 4 * YBLOCK + tl.arange(0, YBLOCK)[:, None]\n"
        "    ymask = y < 70\n"
        "    x = program % 4 * XBLOCK + tl.arange(0, XBLOCK)[None, :]\n"
        "    xmask = x < 100\n"
        "    t0 = tl.load(p0 + (y + x * 70), ymask & xmask, other=0)\n"
        "    t1 = t0 + 1.0\n"
        "    tl.store(p1 + (y * 100 + x), t1, ymask & xmask)\n"
    )


def test_sizes_that_are_known_at_the_call() -> None:
    assert text(lambda x: x * 2, torch.randn(8, 8), symbolic={(0, 0): "n", (0, 1): "m"}) == (
        "def mul(p0, p1, m, n, XBLOCK: tl.constexpr):\n"
        "    x = tl.program_id(0).to(tl.int64) * XBLOCK + tl.arange(0, XBLOCK)\n"
        "    xmask = x < (m * n)\n"
        "    t0 = tl.load(p0 + x, xmask, other=0)\n"
        "    t1 = t0 * 2.0\n"
        "    tl.store(p1 + x, t1, xmask)\n"
    )


def test_equal_kernels_are_written_once() -> None:
    found = sources(lambda x, y: (x.exp(), y.exp()), torch.randn(4, 4), torch.randn(4, 4))
    assert len(found.sources) == len(set(found.functions.values())) <= len(found.functions)
    (source,) = {each.name: each for each in found.sources}.values()
    assert set(source.signature) >= {"p0", "p1"} and source.constants == {"XBLOCK": 16}


@pytest.mark.parametrize(("shape", "programs"), [((4096, 4096), 16384), ((3, 5), 1), ((1000,), 4)], ids=str)
def test_the_grid_covers_all_elements(shape: tuple[int, ...], programs: int) -> None:
    found = sources(lambda x: x + 1, torch.randn(shape))
    ((grid,),) = found.grids.values()
    assert grid.constant == programs
    (source,) = found.sources
    assert programs * source.constants["XBLOCK"] >= torch.Size(shape).numel()


ADDED = """program(i, y):
  buffer i: i64[3] stride (1)
  buffer y: {dtype}[3] stride (1)
  buffer z: {dtype}[4] stride (1)
  kernel k_z(n: 3):
    t0: i64 = load i @ n
    t1: {dtype} = load y @ n
    add z @ t0 += t1
  return z
"""


def test_atomic_additions() -> None:
    (source,) = sources_of(parse_program(ADDED.format(dtype="f32"))).sources
    assert '    tl.atomic_add(p2 + t0, t1, xmask, sem="relaxed")\n' in source.text
    with pytest.raises(NotImplementedError, match="atomic additions of i8"):
        sources_of(parse_program(ADDED.format(dtype="i8")))


def test_division_of_indices_rounds_down() -> None:
    i = Symbol("i", Index.of(10))
    values = {"i": Term("i", frozenset({"x"}))}
    index = Index.of(i)
    assert index_text(index // 3 + index % 4 * 2, values).text == "(i % 4) * 2 + (i // 3)"
    j = Index.of(Symbol("j", signed=True))
    assert index_text(j // 3 - j % 3, {"j": Term("j")}).text == "-remainder(j, 3) + floor_div(j, 3)"
    assert index_text(Index.of(7), values) == Term("7")


def test_kinds_of_gpus_differ() -> None:
    assert machine_of(A100).parts < machine_of(H100).parts


def test_loops_in_order_are_left_to_libraries() -> None:
    lowered = lower_graph(record(lambda x: (x.cumsum(0), x + 1), torch.randn(9, 30)), Context(CHECKED), "cpu", GPU)
    assert [(left.operator, left.reason) for left in lowered.left] == [
        ("aten.cumsum.default", "its loop runs in order")
    ]
    assert [type(step) for step in lowered.program.steps] == [Extern, Kernel]


def test_what_kernels_step_over_leaves_pointers_aligned() -> None:
    x = torch.randn(4, 70)
    for function in (lambda x: x[:, 1:] * 2, lambda x: x[1:] + x[:-1], lambda x: x.half()[2:, 5:].sin()):
        begins = [number for each in sources(function, x).begins.values() for number in each]
        assert begins and not any(number % ALIGNMENT for number in begins)
    assert max(sources(lambda x: x[3:] * 2, x).begins.popitem()[1]) == 832  # of 840
    assert reuse.ALIGNMENT % ALIGNMENT == 0  # what shares a workspace
