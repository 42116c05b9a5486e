"""From a scheduled loop program to an execution plan.

Buffers become slots, integer expressions become registers, equal kernels become one function. A buffer is allocated
before the step that first writes it and freed after the last one that uses it, counting uses through views.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from onegraph.compiler.kernels import operands, size_symbols
from onegraph.ir.index import Call, Index, Symbol
from onegraph.ir.loop import Argument, BufferArgument, Extern, Kernel, Program, Step, View, reads, writes
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
    Pointer,
    Register,
    Return,
    Slot,
    ViewOf,
)
from onegraph.ir.types import TensorType


@dataclass(frozen=True, slots=True)
class KernelUse:
    """A kernel of the program by the function that it became."""

    function: int
    operands: tuple[str, ...]


class Planner:
    """The plan under construction."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.table = program.table()
        self.steps: list[PlanStep] = []
        self.slots: dict[str, int] = {}
        self.registers = 0
        self.symbols: dict[str, Int] = {}
        self.known: dict[Index, Int] = {}

    def slot(self, buffer: str) -> int:
        return self.slots.setdefault(buffer, len(self.slots))

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
            found = self.known[index] = self._polynomial(index)
        return found

    def _polynomial(self, index: Index) -> Int:
        total: Int | None = None
        for monomial, coefficient in index.terms:
            term: Int | None = None
            for atom in monomial:
                factor = self._symbol(atom) if isinstance(atom, Symbol) else self._call(atom)
                term = factor if term is None else self.compute("mul", term, factor)
            if term is None:
                term = coefficient
            elif coefficient != 1:
                term = self.compute("mul", term, coefficient)
            total = term if total is None else self.compute("add", total, term)
        return total if total is not None else 0

    def _symbol(self, symbol: Symbol) -> Int:
        return self.symbols[symbol.name]

    def _call(self, call: Call) -> Int:
        names = {"//": "floordiv", "%": "mod", "min": "min", "max": "max"}
        return self.compute(names[call.op], self.integer(call.a), self.integer(call.b))

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


def plan(program: Program, functions: Mapping[str, int], kernels: tuple[KernelInfo, ...]) -> ExecPlan:
    """The plan of a program whose kernels are flat. `functions` gives each kernel's number in `kernels`."""
    p = Planner(program)
    inputs: list[Slot | Register] = []
    for item in program.inputs:
        if isinstance(item, Symbol):
            register = p.register()
            p.symbols[item.name] = register
            inputs.append(register)
        else:
            inputs.append(Slot(p.slot(item)))
    constants = tuple((p.slot(b.name), b.name) for b in program.buffers if b.constant)
    for size in program.sizes:
        p.symbols[size.name] = p.compute("size", p.slot(size.buffer), size.dim)
    last = _last_uses(program)
    kept = {item for item in program.inputs if isinstance(item, str)} | {b.name for b in program.buffers if b.constant}
    for number, step in enumerate(program.steps):
        _step(p, step, functions)
        ended = [name for name in (*reads(step), *writes(step)) if last.get(name) == number and name not in kept]
        if ended:
            p.steps.append(Free(tuple(p.slot(name) for name in dict.fromkeys(ended))))
    values = tuple(
        None if item is None else p.integer(item) if isinstance(item, Index) else Slot(p.slot(item))
        for item in program.outputs
    )
    p.steps.append(Return(values))
    return ExecPlan(tuple(inputs), constants, len(p.slots), p.registers, kernels, tuple(p.steps))


def _last_uses(program: Program) -> dict[str, int]:
    """The last step that uses each buffer. Outputs have none: they leave the call."""
    last: dict[str, int] = {}
    for number, step in enumerate(program.steps):
        for name in (*reads(step), *writes(step)):
            last[name] = number
    return {name: number for name, number in last.items() if name not in program.outputs}


def _step(p: Planner, step: Step, functions: Mapping[str, int]) -> None:
    match step:
        case Kernel():
            for name in writes(step):
                if name not in p.slots:
                    _allocate(p, name)
            pointers = tuple(Pointer(p.slot(name)) for name in operands(step))
            sizes = p.integers([Index.of(symbol) for symbol in size_symbols(step)])
            p.steps.append(Launch(functions[step.name], pointers, sizes))
        case View(name, base, offset):
            type = p.table[name].type
            shape, strides = p.integers(type.shape), p.integers(type.strides)
            p.steps.append(ViewOf(p.slot(name), p.slot(base), shape, strides, p.integer(offset)))
        case Extern(operator, args, kwargs, outputs, several):
            values = tuple(p.argument(value) for value in args)
            named = tuple((name, p.argument(value)) for name, value in kwargs)
            targets = tuple(Slot(p.slot(name)) if name is not None else None for name in outputs)
            expected = tuple(_layout(p, p.table[name].type) if name is not None else None for name in outputs)
            p.steps.append(ExternCall(operator, values, named, targets, expected, several))


def _allocate(p: Planner, name: str) -> None:
    type = p.table[name].type
    shape, strides = _layout(p, type)
    p.steps.append(Alloc(p.slot(name), type.dtype, shape, strides))


def _layout(p: Planner, type: TensorType) -> tuple[tuple[Int, ...], tuple[Int, ...]]:
    return p.integers(type.shape), p.integers(type.strides)
