"""Execution plans as text, and the memory that they ask for.

    plan(s0, s1):
      s2 = alloc f32[64, 48] stride (48, 1)
      normalize(s0, s1, s2)
      free s0
      return (s2,)

`s` are slots, `r` are registers, `s2 + 256` is the place 256 bytes behind the first element of a slot. On a device with
a grid, `normalize[r1, 4](s0, s1)` is launched in so many programs along x and y.
"""

from __future__ import annotations

from typing import assert_never

from onegraph.base.text import Printer
from onegraph.ir.loop import Named
from onegraph.ir.plan import (
    Alloc,
    Compute,
    ExecPlan,
    ExternCall,
    Free,
    Launch,
    PlanArgument,
    PlanStep,
    Pointer,
    Register,
    Return,
    Slot,
    ViewOf,
)

_SYMBOLS = {"add": "+", "sub": "-", "mul": "*", "floordiv": "//", "mod": "%"}


def format_plan(plan: ExecPlan) -> str:
    """The steps of a plan, one a line."""
    out = Printer()
    out.line(f"plan({_listed(plan.inputs)}):")
    with out.indented():
        for slot, name in plan.constants:
            out.line(f"s{slot} = constant {name}")
        for step in plan.steps:
            out.line(_step(plan, step))
    return out.text()


def _step(plan: ExecPlan, step: PlanStep) -> str:
    match step:
        case Compute(target, "size", a, b):
            return f"r{target} = size of s{a} along {_argument(b)}"
        case Compute(target, op, a, b) if op in _SYMBOLS:
            return f"r{target} = {_argument(a)} {_SYMBOLS[op]} {_argument(b)}"
        case Compute(target, op, a, b):
            return f"r{target} = {op}({_argument(a)}, {_argument(b)})"
        case Alloc(target, dtype, shape, strides, device, workspace):
            kind = "workspace" if workspace else "alloc"
            place = "" if device == "cpu" else f" on {device}"
            return f"s{target} = {kind} {dtype}[{_listed(shape)}] stride ({_listed(strides)}){place}"
        case ViewOf(target, base, shape, strides, offset):
            return (
                f"s{target} = view of s{base} + {_argument(offset)} as [{_listed(shape)}] stride ({_listed(strides)})"
            )
        case Launch(kernel, operands, sizes, parallel):
            arguments = [*map(_pointer, operands), *map(_argument, sizes)]
            grid = f"[{_listed(step.grid)}]" if step.grid else ""
            return f"{plan.kernels[kernel].name}{grid}({', '.join(arguments)})" + ("" if parallel else "  one thread")
        case ExternCall(operator, args, kwargs, outputs):
            arguments = [*map(_argument, args), *(f"{name}={_argument(value)}" for name, value in kwargs)]
            place = f" with {step.device}" if step.device else ""
            return f"{_listed(outputs)} = {operator}({', '.join(arguments)}){place}"
        case Free(slots, for_good, ours):
            verb = "retire" if ours else "release" if for_good else "free"
            return f"{verb} {', '.join(f's{slot}' for slot in slots)}"
        case Return(values):
            return f"return {_argument(values)}"
    assert_never(step)


def _pointer(pointer: Pointer) -> str:
    return f"s{pointer.slot} + {pointer.offset}" if pointer.offset else f"s{pointer.slot}"


def _listed(values: tuple[PlanArgument, ...]) -> str:
    return ", ".join(map(_argument, values))


def _argument(value: PlanArgument) -> str:
    match value:
        case Slot(number):
            return f"s{number}"
        case Register(number):
            return f"r{number}"
        case Named():
            return value.name
        case tuple():
            return f"({_listed(value)}{',' * (len(value) == 1)})"
    return repr(value)


def plan_bytes(plan: ExecPlan) -> tuple[int, int]:
    """Bytes that the plan allocates altogether, and at most at one time. Buffers of symbolic size are not counted."""
    sizes: dict[int, int] = {}
    total = alive = peak = 0
    for step in plan.steps:
        match step:
            case Alloc(target=target):
                sizes[target] = allocated(step)
                total += sizes[target]
                alive += sizes[target]
                peak = max(peak, alive)
            case Free(slots):
                alive -= sum(sizes.pop(slot, 0) for slot in slots)
    return total, peak


def allocated(alloc: Alloc) -> int:
    """The bytes of a tensor that a plan makes; 0 for one of symbolic size."""
    shape = [size for size in alloc.shape if isinstance(size, int)]
    strides = [stride for stride in alloc.strides if isinstance(stride, int)]
    if len(shape) < len(alloc.shape) or len(strides) < len(alloc.strides) or 0 in shape:
        return 0
    return (1 + sum((size - 1) * stride for size, stride in zip(shape, strides, strict=True))) * alloc.dtype.size
