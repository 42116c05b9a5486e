"""From an execution plan to the native launcher, which runs it without Python in between.

The launcher wants every integer in a register and operators as callables; memory that only kernels see needs no tensor.
"""

from __future__ import annotations

import builtins
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from onegraph import _C
from onegraph.compiler.runtime.executor import NO_RECIPES, Executor, find_operator, torch_dtype
from onegraph.ir.loop import Named
from onegraph.ir.plan import (
    Alloc,
    Compute,
    ExecPlan,
    ExternCall,
    Free,
    Int,
    Launch,
    PlanStep,
    Register,
    Return,
    Slot,
    ViewOf,
)

Place = tuple[str, Any] | None

#: Operators with a binding that parses its arguments in C: half the cost of a call by `torch.ops`.
_BOUND: dict[str, Callable[..., Any]] = {
    f"aten.{function.__name__}.{overload}": function
    for function in (torch.mm, torch.addmm, torch.bmm, torch.baddbmm, torch.convolution)
    for overload in ("default", "out")
}


def launcher(
    plan: ExecPlan,
    addresses: Sequence[int],
    constants: Mapping[str, torch.Tensor],
    threads: int = 0,
    keep: object = None,
    recipes: Mapping[str, Callable[..., Any]] = NO_RECIPES,
) -> _C.Plan | Executor:
    """The plan as a native callable, or as a Python one where this torch has not what the native one needs."""
    translation = Translation(plan, addresses, recipes)
    steps = tuple(map(translation.step, plan.steps))
    bound = tuple((slot, constants[name]) for slot, name in plan.constants)
    inputs = tuple(map(translation.place, plan.inputs))
    try:
        return _C.Plan(inputs, bound, plan.slots, tuple(translation.registers), steps, threads, keep)
    except NotImplementedError:
        return Executor(plan, addresses, constants, threads, keep, recipes)


class Translation:
    """A plan's steps as the tuples that the launcher reads. `registers` are the registers' first values."""

    def __init__(
        self, plan: ExecPlan, addresses: Sequence[int], recipes: Mapping[str, Callable[..., Any]] = NO_RECIPES
    ) -> None:
        self.recipes = recipes
        self.kernels = plan.kernels
        self.addresses = addresses
        self.registers = [0] * plan.registers
        self.literals: dict[int, int] = {}
        self.tensors = tensor_slots(plan.steps)

    def integer(self, value: Int) -> int:
        """The register that holds the integer."""
        if isinstance(value, Register):
            return value.number
        if value not in self.literals:
            self.literals[value] = len(self.registers)
            self.registers.append(value)
        return self.literals[value]

    def integers(self, values: Sequence[Int]) -> tuple[int, ...]:
        return tuple(map(self.integer, values))

    def place(self, value: Any) -> Place:
        """Where a value is found: in a slot, in a register, or here."""
        match value:
            case None:
                return None
            case Slot(number):
                return ("slot", number)
            case Register(number):
                return ("register", number)
            case tuple():
                return ("list", tuple(map(self.place, value)))
            case Named("device", name):
                return ("constant", torch.device(name))
            case Named(_, name):
                return ("constant", getattr(torch, name))
        return ("constant", value)

    def step(self, step: PlanStep) -> tuple[Any, ...]:
        match step:
            case Compute(target, "size", a, b):
                return ("size", target, a, b)
            case Compute(target, op, a, b):
                return (op, target, self.integer(a), self.integer(b))
            case Alloc(target, dtype, shape, strides):
                kind = "alloc" if target in self.tensors else "scratch"
                return (kind, target, torch_dtype(dtype), self.integers(shape), self.integers(strides))
            case ViewOf(target, base, shape, strides, offset):
                return ("view", target, base, self.integers(shape), self.integers(strides), self.integer(offset))
            case Launch(kernel, operands, sizes, parallel):
                errors = tuple((getattr(builtins, name), text) for name, text in self.kernels[kernel].errors)
                pointers = tuple((p.slot, p.offset) for p in operands)
                return ("launch", self.addresses[kernel], pointers, self.integers(sizes), parallel, errors)
            case ExternCall():
                return self.external(step)
            case Free(slots, for_good):
                return ("release" if for_good else "free", tuple(("slot", slot) for slot in slots))
            case Return(values):
                return ("return", tuple(map(self.place, values)))

    def external(self, step: ExternCall) -> tuple[Any, ...]:
        args = tuple(map(self.place, (*step.args, *(value for _, value in step.kwargs))))
        names = tuple(name for name, _ in step.kwargs)
        outputs = tuple(map(self.place, step.outputs))
        expected = tuple(
            None if layout is None else (self.integers(layout[0]), self.integers(layout[1])) for layout in step.expected
        )
        operator = self.recipes.get(step.operator) or _BOUND.get(step.operator) or find_operator(step.operator)
        return ("extern", operator, args, names, outputs, expected, step.several)


def tensor_slots(steps: Sequence[PlanStep]) -> frozenset[int]:
    """The slots that something other than a kernel uses."""
    found: set[int] = set()

    def use(value: Any) -> None:
        match value:
            case Slot(number):
                found.add(number)
            case tuple():
                for item in value:
                    use(item)

    for step in steps:
        match step:
            case ViewOf(target, base):
                found |= {target, base}
            case Compute(_, "size", int(slot)):
                found.add(slot)
            case ExternCall():
                use(step.args)
                use(tuple(value for _, value in step.kwargs))
                use(step.outputs)
            case Return(values):
                use(values)
    return frozenset(found)
