"""The checker of execution plans: each step finds the values that the program means, in memory that has room for them.

The plan is run on descriptions: a register holds an index expression, a slot says which memory it is and how much of it
there is, and for each buffer it is known where its elements lie. What is certain for all sizes is accepted, nothing
else is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from onegraph.base.dataclass import dataclass
from onegraph.compiler.kernels import operands, size_symbols
from onegraph.compiler.memory.plan import NO_BEGINS, NO_GRIDS
from onegraph.compiler.memory.reuse import makes_memory, may_overwrite, moves_nothing
from onegraph.ir.index import ZERO, Index, Symbol, apply, is_at_most
from onegraph.ir.loop import (
    Argument,
    BufferArgument,
    Extern,
    Kernel,
    Program,
    Step,
    View,
    argument_buffers,
    reads,
    writes,
)
from onegraph.ir.loop_check import InvalidProgram
from onegraph.ir.plan import (
    Alloc,
    Compute,
    ExecPlan,
    ExternCall,
    Free,
    Int,
    Launch,
    PlanArgument,
    Pointer,
    Register,
    Return,
    Slot,
    ViewOf,
)
from onegraph.ir.proof import is_proven
from onegraph.ir.ranges import is_least_one
from onegraph.ir.types import TensorType

_OPERATIONS: dict[str, Callable[[Index, Index], Index]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "floordiv": lambda a, b: a // b,
    "mod": lambda a, b: a % b,
    "min": lambda a, b: apply("min", a, b),
    "max": lambda a, b: apply("max", a, b),
}


class InvalidPlan(InvalidProgram):
    """A plan that does not do what its program says, or in memory that is too small."""


@dataclass(frozen=True, slots=True)
class Memory:
    """A block of memory: `size` in bytes; None if a library made it, which answers for it.

    `may_be` are the blocks that it is, or is part of, if the library has returned an operand. `device` is where it
    lies, if not where kernels run.
    """

    number: int
    size: Index | None
    may_be: frozenset[int]
    foreign: bool = False
    device: str = ""


@dataclass(frozen=True, slots=True)
class Place:
    """Bytes of a block of memory, from `begin` to `end`."""

    memory: Memory
    begin: Index
    end: Index

    def meets(self, other: Place) -> bool:
        """Whether they may have bytes in common."""
        if self.memory.number == other.memory.number:
            return not (is_at_most(self.end, other.begin) or is_at_most(other.end, self.begin))
        return bool(self.memory.may_be & other.memory.may_be)


def check_plan(
    program: Program,
    plan: ExecPlan,
    functions: Mapping[str, int],
    given: Mapping[int, int] | None = None,
    facts: Sequence[Index] = (),
    begins: Mapping[str, tuple[int, ...]] = NO_BEGINS,
    grids: Mapping[str, tuple[Index, ...]] = NO_GRIDS,
) -> None:
    """Raise `InvalidPlan` unless the plan computes the program within its memory.

    `functions`, `given`, `begins` and `grids` are those that the plan was made with, see `plan`; `facts` about sizes
    are not negative.
    """
    _Checker(program, plan, functions, given or {}, facts, begins, grids).run()


class _Checker:
    """What is in the registers, the slots and the buffers before the next step."""

    def __init__(
        self,
        program: Program,
        plan: ExecPlan,
        functions: Mapping[str, int],
        given: Mapping[int, int],
        facts: Sequence[Index],
        begins: Mapping[str, tuple[int, ...]],
        grids: Mapping[str, tuple[Index, ...]],
    ) -> None:
        self.begins = begins
        self.grids = grids
        self.plan = plan
        self.facts = tuple(facts)
        self.functions = functions
        self.table = program.table()
        self.program = program
        self.todo: list[Step] = list(reversed(program.steps))
        self.registers: dict[int, Index] = {}
        self.slots: dict[int, Place] = {}
        self.places: dict[str, Place] = {}  # where the elements of each buffer lie, while they do
        self.tensors: dict[int, TensorType] = {}  # sizes and strides of what is in each slot, where it is a tensor
        self.memories = 0
        self.sizes = {(size.buffer, size.dim): Symbol(size.name) for size in program.sizes}
        self.buffers_of: dict[int, str] = {}  # the input in each slot
        self.results: dict[int, str] = {}  # the buffer that a library has put into each slot
        pairs = ((program.inputs[index], program.outputs[result]) for result, index in given.items())
        self.given = {(operand, result) for operand, result in pairs}

    def require(self, condition: bool, message: str) -> None:
        if not condition:
            raise InvalidPlan(message)

    # ---- the plan ----------------------------------------------------------------------------------------------------

    def run(self) -> None:
        for item, place in zip(self.program.inputs, self.plan.inputs, strict=True):
            if isinstance(item, Symbol):
                assert isinstance(place, Register)
                self.registers[place.number] = Index.of(item)
            else:
                self.enter(place.number, item)
        for slot, name in self.plan.constants:
            self.enter(slot, name)
        for step in self.plan.steps:
            match step:
                case Compute(target, op, a, b):
                    self.registers[target] = self.computed(op, a, b)
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
                        self.slots.pop(slot, None)
                        self.tensors.pop(slot, None)
                case Return():
                    self.finish(step)

    def enter(self, slot: int, name: str) -> None:
        """A tensor of the caller's is where guards, or the program, have found it."""
        type = self.table[name].type
        place = self.memory(type.span * type.dtype.size, foreign=True, device=self.table[name].device)
        self.slots[slot] = self.places[name] = place
        self.tensors[slot] = type
        self.buffers_of[slot] = name

    def memory(
        self, size: Index | None, may_be: frozenset[int] = frozenset(), foreign: bool = False, device: str = ""
    ) -> Place:
        self.memories += 1
        memory = Memory(self.memories, size, may_be | {self.memories}, foreign, device)
        return Place(memory, ZERO, size if size is not None else ZERO)

    def computed(self, op: str, a: Int, b: Int) -> Index:
        if op == "size":
            assert isinstance(a, int) and isinstance(b, int)
            name = self.results.get(a) or self.buffers_of[a]
            found = self.sizes.get((name, b))
            return Index.of(found) if found is not None else self.table[name].type.shape[b]
        return _OPERATIONS[op](self.integer(a), self.integer(b))

    def integer(self, value: Int) -> Index:
        return self.registers[value.number] if isinstance(value, Register) else Index.of(value)

    def integers(self, values: Sequence[Int]) -> tuple[Index, ...]:
        return tuple(map(self.integer, values))

    def allocate(self, step: Alloc) -> None:
        type = TensorType(step.dtype, self.integers(step.shape), self.integers(step.strides))
        self.slots[step.target] = self.memory(type.span * type.dtype.size)
        self.tensors[step.target] = type

    def next(self, kind: type[Step]) -> Step:
        """The step of the program that comes next in the plan."""
        self.pass_left_out()
        self.require(bool(self.todo) and isinstance(self.todo[-1], kind), "the plan has other steps than the program")
        return self.todo.pop()

    # ---- kernels -----------------------------------------------------------------------------------------------------

    def launch(self, step: Launch) -> None:
        kernel = self.next(Kernel)
        assert isinstance(kernel, Kernel)
        self.require(self.functions[kernel.name] == step.kernel, f"another kernel is launched than {kernel.name}")
        sizes = tuple(Index.of(symbol) for symbol in size_symbols(kernel))
        self.require(self.integers(step.sizes) == sizes, f"{kernel.name} is given other sizes")
        grid = self.grids.get(kernel.name, ())
        self.require(self.integers(step.grid) == grid, f"{kernel.name} is launched in another number of programs")
        names = operands(kernel)
        self.require(len(names) == len(step.operands), f"{kernel.name} is given too few operands")
        begins = self.begins.get(kernel.name, (0,) * len(names))
        given = [replace(at, offset=at.offset - begin) for at, begin in zip(step.operands, begins, strict=True)]
        places = {name: self.pointed(kernel, name, at) for name, at in zip(names, given, strict=True)}
        for name in reads(kernel):
            self.find(kernel.name, name, places[name])
        for name in writes(kernel):
            for operand in reads(kernel):
                apart = operand == name or not places[name].meets(places[operand])
                in_place = places[name] == places[operand] and may_overwrite(kernel, operand, name)
                self.require(apart or in_place, f"{kernel.name} writes {name} over {operand}, which it still reads")
        for name in writes(kernel):
            self.write(kernel.name, name, places[name])

    def pointed(self, kernel: Kernel, name: str, pointer: Pointer) -> Place:
        """The bytes that a kernel may use as this buffer."""
        slot, type = self.slots.get(pointer.slot), self.table[name].type
        self.require(slot is not None, f"{kernel.name} is given an empty slot for {name}")
        assert slot is not None
        where = slot.memory.device or self.table[name].device
        self.require(not where, f"{kernel.name} is given {name}, which lies on {where}")
        begin = slot.begin + pointer.offset
        end = begin + type.span * type.dtype.size
        size = slot.memory.size
        fits = size is None or pointer.offset >= 0 and (ZERO in type.shape or self.fits(end, size, type.shape))
        self.require(fits, f"{kernel.name} needs {end - begin} bytes for {name} from byte {begin} on, of {size}")
        return Place(slot.memory, begin, end)

    def find(self, step: str, name: str, place: Place) -> None:
        self.require(name in self.places, f"{step} reads {name}, which has been written over")
        self.require(self.places[name] == place, f"{step} reads {name} in another place than it was written to")

    def write(self, step: str, name: str, place: Place) -> None:
        """What else lies there is lost, except views of the same buffer, which see it."""
        if place.memory.foreign:
            owner = next(item for slot, item in self.buffers_of.items() if self.places_of_owner(item) == place.memory)
            self.require((owner, name) in self.given, f"{step} writes {name} into memory of the caller")
        for other, where in [*self.places.items()]:
            if other != name and where.meets(place):
                del self.places[other]
        self.places[name] = place

    def places_of_owner(self, name: str) -> Memory | None:
        return next((p.memory for s, p in self.slots.items() if self.buffers_of.get(s) == name), None)

    def pass_left_out(self) -> None:
        """Pass over kernels that are not launched: each would only copy a buffer into its own memory."""
        while self.todo and isinstance(self.todo[-1], Kernel) and self.todo[-1].name in self.plan.left_out:
            self.leave_out(self.todo.pop())

    def leave_out(self, kernel: Step) -> None:
        pair = _copied(kernel)
        self.require(pair is not None and pair[0] in self.places, f"{kernel} is not launched")
        assert pair is not None
        operand, name = pair
        self.require(self.table[operand].type == self.table[name].type, f"{name} is no copy of {operand}")
        place = self.places[operand]
        if place.memory.foreign:
            self.require(pair in self.given, f"{name} is not written into {operand}, which is the caller's")
        self.places.pop(operand)
        self.places[name] = place

    def fits(self, end: Index, size: Index, shape: Sequence[Index]) -> bool:
        """Whether a tensor of this shape that ends there is within memory of that size, if it has elements at all."""
        known = (*self.facts, *(extent - 1 for extent in shape if extent.constant is None))
        return is_proven(_of_elements(size, shape) - _of_elements(end, shape), [(known,)])

    # ---- views and library calls -------------------------------------------------------------------------------------

    def view(self, step: ViewOf) -> None:
        view = self.next(View)
        assert isinstance(view, View)
        base, type = self.slots[step.base], self.table[view.name].type
        base_shape = self.table[view.base].type.shape  # of a base without elements there are none to look at
        given = self.integers(step.shape)
        self.require(given == type.shape, f"{view.name} is a view of other sizes")
        self.find(view.name, view.base, self.places.get(view.base, base))
        offset = self.integer(step.offset)
        self.require(offset == view.offset, f"{view.name} begins at {offset}, and not at {view.offset}")
        begin = base.begin + offset * type.dtype.size
        end = begin + type.span * type.dtype.size
        size = base.memory.size
        fits = size is None or base.memory.foreign or ZERO in type.shape
        shape = (*type.shape, *base_shape)
        fits = fits or (self.fits(ZERO, begin, shape) and size is not None and self.fits(end, size, shape))
        self.require(fits, f"the view {view.name} ends at byte {end} of {size}")
        self.slots[step.target] = self.places[view.name] = Place(base.memory, begin, end)
        self.tensors[step.target] = replace(type, strides=self.integers(step.strides))

    def call(self, step: ExternCall) -> None:
        extern = self.next(Extern)
        assert isinstance(extern, Extern)
        out = dict(step.kwargs).get("out") if len(step.kwargs) > len(extern.kwargs) else None
        kwargs = tuple(value for name, value in step.kwargs if not (out is not None and name == "out"))
        wanted = (*extern.args, *(value for _, value in extern.kwargs))
        for value, argument in zip((*step.args, *kwargs), wanted, strict=True):
            self.argument(extern, value, argument)
        if out is not None:
            assert isinstance(out, Slot)
            (name,) = writes(extern)
            type, slot = self.table[name].type, self.slots[out.number]
            have = self.tensors[out.number]
            self.require(
                (have.shape, have.dtype) == (type.shape, type.dtype), f"{extern.operator} fills another tensor"
            )
            self.require(type.span == have.span, f"{extern.operator} fills a tensor of other strides")
            self.require(slot.memory.device == self.table[name].device, f"{extern.operator} fills memory elsewhere")
            for operand in reads(extern):
                self.require(not slot.meets(self.places[operand]), f"{extern.operator} reads what it fills, {operand}")
            self.write(extern.operator, name, slot)
            return
        may_be = frozenset[int]()
        for operand in () if makes_memory(extern) else argument_buffers(wanted):
            may_be |= self.places[operand].memory.may_be
        for name_, target in zip(extern.outputs, step.outputs, strict=True):
            if isinstance(name_, Symbol):
                assert isinstance(target, Register)
                self.registers[target.number] = Index.of(name_)
            elif name_ is not None:
                assert isinstance(target, Slot)
                self.results[target.number] = name_
                type = self.table[name_].type
                place = replace(
                    self.memory(None, may_be, device=self.table[name_].device), end=type.span * type.dtype.size
                )
                self.slots[target.number] = self.places[name_] = place
                self.tensors[target.number] = type

    def argument(self, extern: Extern, value: PlanArgument, argument: Argument) -> None:
        match argument:
            case BufferArgument(name):
                assert isinstance(value, Slot)
                slot = self.slots.get(value.number)
                self.require(slot is not None, f"{extern.operator} is given an empty slot for {name}")
                assert slot is not None
                place = self.places.get(name)
                self.require(place is not None, f"{extern.operator} reads {name}, which has been written over")
                assert place is not None
                same = slot.memory == place.memory and slot.begin == place.begin
                self.require(same, f"{extern.operator} reads {name} in another place than it was written to")
                have, type = self.tensors[value.number], self.table[name].type
                self.require((have.shape, have.dtype) == (type.shape, type.dtype), f"{name} has other sizes")
            case Index():
                assert isinstance(value, int | Register)
                self.require(self.integer(value) == argument, f"{extern.operator} is given another number")
            case tuple():
                assert isinstance(value, tuple)
                for inner, item in zip(value, argument, strict=True):
                    self.argument(extern, inner, item)

    def finish(self, step: Return) -> None:
        self.pass_left_out()
        self.require(not self.todo, "the plan ends before the program")
        for item, value in zip(self.program.outputs, step.values, strict=True):
            if isinstance(item, str):
                assert isinstance(value, Slot)
                slot = self.slots.get(value.number)
                alive = item in self.places and slot is not None and slot.memory == self.places[item].memory
                self.require(alive, f"the result {item} has been written over, or is not where it is looked for")


def _of_elements(index: Index, shape: Sequence[Index]) -> Index:
    """The number where no size of the shape is 0."""
    total = ZERO
    for monomial, coefficient in index.terms:
        term = Index.of(coefficient)
        for atom in monomial:
            term = term * (atom.a if is_least_one(atom) and atom.a in shape else Index((((atom,), 1),)))
        total = total + term
    return total


def _copied(step: Step | None) -> tuple[str, str] | None:
    """The operand and the result of a kernel that only copies one to the other."""
    if isinstance(step, Kernel) and len(reads(step)) == len(writes(step)) == 1:
        (operand,), (result,) = reads(step), writes(step)
        if moves_nothing(step, operand, result):
            return operand, result
    return None
