"""The passes of the scheduler: text in, text out; and what each gives means what it was given."""

from __future__ import annotations

import gc
from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from onegraph.base.context import Context
from onegraph.compiler.body import Body
from onegraph.compiler.cpu import CPU
from onegraph.compiler.evaluate import run
from onegraph.compiler.kernels import stored_by
from onegraph.compiler.schedule import inline as inline_pass
from onegraph.compiler.schedule.absorb_views import absorb_views
from onegraph.compiler.schedule.axes import merge_axes, split_axes
from onegraph.compiler.schedule.flatten import flatten
from onegraph.compiler.schedule.inline import inline
from onegraph.ir.loop import Program
from onegraph.ir.loop_check import check_program
from onegraph.ir.loop_text import format_kernel, parse_program

CX = Context()
PASSES = {step.name: step.run for step in CPU.passes}
NAMES = ("fuse", "tile_products", "unroll_and_jam", "vectorize")
fuse, tile_products, unroll_and_jam, vectorize = (PASSES[name] for name in NAMES)
Transform = Callable[[Program, Context], Program]


def kernels_after(text: str, *passes: Transform) -> str:
    """The kernels of the program after the passes; each pass leaves a valid program that computes the same."""
    program = parse_program(text)
    check_program(program)
    random = np.random.default_rng(0)
    table = program.table()
    inputs = {
        name: random.normal(size=[n.constant for n in table[name].type.shape]).astype(np.float32)
        for name in program.inputs
        if isinstance(name, str)
    }
    expected = run(program, inputs)
    for transform in passes:
        program = transform(program, CX)
        check_program(program)
        for found, want in zip(run(program, inputs), expected, strict=True):
            np.testing.assert_allclose(found, want, rtol=1e-5, atol=1e-6)
    return "\n".join(format_kernel(kernel) for kernel in program.kernels)


def buffers(**shapes: tuple[int, ...]) -> str:
    lines = []
    for name, shape in shapes.items():
        strides = [int(np.prod(shape[k + 1 :])) for k in range(len(shape))]
        lines.append(f"  buffer {name}: f32[{', '.join(map(str, shape))}] stride ({', '.join(map(str, strides))})")
    return "\n".join(lines)


CHAIN = f"""\
program(x):
{buffers(x=(6, 4), a=(6, 4), y=(6, 4))}
  kernel k_a(i0: 6, i1: 4):
    t0: f32 = load x[i0, i1]
    t1: f32 = mul(t0, 2.0)
    store a[i0, i1] = t1
  kernel k_y(i0: 6, i1: 4):
    t0: f32 = load a[5 - i0, i1]
    t1: f32 = add(t0, t0)
    store y[i0, i1] = t1
  return y
"""


def test_a_chain_becomes_one_kernel() -> None:
    assert kernels_after(CHAIN, inline) == (
        "kernel k_y(i0: 6, i1: 4):\n"
        "  t0: f32 = load x[-i0 + 5, i1]\n"
        "  t1: f32 = mul(t0, 2.0)\n"
        "  t2: f32 = add(t1, t1)\n"
        "  store y[i0, i1] = t2"
    )


def test_a_chain_is_not_copied_for_each_of_its_links(monkeypatch: pytest.MonkeyPatch) -> None:
    links = 100
    names = ["x", *(f"a{k}" for k in range(links)), "y"]
    kernels = [
        f"""\
  kernel k{k}(i0: 6, i1: 4):
    t0: f32 = load {names[k]}[i0, i1]
    t1: f32 = mul(t0, 0.99)
    t2: f32 = add(t1, t0)
    store {names[k + 1]}[i0, i1] = t2
"""
        for k in range(links + 1)
    ]
    text = f"program(x):\n{buffers(**dict.fromkeys(names, (6, 4)))}\n{''.join(kernels)}  return y\n"
    copied = []
    let = Body.let
    monkeypatch.setattr(Body, "let", lambda self, dtype, value: copied.append(value) or let(self, dtype, value))
    at_once = kernels_after(text, inline)
    assert at_once.count("kernel") == 1 and len(copied) < 6 * links
    monkeypatch.setattr(inline_pass, "begun", lambda kernel, inlined: (Body(kernel.axes, stored_by(kernel)), {}))
    assert kernels_after(text, inline) == at_once and len(copied) > 50 * links


def test_what_is_used_twice_is_written_once(monkeypatch: pytest.MonkeyPatch) -> None:
    links = 30  # each uses two results of the link before, twice: copied at every use, they would be 2**30
    names = [f"{stem}{k}" for k in range(links + 1) for stem in "ab"]
    kernels = [
        f"""\
  kernel k_{to}{k + 1}(i0: 6, i1: 4):
    t0: f32 = load a{k}[i0, i1]
    t1: f32 = load b{k}[i0, i1]
    t2: f32 = {op}(t0, t1)
    store {to}{k + 1}[i0, i1] = t2
"""
        for k in range(links)
        for to, op in (("a", "maximum"), ("b", "minimum"))
    ]
    text = (
        f"program(a0, b0):\n{buffers(**dict.fromkeys(names, (6, 4)))}\n{''.join(kernels)}  return a{links}, b{links}\n"
    )
    copied = []
    let = Body.let
    monkeypatch.setattr(Body, "let", lambda self, dtype, value: copied.append(value) or let(self, dtype, value))
    assert kernels_after(text, fuse).count("kernel") == 1
    assert len(copied) < 20 * links**2  # groups that grow by one link are built anew


def test_an_output_in_the_middle_is_stored_once() -> None:
    text = CHAIN.replace("return y", "return y, a").replace("5 - i0", "i0")
    assert kernels_after(text, inline, fuse) == (
        "kernel k_y(i0: 6, i1: 4):\n"
        "  t0: f32 = load x[i0, i1]\n"
        "  t1: f32 = mul(t0, 2.0)\n"
        "  store a[i0, i1] = t1\n"
        "  t2: f32 = add(t1, t1)\n"
        "  store y[i0, i1] = t2"
    )


def test_what_other_iterations_computed_is_not_fused() -> None:
    text = CHAIN.replace("return y", "return y, a")
    assert kernels_after(text, inline, fuse).count("kernel") == 2


EXPENSIVE = f"""\
program(x):
{buffers(x=(50, 4), m=(50,), e=(50, 4), s=(50,), y=(50, 4))}
  kernel k_m(i0: 50):
    for r0: 4:
      t0: f32 = load x[i0, r0]
      t1: f32 = max over t0
    store m[i0] = t1
  kernel k_e(i0: 50, i1: 4):
    t0: f32 = load x[i0, i1]
    t1: f32 = load m[i0]
    t2: f32 = sub(t0, t1)
    t3: f32 = exp(t2)
    store e[i0, i1] = t3
  kernel k_s(i0: 50):
    for r0: 4:
      t0: f32 = load e[i0, r0]
      t1: f32 = sum over t0
    store s[i0] = t1
  kernel k_y(i0: 50, i1: 4):
    t0: f32 = load e[i0, i1]
    t1: f32 = load s[i0]
    t2: f32 = div(t0, t1)
    store y[i0, i1] = t2
  return y
"""

SOFTMAX = """\
kernel k_y(i0: 50):
  local keep_e: f32[4]
  for r0: 4:
    t0: f32 = load x[i0, r0]
    t1: f32 = max over t0
  for r0: 4:
    t2: f32 = load x[i0, r0]
    t3: f32 = sub(t2, t1)
    t4: f32 = exp(t3)
    t5: f32 = sum over t4
    store keep_e[r0] = t4
  for r0: 4:
    t6: f32 = load keep_e[r0]
    t7: f32 = div(t6, t5)
    store y[i0, r0] = t7"""


#: Where a kernel less is worth nothing.
FREE = partial(inline, launch=0.0)


def test_reductions_over_the_same_rows_become_one_kernel() -> None:
    assert kernels_after(EXPENSIVE, FREE, fuse) == SOFTMAX


def test_what_is_stored_anyway_is_read_back() -> None:
    fused = kernels_after(EXPENSIVE.replace("return y", "return y, e"), FREE, fuse)
    assert "local" not in fused and fused.count("kernel") == 1 and "load e[i0, r0]" in fused


def test_everything_together_means_the_same() -> None:
    for text in (CHAIN, EXPENSIVE):
        kernels_after(text, *(step.run for step in CPU.passes))


def kernel_of_product(weight: str, result: str) -> str:
    """`result = x @ weight.T + b`"""
    return f"""\
  kernel k_{result}(i0: 2, i1: 8):
    for r0: 16:
      t0: f32 = load x[i0, r0]
      t1: f32 = load {weight}[i1, r0]
      t2: f32 = mul(t0, t1)
      t3: f32 = sum over t2
    t4: f32 = load b[i1]
    t5: f32 = add(t3, t4)
    store {result}[i0, i1] = t5"""


PRODUCT = f"""\
program(x, w, b):
{buffers(x=(2, 16), w=(8, 16), b=(8,), y=(2, 8))}
{kernel_of_product("w", "y")}
  return y
"""


def test_the_rows_of_a_product_share_its_weight(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("onegraph.compiler.schedule.unroll_and_jam.MUCH", 100)
    assert kernels_after(PRODUCT, unroll_and_jam, flatten, vectorize) == (
        "kernel k_y(i1: 8) vector r0 by 16:\n"
        "  for r0: 16:\n"
        "    t0: f32 = load x @ r0\n"
        "    t1: f32 = load w @ i1 * 16 + r0\n"
        "    t2: f32 = mul(t0, t1)\n"
        "    t3: f32 = sum over t2\n"
        "    t4: f32 = load x @ r0 + 16\n"
        "    t5: f32 = mul(t4, t1)\n"
        "    t6: f32 = sum over t5\n"
        "  t7: f32 = load b @ i1\n"
        "  t8: f32 = add(t3, t7)\n"
        "  t9: f32 = add(t6, t7)\n"
        "  store y @ i1 = t8\n"
        "  store y @ i1 + 8 = t9"
    )


def test_rows_that_are_many_or_share_little_stay_a_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "i0: 2" in kernels_after(PRODUCT, unroll_and_jam)  # a small operand stays near anyway
    monkeypatch.setattr("onegraph.compiler.schedule.unroll_and_jam.MUCH", 100)
    many = PRODUCT.replace("i0: 2", "i0: 9").replace("f32[2", "f32[9")
    assert "i0: 9" in kernels_after(many, unroll_and_jam)


TILED = f"""\
program(x, w, b):
{buffers(x=(7, 16), w=(16, 8), b=(8,), y=(7, 8))}
  kernel k_y(i0: 7, i1: 8):
    for r0: 16:
      t0: f32 = load x[i0, r0]
      t1: f32 = load w[r0, i1]
      t2: f32 = mul(t0, t1)
      t3: f32 = sum over t2
    t4: f32 = load b[i1]
    t5: f32 = add(t3, t4)
    store y[i0, i1] = t5
  return y
"""


def test_a_product_runs_in_tiles_the_last_of_which_repeats_the_last_row() -> None:
    assert kernels_after(TILED, tile_products, PASSES["remove_dead_code"], flatten, vectorize) == (
        "kernel k_y(i1: 8, i0: 2) vector i1 by 8:\n"
        "  local k_y_totals: f32[4]\n"
        "  for r0: 16:\n"
        "    t0: f32 = load x @ i0 * 64 + r0\n"
        "    t1: f32 = load w @ i1 + r0 * 8\n"
        "    t3: f32 = dot over t0, t1\n"
        "    t4: f32 = load x @ i0 * 64 + r0 + 16\n"
        "    t6: f32 = dot over t4, t1\n"
        "    t7: f32 = load x @ i0 * 64 + r0 + 32\n"
        "    t9: f32 = dot over t7, t1\n"
        "    t10: f32 = load x @ min(i0 * 4 + 3, 6) * 16 + r0\n"
        "    t12: f32 = dot over t10, t1\n"
        "  store k_y_totals @ 0 = t3\n"
        "  store k_y_totals @ 1 = t6\n"
        "  store k_y_totals @ 2 = t9\n"
        "  store k_y_totals @ 3 = t12\n"
        "  t14: f32 = load b @ i1\n"
        "  for i0t: 4:\n"
        "    t13: f32 = load k_y_totals @ i0t\n"
        "    t15: f32 = add(t13, t14)\n"
        "    store y @ i1 + min(i0 * 4 + i0t, 6) * 8 = t15"
    )


def test_tiles_of_a_long_product_go_through_one_block_after_the_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("onegraph.compiler.schedule.tile_products.BLOCK", 8)
    machine = replace(CPU.machine, threads=1, tile_rows=2, tile_columns=8)
    tiled, vectors = (partial(step.func, machine=machine) for step in (tile_products, vectorize))
    assert kernels_after(TILED, tiled, PASSES["remove_dead_code"], flatten, vectors) == (
        "kernel k_y(i1: 8, i0: 1) vector i1 by 8:\n"
        "  local k_y_totals: f32[8]\n"
        "  for i0t: 8:\n"
        "    store k_y_totals @ i0t = 0.0\n"
        "  for r0b: 2:\n"
        "    for i0b: 4:\n"
        "      for r0: 8:\n"
        "        t0: f32 = load x @ i0 * 128 + i0b * 32 + r0 + r0b * 8\n"
        "        t1: f32 = load w @ i1 + r0 * 8 + r0b * 64\n"
        "        t3: f32 = dot over t0, t1\n"
        "        t4: f32 = load x @ min(i0 * 8 + i0b * 2 + 1, 6) * 16 + r0 + r0b * 8\n"
        "        t6: f32 = dot over t4, t1\n"
        "      t7: f32 = load k_y_totals @ i0b * 2\n"
        "      t8: f32 = add(t7, t3)\n"
        "      store k_y_totals @ i0b * 2 = t8\n"
        "      t9: f32 = load k_y_totals @ i0b * 2 + 1\n"
        "      t10: f32 = add(t9, t6)\n"
        "      store k_y_totals @ i0b * 2 + 1 = t10\n"
        "  t12: f32 = load b @ i1\n"
        "  for i0t: 8:\n"
        "    t11: f32 = load k_y_totals @ i0t\n"
        "    t13: f32 = add(t11, t12)\n"
        "    store y @ i1 + min(i0 * 8 + i0t, 6) * 8 = t13"
    )


MANY = f"""\
program(x, w, b, v):
{buffers(x=(2, 16), w=(8, 16), b=(8,), v=(8, 16), y=(2, 8), z=(2, 8))}
{kernel_of_product("w", "y")}
{kernel_of_product("v", "z")}
  return y, z
"""


def test_products_that_share_little_stay_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    assert kernels_after(MANY, fuse).count("kernel") == 1
    monkeypatch.setattr("onegraph.compiler.schedule.fuse.MUCH_WORK", 0)
    monkeypatch.setattr("onegraph.compiler.schedule.fuse.CROWD", 1)
    assert kernels_after(MANY, fuse).count("kernel") == 2


SPLIT = f"""\
program(x):
{buffers(x=(6, 4), y=(4, 6))}
  kernel k_y(i0: 24):
    t0: f32 = load x[i0 % 6, i0 // 6]
    store y[i0 // 6, i0 % 6] = t0
  return y
"""


def test_an_axis_is_split_where_it_is_divided() -> None:
    assert kernels_after(SPLIT, flatten, split_axes) == (
        "kernel k_y(i0h: 4, i0l: 6):\n  t0: f32 = load x @ i0h + i0l * 4\n  store y @ i0h * 6 + i0l = t0"
    )


MERGE = f"""\
program(x, b):
{buffers(x=(3, 4, 5), b=(5,), y=(3, 4, 5), z=(5,))}
  kernel k_y(i0: 3, i1: 4, i2: 5):
    t0: f32 = load x[i0, i1, i2]
    t1: f32 = load b[i2]
    t2: f32 = add(t0, t1)
    store y[i0, i1, i2] = t2
  kernel k_z(i0: 5):
    for r0: 3, r1: 4:
      t0: f32 = load x[r0, r1, i0]
      t1: f32 = sum over t0
    store z[i0] = t1
  return y, z
"""


def test_axes_that_run_on_are_merged() -> None:
    assert kernels_after(MERGE, flatten, merge_axes) == (
        "kernel k_y(i1: 12, i2: 5):\n"
        "  t0: f32 = load x @ i1 * 5 + i2\n"
        "  t1: f32 = load b @ i2\n"
        "  t2: f32 = add(t0, t1)\n"
        "  store y @ i1 * 5 + i2 = t2\n"
        "kernel k_z(i0: 5):\n"
        "  for r1: 12:\n"
        "    t0: f32 = load x @ i0 + r1 * 5\n"
        "    t1: f32 = sum over t0\n"
        "  store z @ i0 = t1"
    )


def test_the_vector_axis_runs_along_memory() -> None:
    heads = [line for line in kernels_after(MERGE, flatten, merge_axes, vectorize).splitlines() if "kernel" in line]
    assert heads == ["kernel k_y(i1: 12, i2: 5) vector i2 by 8:", "kernel k_z(i0: 5) vector i0 by 8:"]


def test_a_view_for_a_library_is_the_buffer_itself() -> None:
    text = f"""\
program(x):
{buffers(x=(2, 6, 8), a=(2, 6, 8), v=(12, 8), y=(12, 12), z=(2, 6, 8))}
  kernel k_a(i0: 2, i1: 6, i2: 8):
    t0: f32 = load x[i0, i1, i2]
    store a[i0, i1, i2] = t0
  v = view a offset 0
  y = extern aten.mm.default(v, v)
  kernel k_z(i0: 2, i1: 6, i2: 8):
    t0: f32 = load a[i0, i1, i2]
    store z[i0, i1, i2] = t0
  return y, z
"""
    program = absorb_views(flatten(parse_program(text), CX), CX)
    check_program(program)
    assert "a" not in program.table() and len(program.steps) == 3
    assert "store v @" in format_kernel(program.kernels[0]) and "load v @" in format_kernel(program.kernels[1])
    kept = parse_program(text.replace("return y, z", "return y, z, a"))
    assert absorb_views(flatten(kept, CX), CX) == flatten(kept, CX)


def test_nothing_waits_for_the_collector() -> None:
    """What the passes make is freed as it goes: programs are large, and the collector runs when the call is over."""
    gc.collect()
    gc.disable()
    try:
        kernels_after(EXPENSIVE, inline, fuse)
        parts = "Body", "Definition", "Group", "_Assembler", "_Rebuilder"
        assert not [each for each in gc.get_objects() if type(each).__name__ in parts]
    finally:
        gc.enable()
