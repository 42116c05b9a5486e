from __future__ import annotations

from onegraph.ir.loop import Named
from onegraph.ir.plan import (
    Alloc,
    Compute,
    ExecPlan,
    ExternCall,
    Free,
    KernelInfo,
    Launch,
    Pointer,
    Register,
    Return,
    Slot,
    ViewOf,
)
from onegraph.ir.plan_text import format_plan, plan_bytes
from onegraph.ir.types import F32

PLAN = ExecPlan(
    inputs=(Slot(0), Register(0)),
    constants=((1, "weight"),),
    slots=6,
    registers=3,
    kernels=(KernelInfo("k0"),),
    steps=(
        Compute(1, "size", 0, 1),
        Compute(2, "mul", Register(1), 4),
        Compute(2, "min", Register(1), 4),
        Alloc(2, F32, (4, 8), (8, 1), "cpu"),
        ViewOf(3, 2, (8,), (1,), 16),
        Launch(0, (Pointer(0), Pointer(2, 64)), (Register(2),)),
        Launch(0, (Pointer(0),), parallel=False),
        Launch(0, (Pointer(0),), (3,), grid=(Register(2), 4)),
        Free((2, 3)),
        Alloc(4, F32, (16,), (1,), "cpu", workspace=True),
        ExternCall("aten.sum.default", (Slot(4),), (("dtype", Named("dtype", "float32")),), (Slot(5),), (None,)),
        Alloc(2, F32, (Register(1),), (1,), "cpu"),
        Return((Slot(5), None, Register(1))),
    ),
)


def test_each_step_is_a_line() -> None:
    assert format_plan(PLAN).splitlines() == [
        "plan(s0, r0):",
        "  s1 = constant weight",
        "  r1 = size of s0 along 1",
        "  r2 = r1 * 4",
        "  r2 = min(r1, 4)",
        "  s2 = alloc f32[4, 8] stride (8, 1)",
        "  s3 = view of s2 + 16 as [8] stride (1)",
        "  k0(s0, s2 + 64, r2)",
        "  k0(s0)  one thread",
        "  k0[r2, 4](s0, 3)",
        "  free s2, s3",
        "  s4 = workspace f32[16] stride (1)",
        "  s5 = aten.sum.default(s4, dtype=float32)",
        "  s2 = alloc f32[r1] stride (1)",
        "  return (s5, None, r1)",
    ]


def test_bytes_are_counted_while_they_are_alive() -> None:
    assert plan_bytes(PLAN) == (4 * 8 * 4 + 16 * 4, 4 * 8 * 4)
