"""Plans that were read: whatever C would do outside of memory, or that is not of the graph, is refused."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from autograd.programs import functional
from torch import Tensor

from onegraph.base.config import Config
from onegraph.base.context import Context
from onegraph.compiler import compile_graph
from onegraph.compiler.cpu import CPU
from onegraph.compiler.kept_check import check_read_plan
from onegraph.ir.loop import Named
from onegraph.ir.plan import Alloc, Compute, ExecPlan, ExternCall, Free, Launch, Pointer, Register, Return, Slot, ViewOf


def program(x: Tensor, y: Tensor) -> Any:
    product = torch.mm(x, y.t())
    total = (product * 2.5).sum(1, keepdim=True)
    return (product / total).sin(), product[:, 1:], torch.where(x > 0, y, total)


@pytest.fixture(scope="module")
def made() -> tuple[ExecPlan, torch.fx.GraphModule]:
    graph = functional(program, torch.randn(8, 6), torch.randn(8, 6))
    return compile_graph(graph.module, Context(Config(cache=False)), CPU).plan, graph.module


def with_step(plan: ExecPlan, kind: type, change: Callable[[Any], Any]) -> ExecPlan:
    """The plan with another first step of this kind."""
    at = next(number for number, step in enumerate(plan.steps) if isinstance(step, kind))
    return replace(plan, steps=(*plan.steps[:at], change(plan.steps[at]), *plan.steps[at + 1 :]))


def with_pointer(plan: ExecPlan, **changes: Any) -> ExecPlan:
    def change(step: Launch) -> Launch:
        return replace(step, operands=tuple(replace(pointer, **changes) for pointer in step.operands))

    return with_step(plan, Launch, change)


def before(plan: ExecPlan, *steps: Any) -> ExecPlan:
    return replace(plan, steps=(*steps, *plan.steps))


def last(plan: ExecPlan, change: Callable[[Return], Any]) -> ExecPlan:
    assert isinstance(plan.steps[-1], Return)
    return replace(plan, steps=(*plan.steps[:-1], change(plan.steps[-1])))


CHANGES: dict[str, Callable[[ExecPlan], ExecPlan]] = {
    "more slots than there can be": lambda p: replace(p, slots=1 << 40),
    "no slots": lambda p: replace(p, slots=0),
    "more registers than there can be": lambda p: replace(p, registers=1 << 40),
    "an input less": lambda p: replace(p, inputs=p.inputs[1:]),
    "a number for a tensor": lambda p: replace(p, inputs=(Register(0), *p.inputs[1:]), registers=1),
    "an unknown constant": lambda p: replace(p, constants=((0, "nothing"),)),
    "a kernel less": lambda p: replace(p, kernels=p.kernels[:-1]),
    "an error that is none": lambda p: replace(
        p, kernels=(replace(p.kernels[0], errors=(("exec", "exit()"),)), *p.kernels[1:])
    ),
    "no end": lambda p: replace(p, steps=p.steps[:-1]),
    "two ends": lambda p: before(p, p.steps[-1]),
    "an empty register": lambda p: before(replace(p, registers=2), Compute(0, "add", Register(1), 1)),
    "a register of itself": lambda p: before(replace(p, registers=1), Compute(0, "add", Register(0), 1)),
    "a register outside": lambda p: before(p, Compute(7, "add", 1, 1)),
    "a division by zero": lambda p: before(replace(p, registers=1), Compute(0, "mod", 1, 0)),
    "an unknown operation": lambda p: before(replace(p, registers=1), Compute(0, "pow", 1, 1)),
    "a dimension that is not there": lambda p: before(replace(p, registers=1), Compute(0, "size", 0, 2)),
    "a number that is too large": lambda p: before(replace(p, registers=1), Compute(0, "add", 1 << 63, 0)),
    "memory that is too small": lambda p: with_step(p, Alloc, lambda s: replace(s, shape=(1,) * len(s.shape))),
    "memory that nothing uses": lambda p: with_step(p, Alloc, lambda s: replace(s, shape=(1 << 40,) * len(s.shape))),
    "a negative size": lambda p: with_step(p, Alloc, lambda s: replace(s, shape=(-8,) * len(s.shape))),
    "other dimensions": lambda p: with_step(p, Alloc, lambda s: replace(s, strides=(*s.strides, 1))),
    "another device": lambda p: with_step(p, Alloc, lambda s: replace(s, device="cuda")),
    "a view that ends outside": lambda p: with_step(p, ViewOf, lambda s: replace(s, offset=1 << 20)),
    "a view of nothing": lambda p: with_step(p, ViewOf, lambda s: replace(s, base=p.slots - 1)),
    "a pointer behind its memory": lambda p: with_pointer(p, offset=1 << 20),
    "a pointer before its memory": lambda p: with_pointer(p, offset=-8),
    "a pointer to nothing": lambda p: with_pointer(p, slot=p.slots + 3),
    "more bytes than there are": lambda p: with_pointer(p, bytes=1 << 20),
    "an unknown kernel": lambda p: with_step(p, Launch, lambda s: replace(s, kernel=-1)),
    "a grid on the processor": lambda p: with_step(p, Launch, lambda s: replace(s, grid=(1,))),
    "an operand that is watched": lambda p: replace(p, sanitize=True),
    "another operator": lambda p: with_step(p, ExternCall, lambda s: replace(s, operator="aten.from_file.default")),
    "other arguments": lambda p: with_step(p, ExternCall, lambda s: replace(s, args=(*s.args, 3))),
    "an argument that is none": lambda p: with_step(
        p, ExternCall, lambda s: replace(s, kwargs=(("dtype", Named("dtype", "load")),))
    ),
    "a result more": lambda p: with_step(p, ExternCall, lambda s: replace(s, outputs=(*s.outputs, None))),
    "an empty argument": lambda p: with_step(
        p, ExternCall, lambda s: replace(s, args=(Slot(p.slots - 1), *s.args[1:]))
    ),
    "a slot that is freed": lambda p: before(p, Free((0, 1))),
    "a slot that is freed twice": lambda p: before(p, Free((0, 0))),
    "a result less": lambda p: last(p, lambda s: replace(s, values=s.values[1:])),
    "results in another order": lambda p: last(p, lambda s: replace(s, values=s.values[::-1])),
    "a number as a result": lambda p: last(p, lambda s: replace(s, values=(1, *s.values[1:]))),
}


def test_the_plan_itself_is_accepted(made: tuple[ExecPlan, torch.fx.GraphModule]) -> None:
    plan, module = made
    check_read_plan(plan, module, {}, ())
    assert any(pointer.bytes for step in plan.steps if isinstance(step, Launch) for pointer in step.operands)
    assert Pointer(0).bytes is None


def test_plans_of_a_device_with_grids(made: tuple[ExecPlan, torch.fx.GraphModule]) -> None:
    plan, module = made
    there = replace(
        plan,
        steps=tuple(
            replace(step, device="cuda") if isinstance(step, Alloc)
            else replace(step, grid=(2, 1)) if isinstance(step, Launch)
            else step
            for step in plan.steps
        ),
    )  # fmt: skip
    check_read_plan(there, module, {}, (), "cuda")
    for grid in [(), (1, 1, 1, 1), (-1,), (Register(7),)]:
        with pytest.raises(ValueError, match="no plan of this graph"):
            check_read_plan(
                with_step(there, Launch, lambda s, grid=grid: replace(s, grid=grid)), module, {}, (), "cuda"
            )
    for device in ("meta", "cuda:1", ""):
        with pytest.raises(ValueError, match="no plan of this graph: a device"):
            check_read_plan(
                with_step(there, Alloc, lambda s, device=device: replace(s, device=device)), module, {}, (), "cuda"
            )


@pytest.mark.parametrize("name", CHANGES)
def test_other_plans_are_refused(name: str, made: tuple[ExecPlan, torch.fx.GraphModule]) -> None:
    plan, module = made
    changed = CHANGES[name](plan)
    assert changed != plan
    with pytest.raises(ValueError, match="no plan of this graph"):
        check_read_plan(changed, module, {}, ())
