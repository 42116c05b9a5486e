"""The end of a replacement that breaks: the breaking instruction, and the calls of the resume functions behind it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from types import CodeType, FrameType

from onegraph import _C
from onegraph.capture.bytecode import Bytecode, Instr, decode_once, encode
from onegraph.capture.bytecode.assembler import Assembler
from onegraph.capture.bytecode.flow import stack_effect
from onegraph.capture.bytecode.ops import OPCODES
from onegraph.capture.interp.tracebacks import pass_through
from onegraph.capture.pyobject.exact_types import isinstance
from onegraph.capture.resume.continuation import Continuation, Exit, Handled
from onegraph.capture.resume.instruction_rest import taken_by
from onegraph.capture.resume.resume_function import call, call_with, callable_pair, release


def splice(code: CodeType, continuation: Continuation, root: CodeType) -> CodeType:
    """Replace the return of the residual code, whose values are in a tuple, by what follows the break.

    The code returns what is to be called next. What the breaking instruction raises is at its own place in the program:
    the code has the file and the name of the function that it is in.
    """
    at = continuation.code
    line = root.co_firstlineno if root.co_filename == at.co_filename else at.co_firstlineno
    code = code.replace(co_filename=at.co_filename, co_name=at.co_name, co_qualname=at.co_qualname, co_firstlineno=line)
    bytecode = decode_once(code)
    residual = tuple(Instr(i.op, i.arg, i.target, i.offset, (line, line, None, None)) for i in bytecode.instrs)
    bytecode = Bytecode(code, residual, bytecode.handlers)
    out = Assembler()
    first = max(index for index, instr in enumerate(residual) if instr.op == "RETURN_VALUE")
    for index in range(first):
        out.mark(index)
        out.copy(bytecode, index)
    out.mark(first)
    Ending(continuation, out, code.co_varnames).write()
    made = out.finish(code)
    named = [i.arg for i in made.instrs[first:] if OPCODES[i.op].argument == ("variable",)]
    return encode(made, co_varnames=tuple(dict.fromkeys((*code.co_varnames, *named))))


class Ending:
    """The instructions behind the residual code.

    The variables `done` let go of their values: what the program has dropped does not live longer.
    """

    def __init__(self, continuation: Continuation, out: Assembler, done: Sequence[str]) -> None:
        self.continuation = continuation
        self.out = out
        self.done = done

    def write(self) -> None:
        continuation, out = self.continuation, self.out
        out.position = continuation.instruction.position
        names = [value_name(number) for number in range(len(continuation.values))]
        out.put("UNPACK_SEQUENCE", len(names))
        out.put_all([*(Instr("STORE_FAST", name) for name in names), *release(self.done)])
        instruction = self._rebuild_stack()
        out.put_all(release(self._spent()))
        if "reads" in OPCODES[instruction.op].marks and instruction.arg in self.done:
            out.put("DELETE_FAST", instruction.arg)
        depth, low = len(continuation.stack), continuation.depth_when_raising
        caught = ("raising", low, False) if continuation.raising is not None or continuation.passed else None
        jumping = None if continuation.jumping is None else "jumping"
        out.put(instruction.op, instruction.arg, jumping, caught)
        if continuation.following is not None:
            self._call(continuation.following, depth + stack_effect(continuation.instruction))
        if continuation.jumping is not None:
            out.mark("jumping")
            self._call(continuation.jumping, depth + stack_effect(instruction, jump=True))
        if caught is not None:
            out.mark("raising")
            if continuation.passed:
                self._note_passed(continuation.passed)
            if continuation.raising is not None:
                self._call(continuation.raising, low + 1)
            else:
                out.put("RERAISE", 0)

    def _rebuild_stack(self) -> Instr:
        """Put the stack before the breaking instruction back; the instruction, or what has its effect."""
        stack, instruction = list(self.continuation.stack), self.continuation.instruction
        if instruction.op not in ("CALL", "CALL_KW"):
            self._load(stack)
            return instruction
        # What is called may let go of what it is called with.
        start = len(stack) - taken_by(instruction)
        operands = [slot for slot in stack[start:] if slot is not None]
        self._load(stack[:start])
        self.out.put_all(callable_pair(Instr("LOAD_CONST", _C.hand_over)))
        self._load(operands)
        self.out.put("BUILD_LIST", len(operands))
        named = [Instr("LOAD_CONST", instruction.arg[1])] if instruction.op == "CALL_KW" else []
        self.out.put_all(named)
        return replace(instruction, op="CALL", arg=1 + len(named))

    def _load(self, slots: Sequence[int | Handled | None]) -> None:
        for slot in slots:
            match slot:
                case None:
                    self.out.put("PUSH_NULL")
                case Handled(number):
                    name = value_name(number)
                    self.out.put_all([Instr("LOAD_FAST", name), Instr("PUSH_EXC_INFO"), Instr("POP_TOP")])
                case number:
                    self.out.put("LOAD_FAST", value_name(number))

    def _spent(self) -> list[str]:
        """The values that nothing but the stack needs from here on."""
        ways = (self.continuation.following, self.continuation.jumping, self.continuation.raising)
        needed = {n for way in ways if way is not None for n in (way.function, *way.leading, *way.values)}
        slots = (slot.value if isinstance(slot, Handled) else slot for slot in self.continuation.stack)
        return [value_name(n) for n in dict.fromkeys(slots) if n is not None and n not in needed]

    def _note_passed(self, frames: tuple[FrameType, ...]) -> None:
        """Put entries for these frames into the traceback of the exception on the stack."""
        self.out.put("STORE_FAST", "raised_")
        self.out.put_all(call_with(partial(pass_through, frames), ["raised_"]))
        self.out.put("DELETE_FAST", "raised_")

    def _call(self, way: Exit, depth: int) -> None:
        """Take the native stack apart, and return what has the resume function called."""
        base = depth - len(way.results)
        taken: list[str] = []
        for index in range(depth - 1, -1, -1):
            slot = self.continuation.stack[index] if index < len(self.continuation.stack) else None
            if index >= base and way.results[index - base]:
                taken.append(f"result{index}_")
                self.out.put("STORE_FAST", taken[-1])
            elif isinstance(slot, Handled):
                self.out.put("POP_EXCEPT")
            else:
                self.out.put("STORE_FAST_MAYBE_NULL", "null_")
        names = [value_name(number) for number in (way.function, *way.leading)]
        names += [*reversed(taken), *(value_name(number) for number in way.values)]
        values = [value_name(number) for number in range(len(self.continuation.values))]
        # The frame of a replacement lives until the tail calls have ended; what they drop must not live on in it.
        self.out.put_all([*call(Instr("LOAD_CONST", _C.TailCall), names), *release([*values, *taken])])
        self.out.put("RETURN_VALUE")


def value_name(number: int) -> str:
    return f"value{number}_"
