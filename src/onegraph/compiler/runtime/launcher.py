"""From an execution plan to the native launcher, which runs it without Python in between.

The launcher wants numbers only: places by their index, every integer in a register, operators among the objects that a
plan has. Memory that only kernels see needs no tensor.
"""

from __future__ import annotations

import builtins
from array import array
from collections.abc import Callable, Mapping, Sequence
from itertools import count
from typing import TYPE_CHECKING, Any

import torch

from onegraph import _C
from onegraph.base.late import late_module
from onegraph.compiler.runtime.executor import NO_RECIPES, Executor, find_operator
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

if TYPE_CHECKING:
    from onegraph.compiler.runtime.collectives import Collectives
    from onegraph.compiler.runtime.sanitizer import Watch, fence_written, private_slots
else:
    Collectives = late_module("onegraph.compiler.runtime.collectives").Collectives
    Watch = late_module("onegraph.compiler.runtime.sanitizer").Watch
    fence_written = late_module("onegraph.compiler.runtime.sanitizer").fence_written
    private_slots = late_module("onegraph.compiler.runtime.sanitizer").private_slots

#: The kinds of steps and of places, in the order of their numbers in csrc/plan.h.
STEPS = (
    "size", "add", "sub", "mul", "floordiv", "mod", "min", "max", "alloc", "scratch", "device_alloc", "view", "launch",
    "device_launch", "extern", "free", "retire", "release", "return",
)  # fmt: skip
PLACES = ("none", "slot", "register", "object", "list")

#: Kinds of devices, in the order of torch's numbers for them: those on which there may be tensors of a plan.
DEVICES = ("cpu", "cuda", *[None] * 12, "meta")
#: torch's element types, in the order of its numbers for them; None: of quantized and packed elements.
SCALAR_TYPES = (
    "uint8", "int8", "int16", "int32", "int64", "float16", "float32", "float64", "complex32", "complex64", "complex128",
    "bool", *[None] * 3, "bfloat16", *[None] * 7, "float8_e5m2", "float8_e4m3fn", "float8_e5m2fnuz", "float8_e4m3fnuz",
    "uint16", "uint32", "uint64",
)  # fmt: skip

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
    name: str = "",
    times: array[int] | None = None,
    *,
    device: str = "cpu",
) -> _C.Plan | Executor:
    """The plan as a native callable, or as a Python one where this torch has not what the native one needs.

    Its kernels run on this `device`, and its tensors lie there, or on the processor.

    The native one is a range of this name for torch's profiler. In `times`, which is zeros at first (`no_times`), it
    counts how often the graph ran, and its nanoseconds; and behind that, for each kernel and call in order, the same.
    """
    words = Translation(plan, addresses, recipes, device)
    steps = [word for step in plan.steps for word in words.step(step)]
    inputs = [word for place in plan.inputs for word in words.place(place)]
    bound = [word for slot, name in plan.constants for word in (words.slot(slot), words.object(constants[name]))]
    packed = (pack(steps), pack(inputs), pack(bound), pack(words.registers))
    room = (words.most_pointers, words.most_numbers, words.most_arguments)
    try:
        sanitizer = fence_written if plan.sanitize else None
        return _C.Plan(*packed, tuple(words.objects), plan.slots, room, threads, keep, sanitizer, name, times)
    except NotImplementedError:
        return Executor(plan, addresses, constants, threads, keep, recipes)


def no_times(plan: ExecPlan) -> array[int]:
    """Room for the times of a plan that is to be measured."""
    return array("q", bytes(16 * (1 + sum(isinstance(step, Launch | ExternCall) for step in plan.steps))))


def empty_on(sizes: tuple[int, ...], strides: tuple[int, ...], dtype: int, device: int, index: int) -> torch.Tensor:
    """Is asked for a tensor on another device where C cannot make it: raises what eager does."""
    kind = DEVICES[device] or ""
    where = torch.device(kind) if index < 0 else torch.device(kind, index)
    return torch.empty_strided(sizes, strides, dtype=getattr(torch, SCALAR_TYPES[dtype] or ""), device=where)


def pack(words: list[int]) -> bytes:
    return array("q", words).tobytes()


class Translation:
    """A plan's steps as the words that the launcher runs, see csrc/plan.h; it trusts them, so they are checked here.

    `registers` are the registers' first values, `objects` what words stand for, `most_...` the room that a call needs.
    """

    def __init__(
        self,
        plan: ExecPlan,
        addresses: Sequence[int],
        recipes: Mapping[str, Callable[..., Any]] = NO_RECIPES,
        device: str = "cpu",
    ) -> None:
        self.device = torch.device(device)
        self.is_cpu = self.device.type == "cpu"
        if plan.sanitize and not self.is_cpu:
            raise ValueError(f"kernels on {device} do not check what they access: sanitize is for the processor's")
        self.plan = plan
        self.recipes = recipes
        self.addresses = addresses
        self.registers = [0] * plan.registers
        self.literals: dict[int, int] = {}
        self.objects: list[Any] = []
        self.tensors = tensor_slots(plan.steps)
        self.private = private_slots(plan) if plan.sanitize else frozenset[int]()
        self.most_pointers = self.most_numbers = self.most_arguments = 0
        self.collectives = Collectives(plan) if any(map(communicates, plan.steps)) else None
        self.measured = count(1)  # launches and calls; the number 0 is the whole graph's

    def slot(self, number: int) -> int:
        if not 0 <= number < self.plan.slots:
            raise ValueError(f"a plan of {self.plan.slots} slots has no slot {number}")
        return number

    def register(self, number: int) -> int:
        if not 0 <= number < self.plan.registers:
            raise ValueError(f"a plan of {self.plan.registers} registers has no register {number}")
        return number

    def object(self, value: Any) -> int:
        self.objects.append(value)
        return len(self.objects) - 1

    def integer(self, value: Int) -> int:
        """The register that holds the integer."""
        if isinstance(value, Register):
            return self.register(value.number)
        if value not in self.literals:
            self.literals[value] = len(self.registers)
            self.registers.append(value)
        return self.literals[value]

    def integers(self, values: Sequence[Int]) -> list[int]:
        return [self.integer(value) for value in values]

    def layout(self, shape: Sequence[Int], strides: Sequence[Int]) -> list[int]:
        assert len(shape) == len(strides)
        self.most_numbers = max(self.most_numbers, 2 * len(shape))
        return [len(shape), *self.integers(shape), *self.integers(strides)]

    def place(self, value: Any) -> list[int]:
        """Where a value is found: nowhere, in a slot, in a register, among the objects, or as a list of such places."""
        match value:
            case None:
                return [PLACES.index("none"), 0]
            case Slot(number):
                return [PLACES.index("slot"), self.slot(number)]
            case Register(number):
                return [PLACES.index("register"), self.register(number)]
            case tuple():
                return [PLACES.index("list"), len(value), *self.places(value)]
            case Named("device", name):
                value = torch.device(name)
            case Named(_, name):
                value = getattr(torch, name)
        return [PLACES.index("object"), self.object(value)]

    def places(self, values: Sequence[Any]) -> list[int]:
        return [word for value in values for word in self.place(value)]

    def step(self, step: PlanStep) -> list[int]:
        name, *words = self.parts(step)
        return [STEPS.index(name), 2 + len(words), *words]

    def parts(self, step: PlanStep) -> tuple[Any, ...]:
        """The name of a step, and its words behind the two that all have."""
        match step:
            case Compute(target, "size", int(slot), int(dim)):
                return ("size", self.register(target), self.slot(slot), dim)
            case Compute(target, op, a, b):
                return (op, self.register(target), self.integer(a), self.integer(b))
            case Alloc(target, dtype, shape, strides, device):
                made = self.slot(target), SCALAR_TYPES.index(dtype.torch_name), dtype.size
                layout = self.layout(shape, strides)
                if device != "cpu":
                    return ("device_alloc", *made, *self.other_device(device), *layout)
                return ("alloc" if target in self.tensors else "scratch", *made, target in self.private, 0, *layout)
            case ViewOf(target, base, shape, strides, offset):
                where = self.slot(base), self.integer(offset)
                return ("view", self.slot(target), 0, 0, *where, *self.layout(shape, strides))
            case Launch():
                return ("launch" if self.is_cpu else "device_launch", *self.launch(step))
            case ExternCall():
                return ("extern", *self.external(step))
            case Free(slots, for_good, ours):
                kind = "retire" if ours else "release" if for_good else "free"
                return (kind, len(slots), *self.places([*map(Slot, slots)]))
            case Return(values):
                return ("return", len(values), *self.places(values))

    def other_device(self, name: str) -> tuple[int, int]:
        """The kind of a device, and its index: -1 for the current one, where nobody says which."""
        found = torch.device(name)
        indices = {device.index for device in (found, self.device)} - {None}
        if found.type != self.device.type or len(indices) > 1:
            raise ValueError(f"a plan for {self.device} makes no tensors on {name}")
        return DEVICES.index(found.type), indices.pop() if indices else -1

    def launch(self, step: Launch) -> list[int]:
        if (step.grid == ()) != self.is_cpu or len(step.grid) > 3:
            raise ValueError(f"a kernel on {self.device} is not launched in a grid of {len(step.grid)} dimensions")
        address = self.addresses[step.kernel]
        info = self.plan.kernels[step.kernel]
        errors = tuple((getattr(builtins, name), text) for name, text in info.errors)
        operands = [word for pointer in step.operands for word in (self.slot(pointer.slot), pointer.offset)]
        counts = len(step.sizes), len(step.operands)
        self.most_numbers = max(self.most_numbers, counts[0])
        # beside the pointers are spans, or on a device the sizes and two pointers more: all parameters of the kernel
        self.most_pointers = max(self.most_pointers, 2 * counts[1] + 1, sum(counts) + 2)
        watch, watched = -1, list[int]()
        if self.plan.sanitize:
            watch = self.object(Watch(step, info))
            watched = [word for w in step.watched for word in (self.integer(w.span), w.itemsize, w.fresh)]
        sizes = self.integers(step.sizes)
        told = watch, self.object(info.name), next(self.measured)
        grid = self.integers((*step.grid, 1, 1)[:3]) if step.grid else ()
        how = step.parallel if self.is_cpu else DEVICES.index(self.device.type)
        return [address, how, self.object(errors), *counts, *told, *operands, *sizes, *watched, *grid]

    def external(self, step: ExternCall) -> list[int]:
        operator = self.recipes.get(step.operator) or _BOUND.get(step.operator) or find_operator(step.operator)
        if self.collectives is not None:
            operator = self.collectives.known(step, operator)
        names = tuple(name for name, _ in step.kwargs) or None
        args = self.places((*step.args, *(value for _, value in step.kwargs)))
        given = len(step.args) + len(step.kwargs)
        outputs = []
        for target, layout in zip(step.outputs, step.expected, strict=True):
            outputs += [*self.place(target), *([-1] if layout is None else self.layout(*layout))]
        assert step.several or len(step.outputs) == 1
        self.most_arguments = max(self.most_arguments, 1 + given)  # there is a place in front
        counts = len(step.args), given, len(step.outputs), next(self.measured)
        return [self.object(operator), self.object(names), step.several, step.inference, *counts, *args, *outputs]


def communicates(step: PlanStep) -> bool:
    return isinstance(step, ExternCall) and step.communicates


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
