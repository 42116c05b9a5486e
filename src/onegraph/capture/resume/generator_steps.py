"""Generators in steps: what a generator does from one yield to the next is a function, captured as any other.

A suspended frame cannot be captured. So a generator that outlives a trace runs, in the place of its own bytecode:

    the yields of the original, with the handlers around them
    behind each yield           call step(stack..., variables...), the original's bytecode from there to the next yields
                                unpack (place, values): the stack at the yield it has come to, and what it has written
                                jump to that yield, or return

It is a generator as before, with its own frame, variables and iterator of `yield from`. What is thrown into it is
handled by its own bytecode, up to the next yield.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from inspect import CO_ASYNC_GENERATOR, CO_GENERATOR
from types import CodeType

from onegraph import _C
from onegraph.base.dataclass import dataclass
from onegraph.capture.bytecode import Bytecode, Instr, free_names
from onegraph.capture.bytecode.assembler import Assembler
from onegraph.capture.bytecode.flow import bound_names, falls_through, live_names, slot_kinds
from onegraph.capture.bytecode.instruction import derived
from onegraph.capture.bytecode.ops import OPCODES
from onegraph.capture.pyobject.native_members import TRACEBACK_OF
from onegraph.capture.resume.resume_function import call_with, callable_pair, rebuild_stack, resume_code
from onegraph.capture.resume.resumed import Jump, Shape

#: More instructions than this, in all steps together, are not worth it.
LIMIT = 20_000
_STEP, _PLACE, _NULL_SLOT, _RAISED = ".step", ".place", ".null", ".raised"


class UNBOUND:
    """Stands for a variable that is not bound, between a generator and its steps."""


@dataclass(frozen=True, slots=True)
class Stepped:
    """A generator's bytecode that runs in steps, and where the instructions of the original are in it."""

    bytecode: Bytecode
    moved: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Original:
    """What is known of a generator's own bytecode: stack, bound variables, and those that are no cells."""

    bytecode: Bytecode
    kinds: list[tuple[str, ...] | None]
    bound: list[frozenset[str]]
    names: frozenset[str]
    cells: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Step:
    """The code between an instruction and the next places, with what it is called with and what it gives."""

    code: CodeType
    receiver: str | None
    passed: tuple[str, ...]
    written: tuple[str, ...]
    places: tuple[int, ...]


class StepAssembler(Assembler):
    """Also takes stacks apart, and knows of variables that are not bound."""

    def load(self, name: str, bound: bool, depth: int) -> None:
        """The variable, or `UNBOUND` for one that is not bound; `depth` slots are on the stack."""
        if bound:
            self.put("LOAD_FAST", name)
            return
        unbound, end = (object(), object())
        self.put("LOAD_FAST_CHECK", name, caught=(unbound, depth, False))
        self.put("JUMP", to=end)
        self.mark(unbound)
        self.put("POP_TOP")
        self.put("LOAD_CONST", UNBOUND)
        self.mark(end)

    def unbind(self, name: str) -> None:
        """Unbind the variable if it holds `UNBOUND`."""
        end = object()
        self.put("LOAD_FAST", name)
        self.put("LOAD_CONST", UNBOUND)
        self.put("IS_OP", False)
        self.put("POP_JUMP_IF_FALSE", to=end)
        self.put("DELETE_FAST", name)
        self.mark(end)

    def take_apart(self, kinds: Sequence[str]) -> tuple[list[str], list[str]]:
        """Move the slots of the stack into variables: those of values and those of handled exceptions."""
        values, exceptions = [], []
        for index in range(len(kinds) - 1, -1, -1):
            match kinds[index]:
                case "value":
                    values.append(f".slot{index}")
                    self.put("STORE_FAST", values[-1])
                case "handled":
                    exceptions.append(f".handled{index}")
                    self.put_all(call_with(sys.exception, []))
                    self.put("STORE_FAST", exceptions[-1])
                    self.put("POP_EXCEPT")
                case "null":
                    self.put("STORE_FAST_MAYBE_NULL", _NULL_SLOT)
                case _:
                    self.put("POP_TOP")
        return values[::-1], exceptions[::-1]


@derived
def in_steps(bytecode: Bytecode) -> Stepped | None:
    """The bytecode of a generator in steps; None where a place in it cannot be left and come back to."""
    code, instrs = bytecode.code, bytecode.instrs
    if not code.co_flags & CO_GENERATOR or code.co_flags & CO_ASYNC_GENERATOR:
        return None
    cells = tuple(sorted((*code.co_cellvars, *free_names(code))))
    names = frozenset(code.co_varnames) - set(cells)
    original = Original(bytecode, slot_kinds(bytecode), bound_names(bytecode), names, cells)
    places, entries = [], [next(i for i, instr in enumerate(instrs) if instr.op == "RETURN_GENERATOR") + 3]
    for index, instr in enumerate(instrs):
        if original.kinds[index] is None:
            continue
        if instr.op == "SEND" and instr.target is not None:
            places.append(index)
            entries.append(instr.target + 1)
        elif instr.op == "YIELD_VALUE" and instrs[index - 1].op != "SEND":
            places.append(index)
            entries.append(index + 2)
    if len(entries) * len(instrs) > LIMIT or any("unknown" in (original.kinds[i] or ()) for i in (*places, *entries)):
        return None
    first = code.co_varnames[0] if "__class__" in code.co_freevars and code.co_argcount else None
    if first is not None and not all(first in original.bound[index] and first in names for index in entries):
        return None
    return generator_of(original, {index: step(original, index, places, first) for index in entries})


def step(original: Original, entry: int, places: Sequence[int], receiver: str | None) -> Step:
    """The function from the instruction at `entry` to the next places, or to the end."""
    bytecode, out = original.bytecode, StepAssembler()
    reached = reachable(bytecode, entry, frozenset(places))
    ends = tuple(index for index in places if index in reached)
    writes = {str(bytecode.instrs[i].arg) for i in reached if OPCODES[bytecode.instrs[i].op].writes}
    written = tuple(sorted(writes & original.names))
    for index in sorted(reached):
        out.mark(index)
        out.position = bytecode.instrs[index].position
        if index in ends:
            arrive(original, out, index, written)
        elif bytecode.instrs[index].op == "RETURN_VALUE":
            for op, arg in (("LOAD_CONST", None), ("SWAP", 2), ("BUILD_TUPLE", 2), ("RETURN_VALUE", None)):
                out.put(op, arg)
        else:
            out.copy(bytecode, index)
    read = live_names(out.finish(bytecode.code))[out.labels[entry]] & original.names
    out.position = bytecode.instrs[entry].position
    out.mark("check")
    for name in sorted(read - original.bound[entry]):
        out.unbind(name)
    out.put("JUMP", to=entry)
    made = out.finish(bytecode.code.replace(co_flags=bytecode.code.co_flags & ~CO_GENERATOR))
    passed = tuple(sorted(({*read, *written}) - {receiver}))
    kinds = original.kinds[entry] or ()
    shape = Shape(kinds, kinds.count("handled"), passed, original.cells, Jump(out.labels["check"]), receiver)
    return Step(resume_code(made, shape), receiver, passed, written, ends)


def arrive(original: Original, out: StepAssembler, index: int, written: Sequence[str]) -> None:
    """Return from a step that has come to the place at `index`."""
    values, exceptions = out.take_apart(original.kinds[index] or ())
    out.put("LOAD_CONST", index)
    for depth, name in enumerate((*values, *exceptions), 1):
        out.load(name, True, depth)
    for depth, name in enumerate(written, 1 + len(values) + len(exceptions)):
        out.load(name, name in original.bound[index], depth)
    out.put("BUILD_TUPLE", len(values) + len(exceptions) + len(written))
    out.put("BUILD_TUPLE", 2)
    out.put("RETURN_VALUE")


def reachable(bytecode: Bytecode, entry: int, places: frozenset[int]) -> frozenset[int]:
    """The instructions that a step comes to; behind a place is another step."""
    reached: set[int] = set()
    work = [entry]
    while work:
        index = work.pop()
        if index in reached:
            continue
        reached.add(index)
        instr, handler = bytecode.instrs[index], bytecode.handler_at(index)
        if index in places:
            continue
        if instr.target is not None:
            work.append(instr.target)
        if handler is not None:
            work.append(handler.target)
        if falls_through(instr):
            work.append(index + 1)
    return frozenset(reached)


def generator_of(original: Original, steps: dict[int, Step]) -> Stepped:
    """The generator's bytecode with a call of a step before each of these instructions."""
    bytecode, out = original.bytecode, StepAssembler()
    moved = []
    for index in range(len(bytecode.instrs)):
        out.mark(index)
        if index in steps:
            call_step(original, out, index, steps[index])
        out.mark(("native", index))
        moved.append(out.labels["native", index])
        out.copy(bytecode, index)
    out.put("LOAD_CONST", None)  # not come to
    out.mark("raised")
    for op, arg in (("STORE_FAST", _RAISED), *((i.op, i.arg) for i in call_with(without_first_entry, [_RAISED]))):
        out.put(op, arg)
    out.put("DELETE_FAST", _RAISED)
    out.put("RERAISE", 0)
    return Stepped(out.finish(bytecode.code), tuple(moved))


def call_step(original: Original, out: StepAssembler, index: int, step: Step) -> None:
    """Call the step that begins at `index`, and go to the place that it has come to."""
    out.position = original.bytecode.instrs[index].position
    values, exceptions = out.take_apart(original.kinds[index] or ())
    if original.cells:
        for name in original.cells:
            out.put("LOAD_CLOSURE", name)
        out.put("BUILD_TUPLE", len(original.cells))
    out.put("LOAD_CONST", step.code)
    out.put("MAKE_FUNCTION")
    if original.cells:
        out.put("SET_FUNCTION_ATTRIBUTE", "closure")
    out.put("STORE_FAST", _STEP)
    out.put_all(callable_pair(Instr("LOAD_CONST", _C.TailCall)))  # keeps no arguments that the step lets go of
    out.put("LOAD_FAST", _STEP)
    first = [] if step.receiver is None else [step.receiver]
    for depth, name in enumerate((*first, *values, *exceptions), 3):
        out.load(name, True, depth)
    for depth, name in enumerate(step.passed, 3 + len(first) + len(values) + len(exceptions)):
        out.load(name, name in original.bound[index], depth)
    for name in (*values, *exceptions, *step.written):
        out.put("LOAD_CONST", None)
        out.put("STORE_FAST", name)
    count = len(first) + len(values) + len(exceptions) + len(step.passed)
    out.put("CALL", 1 + count)
    out.put("STORE_FAST", _STEP)
    out.put_all(callable_pair(Instr("LOAD_CONST", _C.resume)))
    out.put("LOAD_FAST", _STEP)
    out.put("CALL", 1, caught=("raised", 0, False))
    out.put("UNPACK_SEQUENCE", 2)
    out.put("STORE_FAST", _PLACE)
    for place in step.places:
        out.put("LOAD_FAST", _PLACE)
        out.put("LOAD_CONST", place)
        out.put("COMPARE_OP", "==")
        out.put("TO_BOOL")
        out.put("POP_JUMP_IF_TRUE", to=("from", index, place))
    out.put("RETURN_VALUE")
    for place in step.places:
        out.mark(("from", index, place))
        unpack(original, out, place, step.written)


def unpack(original: Original, out: StepAssembler, place: int, written: Sequence[str]) -> None:
    """Put what a step has given where it belongs, and go on at the place that it has come to."""
    kinds = original.kinds[place] or ()
    values = [f".slot{index}" for index, kind in enumerate(kinds) if kind == "value"]
    exceptions = [f".handled{index}" for index, kind in enumerate(kinds) if kind == "handled"]
    out.put("UNPACK_SEQUENCE", len(values) + len(exceptions) + len(written))
    for name in (*values, *exceptions, *written):
        out.put("STORE_FAST", name)
    for name in written:
        if name not in original.bound[place]:
            out.unbind(name)
    out.put_all(rebuild_stack(kinds, values, exceptions))
    for name in (*values, *exceptions):
        out.put("LOAD_CONST", None)
        out.put("STORE_FAST", name)
    out.put("JUMP", to=("native", place))


def without_first_entry(raised: BaseException) -> BaseException:
    """The exception without the entry of the generator that has called a step: the step's is in its place."""
    entry = TRACEBACK_OF(raised)
    TRACEBACK_OF.set(raised, None if entry is None else entry.tb_next)
    return raised
