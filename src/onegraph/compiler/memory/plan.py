"""From a scheduled loop program to an execution plan.

Buffers become slots, integer expressions become registers, equal kernels become one function. A buffer gets memory
before the step that first writes it; after the last step that uses it, itself or through views, the memory serves the
next buffer of the same layout.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from onegraph.compiler.kernel_facts import library_bytes, library_flops
from onegraph.compiler.kernels import operands, size_symbols
from onegraph.compiler.memory.liveness import lifetimes
from onegraph.compiler.memory.reuse import NO_WORKSPACE, moves_nothing, overwritten, owned_after, size_of, workspace
from onegraph.compiler.plan_bounds import PAGE
from onegraph.ir.index import Call, Index, Symbol
from onegraph.ir.loop import Argument, BufferArgument, Extern, Kernel, Program, Step, View, reads, writes
from onegraph.ir.plan import (
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
    Pointer,
    Register,
    Return,
    Slot,
    ViewOf,
    Watched,
)
from onegraph.ir.types import U8, TensorType, contiguous_strides, strides_of_new

WORKSPACE = "workspace"
SOON = 24  # steps for which dead memory waits to be used again
LARGE = 1 << 20  # bytes: from here on a library is given memory for its result, which is had in large pages
LASTING = 1 << 18  # bytes of the largest buffer in a workspace beside which memory is given back

#: The operands of kernels are given from their first bytes on.
NO_BEGINS: Mapping[str, tuple[int, ...]] = MappingProxyType({})
#: Kernels run on a device without a grid.
NO_GRIDS: Mapping[str, tuple[Index, ...]] = MappingProxyType({})
#: Library calls that take memory for their result, which is contiguous.
OUT_VARIANTS = {f"aten.{name}.default": f"aten.{name}.out" for name in ("mm", "addmm", "bmm", "baddbmm")}


class Planner:
    """The plan under construction."""

    def __init__(
        self,
        program: Program,
        device: str,
        given: Mapping[int, int],
        consumes: bool,
        origins: Mapping[str, str] | None = None,
        reuses: bool = True,
    ) -> None:
        self.program = program
        self.device = device
        self.consumes = consumes
        self.origins = origins
        self.left_out: set[str] = set()
        self.born = {b.name for b in program.buffers if b.constant} | {x for x in program.inputs if isinstance(x, str)}
        self.table = program.table()
        self.steps: list[PlanStep] = []
        self.slots: dict[str, int] = {}
        self.count = 0
        self.registers = 0
        self.now = 0
        self.lives = lifetimes(program)
        # Where memory is given back as the call goes on, what is large does not stay from its begin to its end.
        lasting = LASTING if consumes else None
        self.reuses = reuses
        self.space = workspace(program, self.lives, lasting) if reuses else NO_WORKSPACE
        self.owned: set[str] = set()  # memory that is ours: no caller and no library may also know it
        self.overwritten = overwritten(program, self.lives, self.space, given) if reuses else {}
        self.births = self._births()
        self.idle: dict[TensorType, list[int]] = {}  # slots whose memory is free for another buffer of this layout
        self.bytes: dict[TensorType, Bytes | None] = {}
        self.symbols: dict[str, Int] = {}
        self.known: dict[Index, Int] = {}

    def slot(self, buffer: str) -> int:
        if buffer not in self.slots:
            self.slots[buffer] = self.count
            self.count += 1
        return self.slots[buffer]

    def pointer(self, buffer: str, begin: int) -> Pointer:
        """Where the buffer is from this byte on."""
        type = self.table[buffer].type
        if type not in self.bytes:
            self.bytes[type] = self.stated(type.span * type.dtype.size)
        size = self.bytes[type]
        left = max(size - begin, 0) if isinstance(size, int) else ("sub", size, begin) if size and begin else size
        if buffer in self.space.offsets:
            return Pointer(self.slot(WORKSPACE), self.space.offsets[buffer] + begin, left)
        return Pointer(self.slot(buffer), begin, left)

    def layout(self, buffer: str) -> tuple[tuple[Int, ...], tuple[Int, ...]]:
        type = self.table[buffer].type
        return self.integers(type.shape), self.integers(strides_of_new(type))

    # ---- memory ------------------------------------------------------------------------------------------------------

    def allocate(self, name: str) -> None:
        """Give the buffer memory: that of an operand that ends here, of a dead buffer, or new."""
        type = self.table[name].type
        operand = self.overwritten.get(name)
        if operand is not None:
            self.slots[name] = self.slots[operand]
            self.owned.discard(operand)
            return
        if self.idle.get(type):
            self.slots[name] = self.idle[type].pop()
            return
        shape, strides = self.layout(name)
        self.steps.append(Alloc(self.slot(name), type.dtype, shape, strides, self.device))

    def target(self, output: str | Symbol | None) -> Slot | Register | None:
        """Where a result of a library call goes."""
        if isinstance(output, Symbol):
            register = self.symbols[output.name] = self.register()
            return register
        return Slot(self.slot(output)) if output is not None else None

    def expected(self, output: str | Symbol | None) -> tuple[tuple[Int, ...], tuple[Int, ...]] | None:
        """The layout that a result of a library call is given; None if only the result tells it."""
        if not isinstance(output, str):
            return None
        type = self.table[output].type
        names = {symbol.name for number in (*type.shape, *type.strides) for symbol in number.symbols}
        return self.layout(output) if names <= self.symbols.keys() else None

    def read_sizes(self, buffers: Collection[str]) -> None:
        """Read the sizes of these buffers that have names."""
        for size in self.program.sizes:
            if size.buffer in buffers:
                self.symbols[size.name] = self.compute("size", self.slot(size.buffer), size.dim)

    def takes_memory(self, step: Extern) -> bool:
        """Whether the library is given the memory for its result."""
        (output, *_) = step.outputs
        if step.operator not in OUT_VARIANTS or not isinstance(output, str):
            return False
        buffer = self.table[output]
        return (
            not buffer.device
            and size_of(buffer) >= LARGE
            and buffer.type.strides == contiguous_strides(buffer.type.shape)
        )

    def is_free_after(self, buffer: str) -> bool:
        """Whether this step is the last to use the buffer, whose memory is nobody else's."""
        return buffer in self.owned and self.lives.ends_at(buffer, self.now)

    def release(self, buffers: Sequence[str]) -> None:
        """After a step: memory that is ours becomes idle, other slots are emptied."""
        emptied, retired = list[int](), list[int]()
        for name in dict.fromkeys((*buffers, *(self.lives.root[name] for name in buffers))):
            if name not in self.slots or self.lives.last.get(name) != self.now:
                continue
            type = self.table[name].type
            free = self.is_free_after(name)
            self.owned.discard(name)
            if free and self.reuses and len(self.idle.get(type, ())) < self.wanted(type):
                self.idle.setdefault(type, []).append(self.slots[name])
            elif self.is_droppable(name):
                (retired if free and self.reuses and not self.consumes else emptied).append(self.slots[name])
        if emptied:
            self.steps.append(Free(tuple(emptied), for_good=self.consumes))
        if retired:
            self.steps.append(Free(tuple(retired), ours=True))

    def release_workspace(self) -> None:
        """The workspace goes back to the system at its end, if something larger comes later: it would stand beside it.

        Otherwise it is kept from one call to the next.
        """
        if self.now != self.space.end or self.space.size <= PAGE:
            return
        if any(size >= self.space.size for size in self._sizes_to_come()):
            self.steps.append(Free((self.slot(WORKSPACE),), for_good=True))

    def _sizes_to_come(self) -> Iterator[int]:
        """Bytes of the buffers that get memory after this step, as far as they are known."""
        for step in self.program.steps[self.now + 1 :]:
            for name in () if isinstance(step, View) else writes(step):
                if name not in self.overwritten and name not in self.slots:
                    yield size_of(self.table[name])

    def wanted(self, type: TensorType) -> int:
        """How many buffers of this layout will need new memory soon."""
        return sum(1 for step in self.births.get(type, ()) if self.now < step <= self.now + SOON)

    def is_droppable(self, buffer: str) -> bool:
        """Whether the slot may be emptied: not one of the caller's or a result's, and not taken over by another."""
        consumed = self.consumes and not self.table[buffer].constant
        if buffer in self.program.outputs or (buffer in self.lives.foreign and not consumed):
            return False
        return self.slots[buffer] not in (self.slots.get(name) for name in self.owned)

    def free_idle(self) -> None:
        """Empty the slots that stand idle at the end."""
        slots = [slot for slots in self.idle.values() for slot in slots]
        if slots:
            self.steps.append(Free(tuple(slots), for_good=self.consumes, ours=not self.consumes))

    def _births(self) -> dict[TensorType, list[int]]:
        """The steps at which buffers of each layout need new memory."""
        births: dict[TensorType, list[int]] = {}
        known: set[str] = {*self.space.offsets, *self.overwritten}
        for number, step in enumerate(self.program.steps):
            filled = isinstance(step, Kernel) or isinstance(step, Extern) and self.takes_memory(step)
            for name in writes(step) if filled else ():
                if name not in known:
                    known.add(name)
                    births.setdefault(self.table[name].type, []).append(number)
        return births

    # ---- what the sanitizer is told ----------------------------------------------------------------------------------

    def watched(self, kernel: Kernel, begins: Sequence[int]) -> tuple[Watched, ...]:
        """The operands of a kernel that is given each from such a byte on."""
        if self.origins is None:
            return ()
        found = []
        for name, begin in zip(operands(kernel), begins, strict=True):
            type = self.table[name].type
            fresh = name not in self.born and name not in self.overwritten
            found.append(Watched(name, self.integer(type.span * type.dtype.size - begin), type.dtype.size, fresh))
        return tuple(found)

    def origin(self, kernel: Kernel) -> str:
        """The kernel, and the operators whose results it writes with the lines of the program that ask for them."""
        known = [found for name in writes(kernel) if (found := (self.origins or {}).get(name))]
        return ", ".join((kernel.name, *known)) if self.origins is not None else ""

    # ---- integers ----------------------------------------------------------------------------------------------------

    def register(self) -> Register:
        self.registers += 1
        return Register(self.registers - 1)

    def compute(self, op: str, a: Int, b: Int) -> Register:
        target = self.register()
        self.steps.append(Compute(target.number, op, a, b))
        return target

    def integer(self, index: Index) -> Int:
        """The expression as a constant, or a register that is computed once."""
        if index.constant is not None:
            return index.constant
        found = self.known.get(index)
        if found is None:
            found = self.known[index] = self._polynomial(index, self.compute, self.integer)
        return found

    def stated(self, index: Index) -> Bytes | None:
        """The expression as data, which nothing computes in a call; None if a symbol has no value yet."""
        if index.constant is not None:
            return index.constant
        if any(symbol.name not in self.symbols for symbol in index.symbols):
            return None
        found: Bytes = self._polynomial(index, lambda op, a, b: (op, a, b), self.stated)
        return found

    def _polynomial(self, index: Index, compute: Callable[[str, Any, Any], Any], inner: Callable[[Index], Any]) -> Any:
        total = None
        for monomial, coefficient in index.terms:
            term = None
            for atom in monomial:
                factor = self.symbols[atom.name] if isinstance(atom, Symbol) else self._call(atom, compute, inner)
                term = factor if term is None else compute("mul", term, factor)
            if term is None:
                term = coefficient
            elif coefficient != 1:
                term = compute("mul", term, coefficient)
            total = term if total is None else compute("add", total, term)
        return total if total is not None else 0

    def _call(self, call: Call, compute: Callable[[str, Any, Any], Any], inner: Callable[[Index], Any]) -> Any:
        names = {"//": "floordiv", "%": "mod", "min": "min", "max": "max"}
        return compute(names[call.op], inner(call.a), inner(call.b))

    def integers(self, indices: Sequence[Index]) -> tuple[Int, ...]:
        return tuple(self.integer(index) for index in indices)

    # ---- arguments ---------------------------------------------------------------------------------------------------

    def argument(self, value: Argument) -> PlanArgument:
        if isinstance(value, BufferArgument):
            return Slot(self.slot(value.name))
        if isinstance(value, Index):
            return self.integer(value)
        if isinstance(value, tuple):
            return tuple(self.argument(item) for item in value)
        return value


def plan(
    program: Program,
    functions: Mapping[str, int],
    kernels: tuple[KernelInfo, ...],
    device: str,
    given: Mapping[int, int] | None = None,
    consumes: bool = False,
    origins: Mapping[str, str] | None = None,
    begins: Mapping[str, tuple[int, ...]] = NO_BEGINS,
    reuses: bool = True,
    grids: Mapping[str, tuple[Index, ...]] = NO_GRIDS,
) -> ExecPlan:
    """The plan of a program whose kernels are flat. `functions` gives each kernel's number in `kernels`.

    All that it allocates lies on the `device`. `given` are the positions of results that the caller copies to inputs:
    they may be written there at once. A plan that `consumes` its inputs lets go of each behind the last step that uses
    it. For the sanitizer, `origins` say of which operator each buffer is the result. A kernel is given its operands
    from the bytes on that it has in `begins`, and launched in as many programs as `grids` says. Where it `reuses` no
    memory, each buffer has its own.
    """
    p = Planner(program, device, given or {}, consumes, origins, reuses)
    inputs: list[Slot | Register] = []
    for item in program.inputs:
        if isinstance(item, Symbol):
            register = p.register()
            p.symbols[item.name] = register
            inputs.append(register)
        else:
            inputs.append(Slot(p.slot(item)))
    constants = tuple((p.slot(b.name), b.name) for b in program.buffers if b.constant)
    p.read_sizes(p.born)
    if p.space.size:
        p.steps.append(Alloc(p.slot(WORKSPACE), U8, (p.space.size,), (1,), p.device, workspace=True))
    for number, step in enumerate(program.steps):
        p.now = number
        _step(p, step, functions, begins, grids)
        p.born |= {*writes(step)}
        p.owned = owned_after(step, p.owned, p.lives)
        p.release([*reads(step), *writes(step)])
        p.release_workspace()
    p.free_idle()
    values = tuple(
        None if item is None else p.integer(item) if isinstance(item, Index) else Slot(p.slot(item))
        for item in program.outputs
    )
    p.steps.append(Return(values))
    steps = tuple(p.steps)
    return ExecPlan(
        tuple(inputs), constants, p.count, p.registers, kernels, steps, origins is not None, frozenset(p.left_out)
    )


def _step(
    p: Planner,
    step: Step,
    functions: Mapping[str, int],
    begins: Mapping[str, tuple[int, ...]],
    grids: Mapping[str, tuple[Index, ...]],
) -> None:
    match step:
        case Kernel():
            for name in writes(step):
                if name not in p.slots and name not in p.space.offsets:
                    p.allocate(name)
                    if name in p.overwritten and moves_nothing(step, p.overwritten[name], name):
                        p.left_out.add(step.name)
                        return
            names = operands(step)
            begin = begins.get(step.name, (0,) * len(names))
            pointers = tuple(map(p.pointer, names, begin))
            sizes = p.integers([Index.of(symbol) for symbol in size_symbols(step)])
            grid = p.integers(grids.get(step.name, ()))
            told = p.watched(step, begin), p.origin(step)
            p.steps.append(Launch(functions[step.name], pointers, sizes, True, *told, grid))
        case View(name, base, offset):
            shape, strides = p.layout(name)
            p.steps.append(ViewOf(p.slot(name), p.slot(base), shape, strides, p.integer(offset)))
        case Extern(operator, args, kwargs, outputs, several, _):
            values = tuple(p.argument(value) for value in args)
            named = tuple((name, p.argument(value)) for name, value in kwargs)
            cost = library_bytes(step, p.table), library_flops(step, p.table)
            where = next((p.table[each].device for each in (*writes(step), *reads(step)) if p.table[each].device), "")
            if p.takes_memory(step):
                (name,) = writes(step)
                p.allocate(name)
                named = (*named, ("out", Slot(p.slot(name))))
                p.steps.append(ExternCall(OUT_VARIANTS[operator], values, named, (None,), (None,), False, *cost))
                return
            targets = tuple(map(p.target, outputs))
            expected = tuple(p.expected(output) for output in outputs)
            p.steps.append(ExternCall(operator, values, named, targets, expected, several, *cost, where))
            p.read_sizes(writes(step))
