"""The checker of plans that were read: each step uses what there is, in the memory that it has, for the graph at hand.

What a plan computes is the business of who has made it (`memory/check.py`); the folder that it is read from is trusted.
But C does what a plan says, so nothing that was damaged, or made by other rules, may get there: registers and slots are
filled before they are used, memory is as large as what its users need, numbers fit, results are as the graph has them,
and operators are those of the graph.
"""

from __future__ import annotations

import builtins
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch.fx import GraphModule, Node

from onegraph.base.dataclass import dataclass
from onegraph.compiler.lower.arguments import literal_argument
from onegraph.compiler.memory.plan import OUT_VARIANTS, PAGE
from onegraph.ir.loop import EXPECTED, Named
from onegraph.ir.plan import (
    Alloc,
    Compute,
    ExecPlan,
    ExternCall,
    Free,
    Int,
    KernelInfo,
    Launch,
    PlanArgument,
    PlanStep,
    Register,
    Return,
    Slot,
    ViewOf,
)

MOST = 1 << 20  # slots, or registers: far more than any graph has
NUMBERS = 1 << 63  # what registers hold is smaller
WIDEST = 16  # bytes of an element, where its type is not known
OPERATIONS = frozenset({"add", "sub", "mul", "floordiv", "mod", "min", "max", "size"})
#: Library calls that a lowering makes besides those of the graph.
OWN_CALLS = frozenset(
    {
        "aten.empty_strided.default", "aten._local_scalar_dense.default", "aten.alias.default",
        "aten._neg_view.default", EXPECTED,
    }
)  # fmt: skip
NAMED = {"dtype": torch.dtype, "layout": torch.layout, "memory_format": torch.memory_format}


@dataclass(frozen=True, slots=True)
class Known:
    """What is known of the tensor in a slot: its type in torch's words and its sizes, and the bytes behind its begin.

    None is what only the call tells.
    """

    dtype: str | None = None
    shape: tuple[int, ...] | None = None
    bytes: int | None = None


UNKNOWN = Known()


def check_read_plan(
    plan: ExecPlan, module: GraphModule, constants: Mapping[str, torch.Tensor], recipes: Collection[str]
) -> None:
    """Raise ValueError unless the plan can be one of this graph, with these constants and recipes."""
    nodes = list(module.graph.nodes)
    calls: dict[str, set[str | None]] = {name: {None} for name in (*OWN_CALLS, *recipes)}
    asked = {step.operator for step in plan.steps if isinstance(step, ExternCall)} - calls.keys()
    for node in nodes:
        name = str(node.target)
        for operator in {name, OUT_VARIANTS.get(name)} & asked:
            calls.setdefault(str(operator), set()).add(literals((node.args, tuple(node.kwargs.items()))))
    (output,) = (node for node in nodes if node.op == "output")
    results = [getattr(item, "meta", {}).get("val", item) for item in output.args[0]]
    inputs = [node.meta.get("val") for node in nodes if node.op == "placeholder"]
    largest = max((known_of(node.meta.get("val")).bytes or 0 for node in nodes), default=0)
    _Checker(plan, {name: known_of(value) for name, value in constants.items()}, calls, largest).run(inputs, results)


def known_of(value: Any) -> Known:
    """What the graph says of a tensor; sizes that are symbols say nothing."""
    if not isinstance(value, torch.Tensor):
        return UNKNOWN
    dtype = str(value.dtype).removeprefix("torch.")
    if value.layout is not torch.strided or not all(type(n) is int for n in (*value.shape, *value.stride())):
        return Known(dtype)
    return Known(dtype, tuple(value.shape), span_of(value.shape, value.stride()) * value.element_size())


def literals(values: Any) -> str | None:
    """The arguments of a call, of a plan or of a node, as text, with a mark for each tensor. None with symbols."""
    if isinstance(values, Slot) or isinstance(values, Node) and isinstance(values.meta.get("val"), torch.Tensor):
        return "tensor"
    if isinstance(values, Register | Node | torch.SymInt | torch.SymFloat | torch.SymBool):
        return None
    if isinstance(values, tuple | list):
        items = [literals(value) for value in values]
        return None if None in items else f"({', '.join(map(str, items))})"
    return repr(literal_argument(values)) if not isinstance(values, Named) else repr(values)


def is_device(name: str) -> bool:
    try:
        torch.device(name)
    except RuntimeError:
        return False
    return True


def span_of(shape: Sequence[int], strides: Sequence[int]) -> int:
    """Elements from the first one to behind the last one."""
    return 0 if 0 in shape else 1 + sum((size - 1) * stride for size, stride in zip(shape, strides, strict=True))


class _Checker:
    """What is in the slots and registers before the next step."""

    def __init__(
        self, plan: ExecPlan, constants: Mapping[str, Known], calls: Mapping[str, Collection[str | None]], largest: int
    ) -> None:
        self.plan = plan
        self.largest = largest  # bytes of a tensor of the graph
        self.constants = constants
        self.calls = calls  # the arguments of each operator, as far as they are no tensors; None for any
        self.slots: dict[int, Known] = {}
        self.registers: set[int] = set()
        #: The memory behind each slot that is the plan's own: its size, and what of it kernels use, or None for all.
        self.own: dict[int, int] = {}
        self.used: dict[int, int | None] = {}

    def require(self, condition: bool, what: str) -> None:
        if not condition:
            raise ValueError(f"no plan of this graph: {what}")

    def run(self, inputs: Sequence[Any], results: Sequence[Any]) -> None:
        plan = self.plan
        self.require(0 <= plan.slots <= MOST and 0 <= plan.registers <= MOST, "slots or registers")
        self.require(not plan.sanitize and len(plan.inputs) == len(inputs), "inputs")
        for place, value in zip(plan.inputs, inputs, strict=True):
            self.require(isinstance(place, Slot) == isinstance(value, torch.Tensor), "inputs")
            self.define(place, known_of(value))
        for slot, name in plan.constants:
            self.require(name in self.constants, "constants")
            self.define(Slot(slot), self.constants[name])
        for info in plan.kernels:
            self.kernel(info)
        self.require(bool(plan.steps) and isinstance(plan.steps[-1], Return), "its end")
        for step in plan.steps[:-1]:
            self.step(step)
        for slot in [*self.own]:
            self.emptied(slot)
        self.results(plan.steps[-1], results)

    def kernel(self, info: KernelInfo) -> None:
        self.require(not info.accesses, "kernels")
        for name, _ in info.errors:
            error = getattr(builtins, name, None)
            self.require(isinstance(error, type) and issubclass(error, Exception), "errors")

    def step(self, step: PlanStep) -> None:
        match step:
            case Compute(target, op, a, b):
                self.require(op in OPERATIONS, "an operation on integers")
                if op == "size":
                    self.require(isinstance(a, int) and isinstance(b, int), "a size")
                    shape = self.at(a).shape  # type: ignore[arg-type]
                    self.require(0 <= b < (64 if shape is None else len(shape)), "a dimension")  # type: ignore[operator]
                else:
                    self.numbers((a, b))
                    self.require(op not in ("floordiv", "mod") or b != 0, "a division")
                self.define(Register(target))
            case Alloc():
                self.allocate(step)
            case ViewOf():
                self.view(step)
            case Launch():
                self.launch(step)
            case ExternCall():
                self.call(step)
            case Free(slots):
                for slot in slots:
                    self.at(slot)
                    self.emptied(slot)
                    del self.slots[slot]
            case _:
                self.require(False, "a step")

    # ---- places ------------------------------------------------------------------------------------------------------

    def define(self, place: Slot | Register, known: Known = UNKNOWN) -> None:
        match place:
            case Slot(number):
                self.require(0 <= number < self.plan.slots, "a slot")
                self.emptied(number)
                self.slots[number] = known
            case Register(number):
                self.require(0 <= number < self.plan.registers, "a register")
                self.registers.add(number)

    def at(self, slot: int) -> Known:
        self.require(slot in self.slots, "an empty slot")
        return self.slots[slot]

    def numbers(self, values: Sequence[Int], least: int = -NUMBERS) -> tuple[int, ...] | None:
        """The integers, if they are known; each fits into 64 bits, or is in a register that has a value."""
        known: tuple[int, ...] | None = tuple(values)  # type: ignore[arg-type]
        for value in values:
            if isinstance(value, Register):
                self.require(value.number in self.registers, "an empty register")
                known = None
            elif not least <= value < NUMBERS:
                self.require(False, "a number")
        return known

    def sizes(self, values: Sequence[Int]) -> tuple[int, ...] | None:
        return self.numbers(values, 0)

    # ---- memory ------------------------------------------------------------------------------------------------------

    def layout(self, step: Alloc | ViewOf) -> tuple[tuple[int, ...] | None, int | None]:
        """The sizes, and how many elements of memory they are in."""
        self.require(len(step.shape) == len(step.strides) <= 64, "dimensions")
        shape, strides = self.sizes(step.shape), self.sizes(step.strides)
        return shape, None if shape is None or strides is None else span_of(shape, strides)

    def allocate(self, step: Alloc) -> None:
        shape, span = self.layout(step)
        self.require(step.device == "cpu" and step.dtype.size > 0, "a device")
        size = None if span is None else span * step.dtype.size
        self.define(Slot(step.target), Known(step.dtype.torch_name, shape, size))
        if size is not None:
            self.own[step.target], self.used[step.target] = size, 0

    def emptied(self, slot: int) -> None:
        """What only kernels have used is not much larger than what they need: nobody asks for such memory."""
        size, used = self.own.pop(slot, 0), self.used.pop(slot, None)
        self.require(used is None or size <= used + PAGE, "memory that nothing uses")

    def share(self, slot: int) -> Known:
        """A slot that something other than a kernel uses."""
        known = self.at(slot)
        if slot in self.used:
            self.used[slot] = None
        return known

    def view(self, step: ViewOf) -> None:
        base = self.share(step.base)
        shape, span = self.layout(step)
        offset = self.sizes((step.offset,))
        itemsize = None if base.dtype is None else getattr(torch, base.dtype).itemsize
        size = None if span is None or itemsize is None else span * itemsize
        if size and base.bytes is not None and offset is not None and itemsize is not None:
            self.require(offset[0] * itemsize + size <= base.bytes, "a view")
        self.define(Slot(step.target), Known(base.dtype, shape, size))

    def launch(self, step: Launch) -> None:
        self.require(0 <= step.kernel < len(self.plan.kernels) and not step.watched, "a kernel")
        self.numbers(step.sizes)
        for pointer in step.operands:
            room, needed = self.at(pointer.slot).bytes, pointer.bytes or 0
            self.require(0 <= pointer.offset < NUMBERS and 0 <= needed < NUMBERS >> 1, "an operand")
            if room is not None:
                self.require(pointer.offset + needed <= room or not needed, "an operand behind its memory")
            used = self.used.get(pointer.slot)
            if used is not None:
                known = pointer.bytes is not None
                self.used[pointer.slot] = max(used, pointer.offset + needed) if known else None

    def call(self, step: ExternCall) -> None:
        self.require(step.operator in self.calls, "an operator")
        named = tuple(item for item in step.kwargs if item[0] != "out" or not step.operator.endswith(".out"))
        accepted = self.calls[step.operator]
        if step.operator.startswith("recipe."):
            tensors = all(value is None or isinstance(value, Slot) for value in step.args)
            self.require(tensors and not step.kwargs, "arguments")
        self.require(None in accepted or literals((step.args, named)) in accepted, "arguments")
        self.require(len(step.outputs) == len(step.expected), "results of an operator")
        self.require(step.several or len(step.outputs) == 1, "results of an operator")
        for value in leaves((*step.args, *(value for _, value in step.kwargs))):
            self.argument(value)
        for target, layout in zip(step.outputs, step.expected, strict=True):
            shape = room = None
            if layout is not None:
                self.require(len(layout[0]) == len(layout[1]) <= 64, "dimensions")
                shape, strides = self.sizes(layout[0]), self.sizes(layout[1])
                if shape is not None and strides is not None:
                    room = span_of(shape, strides) * WIDEST
                    self.require(not self.largest or room <= self.largest * WIDEST + PAGE, "results of an operator")
            if target is not None:
                self.define(target, Known(None, shape, room))

    def argument(self, value: PlanArgument) -> None:
        match value:
            case Slot(number):
                self.share(number)
            case Register():
                self.numbers((value,))
            case Named("device", name):
                self.require(is_device(name), "an argument")
            case Named(kind, name):
                self.require(isinstance(getattr(torch, name, None), NAMED.get(kind, ())), "an argument")

    def results(self, step: PlanStep, wanted: Sequence[Any]) -> None:
        assert isinstance(step, Return)
        self.require(len(step.values) == len(wanted), "results")
        for value, want in zip(step.values, wanted, strict=True):
            self.require(isinstance(value, Slot) == isinstance(want, torch.Tensor), "results")
            if isinstance(value, Slot):
                have, known = self.share(value.number), known_of(want)
                for one, other in ((have.dtype, known.dtype), (have.shape, known.shape)):
                    self.require(None in (one, other) or one == other, "results")
                if have.dtype is not None and have.bytes is not None and known.bytes is not None:
                    self.require(have.bytes <= known.bytes + PAGE, "results")
            elif value is not None:
                self.numbers((value,))


def leaves(values: Sequence[Any]) -> Iterator[Any]:
    for value in values:
        if isinstance(value, tuple):
            yield from leaves(value)
        else:
            yield value
