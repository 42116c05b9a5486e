"""The memory plan: what shares memory, and what must not."""

from __future__ import annotations

import pytest
import torch
from compiler.graphs import check, compiled
from torch import randn

from onegraph.compiler.memory.liveness import lifetimes
from onegraph.compiler.memory.plan import plan
from onegraph.compiler.memory.reuse import may_overwrite
from onegraph.ir.loop_text import parse_kernel, parse_program
from onegraph.ir.plan import Alloc, Free, KernelInfo, Launch
from onegraph.ir.plan_text import format_plan

HEAD = """\
program(x):
  buffer x: f32[8, 8] stride (8, 1)
  buffer a: f32[8, 8] stride (8, 1)
  buffer b: f32[8, 8] stride (8, 1)
  buffer c: f32[8, 8] stride (8, 1)
  buffer v: f32[64] stride (1)
  buffer w: f32[8, 8] stride (8, 1)
"""


def unary(name: str, source: str, target: str) -> str:
    body = f"    t0: f32 = load {source} @ i0\n    t1: f32 = neg(t0)\n    store {target} @ i0 = t1\n"
    return f"  kernel {name}(i0: 64):\n{body}"


def planned(*steps: str, consumes: bool = False, head: str = HEAD) -> str:
    program = parse_program(head + "".join(steps))
    names = [kernel.name for kernel in program.kernels]
    numbers, infos = {n: k for k, n in enumerate(names)}, tuple(KernelInfo(n) for n in names)
    return format_plan(plan(program, numbers, infos, "cpu", consumes=consumes))


@pytest.mark.parametrize("operator", ["aten.mm.default", "onednn.qlinear_pointwise.default"])
def test_a_result_takes_the_memory_of_an_operand_that_ends(operator: str) -> None:
    end = "  c = extern aten.mm.default(b, b)\n  return c\n"
    text = planned(f"  a = extern {operator}(x, x)\n", unary("k0", "a", "b"), end)
    assert "alloc" not in text and "k0(s1, s1)" in text


def test_memory_that_is_needed_later_is_kept() -> None:
    end = "  c = extern aten.mm.default(b, a)\n  return c\n"
    text = planned("  a = extern aten.mm.default(x, x)\n", unary("k0", "a", "b"), end)
    assert text.count("alloc") == 1 and "k0(s1, s2)" in text


def test_inputs_are_not_written() -> None:
    assert "k0(s0, s1)" in planned(unary("k0", "x", "a"), "  return a\n")


def test_consumed_inputs_are_let_go_when_nothing_needs_them() -> None:
    steps = unary("k0", "x", "a"), "  b = extern aten.mm.default(a, a)\n  return b\n"
    assert "free" not in planned(*steps).partition("aten.mm")[0]
    text = planned(*steps, consumes=True)
    assert text.index("k0(s0") < text.index("release s0") < text.index("aten.mm")


def test_consumed_inputs_that_are_results_stay() -> None:
    text = planned(unary("k0", "x", "a"), "  v = view x offset 0\n  return a, x, v\n", consumes=True)
    assert "free" not in text and "release" not in text


def test_what_a_library_may_have_kept_is_not_reused() -> None:
    text = planned(
        "  a = extern aten.mm.default(x, x)\n  w = extern aten.reshape.default(a, [8, 8])\n",
        unary("k0", "w", "b"),
        "  c = extern aten.mm.default(b, b)\n  return c\n",
    )
    assert text.count("alloc") == 1


def test_a_view_keeps_its_memory_alive() -> None:
    text = planned(
        "  a = extern aten.mm.default(x, x)\n  v = view a offset 0\n",
        unary("k0", "x", "b"),
        "  c = extern aten.mul.Tensor(b, v)\n  return c\n",
    )
    program = parse_program(HEAD + "  a = extern aten.mm.default(x, x)\n  v = view a offset 0\n  return v\n")
    assert lifetimes(program).leaving == {"a"}
    free = [line for line in text.splitlines() if "free" in line]
    assert text.index("aten.mul") < text.index(free[0])


def test_memory_elsewhere_serves_no_kernel() -> None:
    steps = "  a = extern aten.mm.default(x, x)\n  b = extern aten.mm.default(a, a)\n", unary("k0", "x", "c")
    end = "  return b, c\n"
    assert "k0(s0, s1)" in planned(*steps, end)
    text = planned(*steps, end, head=HEAD.replace("a: f32[8, 8] stride (8, 1)", "a: f32[8, 8] stride (8, 1) on cuda:0"))
    assert "k0(s0, s3)" in text and text.count("with cuda:0") == 2 and text.count("alloc") == 1


def test_what_only_kernels_touch_lives_in_one_workspace() -> None:
    text = planned(unary("k0", "x", "a"), unary("k1", "a", "b"), unary("k2", "b", "c"), "  return c\n")
    assert text.count("alloc") == 1 and "workspace" in text
    assert "512" in text  # a and b are alive together


REVERSED = "kernel k(i0: 8):\n  t0: f32 = load a @ -i0 + 7\n  store b @ i0 = t0"
TWICE = "kernel k(i0: 8):\n  for r0: 4:\n    t0: f32 = load a @ i0 * 4 + r0\n    store b @ i0 * 4 + r0 = t0\n"
TWICE_READ = TWICE + "  for r0: 4:\n    t1: f32 = load a @ i0 * 4 + r0\n    store c @ i0 * 4 + r0 = t1\n"
BEFORE = """\
kernel k(i0: 8):
  for r0: 4:
    t0: f32 = load a @ i0 * 4 + r0
    t1: f32 = sum over t0
  for r0: 4:
    t2: f32 = load a @ i0 * 4 + r0
    t3: f32 = div(t2, t1)
    store b @ i0 * 4 + r0 = t3"""


@pytest.mark.parametrize(("size", "released"), [(200, True), (2, False)])
def test_the_workspace_goes_before_something_larger_comes(size: int, released: bool) -> None:
    """Beside it, the peak would be higher than where nothing is kept. The next call has it again."""

    def function(x: torch.Tensor, w: torch.Tensor) -> tuple[torch.Tensor, ...]:
        scale = torch.softmax(x.cumsum(0), 0).cumsum(1).mean()
        return scale, torch.mm(w * scale, w)

    x, w = randn(40, 50), torch.ones(size, size)
    run = compiled(function, x, w)
    assert ("release" in run.text("memory")) is released
    for _ in range(3):
        for ours, theirs in zip(run(x, w), function(x, w), strict=True):
            torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-4)


def test_an_operand_is_overwritten_only_after_it_was_read() -> None:
    assert may_overwrite(parse_kernel(TWICE), "a", "b")
    assert may_overwrite(parse_kernel(BEFORE), "a", "b")
    assert not may_overwrite(parse_kernel(TWICE_READ), "a", "b")
    assert may_overwrite(parse_kernel(TWICE_READ), "a", "c")
    assert not may_overwrite(parse_kernel(REVERSED), "a", "b")


def test_a_deep_graph_needs_few_buffers() -> None:
    def deep(x: torch.Tensor) -> torch.Tensor:
        for _ in range(12):
            x = torch.relu(x @ x) + x
        return x

    x = randn(40, 40) / 10
    graph = check(deep, x, fallbacks=12, rtol=1e-4, atol=1e-4)
    steps = graph.plan.steps
    assert sum(isinstance(step, Launch) for step in steps) == 12
    assert sum(isinstance(step, Alloc) for step in steps) == 0
    assert sum(isinstance(step, Free) for step in steps) >= 11
    assert torch.equal(graph(x)[0], compiled(deep, x)(x)[0])


LARGE = """\
program(x):
  buffer x: f32[1024, 1024] stride (1024, 1)
  buffer a: f32[1024, 1024] stride (1024, 1)
  buffer b: f32[1024, 1024] stride (1, 1024)
"""


def test_a_library_writes_large_results_into_memory_of_ours() -> None:
    steps = "  a = extern aten.mm.default(x, x)\n  b = extern aten.mm.default(a, x)\n  return b\n"
    text = format_plan(plan(parse_program(LARGE + steps), {}, (), "cpu"))
    assert "aten.mm.out(s0, s0, out=s1)" in text
    assert "aten.mm.default(s1, s0)" in text  # which gives rows in order, and is asked for columns
    elsewhere = LARGE.replace("stride (1024, 1)", "stride (1024, 1) on cuda:0")
    assert ".out" not in format_plan(plan(parse_program(elsewhere + steps), {}, (), "cpu"))


def test_what_a_library_wrote_into_our_memory_is_right() -> None:
    def run(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, ...]:
        a = x @ y
        b = torch.addmm(y[0], a, x)
        return a.sin() @ b, torch.baddbmm(y, x[None], b[None])

    x, y = randn(600, 600) / 600, randn(600, 600) / 600
    graph = compiled(run, x, y, library_calls="aten")
    assert graph.text("memory").count(".out(") == 4
    torch.testing.assert_close(graph(x, y), run(x, y))


def test_a_copy_over_itself_is_no_kernel() -> None:
    first = "  a = extern aten.mm.default(x, x)\n"
    end = "  c = extern aten.mm.default(b, b)\n  return c\n"
    copy = unary("k0", "a", "b").replace("    t1: f32 = neg(t0)\n", "").replace("= t1", "= t0")
    assert "k0(" not in planned(first, copy, end)
    assert "k0(" in planned(copy.replace("load a", "load x"), end)
    assert "k0(" in planned(first, unary("k0", "a", "b"), end)
