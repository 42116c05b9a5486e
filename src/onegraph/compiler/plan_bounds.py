"""The checker of plans that were read, as far as they say themselves what they need: for plans without their graph.

C does what a plan says, so nothing that was damaged, or made by other rules, may get there: registers and slots are
filled before they are used, memory is as large as what its users need, and numbers fit. What only the call tells is
looked at when the first one is made (`trial`): then all sizes are known.
"""

from __future__ import annotations

import builtins
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch

from onegraph.base.dataclass import dataclass
from onegraph.ir.loop import Named
from onegraph.ir.plan import (
    INTEGER_OPS,
    Alloc,
    Bytes,
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
PAGE = 4096  # bytes: what is no larger is not worth giving back
REACH = 1 << 40  # bytes: no tensor whose size is not known here is as large
MEMORY = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")  # bytes of this machine: no plan for it asks for more
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


def check_plan(plan: ExecPlan, constants: Mapping[str, torch.Tensor], device: str = "cpu") -> None:
    """Raise ValueError unless a plan uses what there is, in the memory that it has, whatever its graph is."""
    PlanChecker(plan, of_constants(constants), device=device).run([UNKNOWN] * len(plan.inputs))


def of_constants(constants: Mapping[str, torch.Tensor]) -> dict[str, Known]:
    return {name: Known(dtype_text(tensor), tuple(tensor.shape), tensor.nbytes) for name, tensor in constants.items()}


def dtype_text(tensor: torch.Tensor) -> str:
    return str(tensor.dtype).removeprefix("torch.")


def is_device(name: str) -> bool:
    try:
        torch.device(name)
    except RuntimeError:
        return False
    return True


def span_of(shape: Sequence[int], strides: Sequence[int]) -> int:
    """Elements from the first one to behind the last one."""
    return 0 if 0 in shape else 1 + sum((size - 1) * stride for size, stride in zip(shape, strides, strict=True))


class PlanChecker:
    """What is in the slots and registers before the next step."""

    def __init__(self, plan: ExecPlan, constants: Mapping[str, Known], largest: int = 0, device: str = "cpu") -> None:
        self.plan = plan
        self.constants = constants
        self.largest = largest  # bytes of a tensor of the graph; 0 where that is not known
        self.device = device  # where its kernels run
        self.slots: dict[int, Known] = {}
        self.registers: dict[int, int | None] = {}  # None: it has a value that only the call tells
        #: The memory behind each slot that is the plan's own: its size, and what of it kernels use, or None for all.
        self.own: dict[int, int] = {}
        self.used: dict[int, int | None] = {}

    def require(self, condition: bool, what: str) -> None:
        if not condition:
            raise ValueError(f"no plan of this graph: {what}")

    def run(self, inputs: Sequence[Known | int]) -> Return:
        """Check all steps for these inputs; the last one, of whose values there are those that it names."""
        plan = self.plan
        self.require(0 <= plan.slots <= MOST and 0 <= plan.registers <= MOST, "slots or registers")
        self.require(not plan.sanitize and len(plan.inputs) == len(inputs), "inputs")
        for place, known in zip(plan.inputs, inputs, strict=True):
            self.define(place, known)
        for slot, name in plan.constants:
            self.require(name in self.constants, "constants")
            self.define(Slot(slot), self.constants[name])
        for info in plan.kernels:
            self.kernel(info)
        self.require(bool(plan.steps), "its end")
        for step in plan.steps[:-1]:
            self.step(step)
        for slot in [*self.own]:
            self.emptied(slot)
        last = plan.steps[-1]
        if not isinstance(last, Return):
            raise ValueError("no plan of this graph: its end")
        for value in last.values:
            if isinstance(value, Slot):
                self.share(value.number)
            elif value is not None:
                self.numbers((value,))
        return last

    def kernel(self, info: KernelInfo) -> None:
        self.require(not info.accesses, "kernels")
        for name, _ in info.errors:
            error = getattr(builtins, name, None)
            self.require(isinstance(error, type) and issubclass(error, Exception), "errors")

    def step(self, step: PlanStep) -> None:
        match step:
            case Compute(target, op, a, b):
                self.define(Register(target), self.size(a, b) if op == "size" else self.computed(op, a, b))
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

    def define(self, place: Slot | Register, known: Known | int | None = UNKNOWN) -> None:
        match place:
            case Slot(number):
                self.require(0 <= number < self.plan.slots and isinstance(known, Known), "a slot")
                self.emptied(number)
                self.slots[number] = known  # type: ignore[assignment]
            case Register(number):
                self.require(0 <= number < self.plan.registers, "a register")
                self.registers[number] = known if isinstance(known, int) else None

    def at(self, slot: int) -> Known:
        self.require(slot in self.slots, "an empty slot")
        return self.slots[slot]

    def numbers(self, values: Sequence[Int], least: int = -NUMBERS) -> tuple[int, ...] | None:
        """The integers, if they are known; each fits into 64 bits, or is in a register that has a value."""
        known: list[int] = []
        for value in values:
            if isinstance(value, Register):
                self.require(value.number in self.registers, "an empty register")
            number = self.registers[value.number] if isinstance(value, Register) else value
            if number is not None:
                self.require(least <= number < NUMBERS, "a number")
                known.append(number)
        return tuple(known) if len(known) == len(values) else None

    def computed(self, op: str, a: Int, b: Int) -> int | None:
        self.require(op in INTEGER_OPS, "an operation on integers")
        numbers = self.numbers((a, b))
        self.require(op not in ("floordiv", "mod") or (b if numbers is None else numbers[1]) != 0, "a division")
        return None if numbers is None else INTEGER_OPS[op](*numbers)

    def size(self, slot: Int, dim: Int) -> int | None:
        if not isinstance(slot, int) or not isinstance(dim, int):
            raise ValueError("no plan of this graph: a size")
        shape = self.at(slot).shape
        self.require(0 <= dim < (64 if shape is None else len(shape)), "a dimension")
        return None if shape is None else shape[dim]

    def needed(self, bytes: Bytes | None) -> int | None:
        """What a kernel may use of its operand; None where only the call tells it."""
        if not isinstance(bytes, tuple):
            found = None if bytes is None else self.numbers((bytes,))
            return None if found is None else found[0]
        op, *operands = bytes
        a, b = map(self.needed, operands)
        return None if a is None or b is None else self.computed(op, a, b)

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
        self.require(step.device in ("cpu", self.device) and step.dtype.size > 0, "a device")
        size = None if span is None else span * step.dtype.size
        self.require(size is None or size <= (MEMORY if step.device == "cpu" else REACH), "memory")
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
        if offset is not None:
            end = REACH if base.bytes is None else base.bytes
            self.require(not size or offset[0] * (itemsize or 1) + size <= end, "a view")
            self.require(offset[0] < REACH, "a view")
        self.define(Slot(step.target), Known(base.dtype, shape, size))

    def launch(self, step: Launch) -> None:
        self.require(0 <= step.kernel < len(self.plan.kernels) and not step.watched, "a kernel")
        self.numbers(step.sizes)
        self.require(len(step.grid) <= 3 and (step.grid == ()) == (self.device == "cpu"), "a grid")
        self.sizes(step.grid)
        for pointer in step.operands:
            room, stated = self.at(pointer.slot).bytes, self.needed(pointer.bytes)
            needed = max(stated or 0, 0)
            self.require(0 <= pointer.offset < REACH and needed < NUMBERS >> 1, "an operand")
            self.require(stated is None or stated >= 0 or not isinstance(pointer.bytes, int), "an operand")
            end = REACH if room is None else room
            self.require(pointer.offset + needed <= end or not needed, "an operand behind its memory")
            used = self.used.get(pointer.slot)
            if used is not None:
                self.used[pointer.slot] = None if stated is None else max(used, pointer.offset + needed)

    def call(self, step: ExternCall) -> None:
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
                    self.require(room <= MEMORY * WIDEST, "results of an operator")
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


def leaves(values: Sequence[Any]) -> Iterator[Any]:
    for value in values:
        if isinstance(value, tuple):
            yield from leaves(value)
        else:
            yield value
