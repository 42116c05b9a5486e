"""The rest of an instruction as bytecode, to be put in the place of the instruction in a resume function."""

from __future__ import annotations

import builtins
from collections.abc import Callable, Sequence
from types import FunctionType

from onegraph.capture.bytecode import NULL_FIRST, Instr, decode
from onegraph.capture.bytecode.assembler import Assembler, Caught
from onegraph.capture.bytecode.ops import OPCODES
from onegraph.capture.interp.rests import EXHAUSTED, inner


def taken_by(instr: Instr) -> int:
    """How many values an instruction takes from the stack; those that it only looks at are left there."""
    return len(OPCODES[instr.op].replaced(instr.arg)[0])


def argument_names(finish: FunctionType | None) -> tuple[str, ...]:
    """The names of the arguments of a rest's function but for the result."""
    return () if finish is None else finish.__code__.co_varnames[takes_result(finish) : finish.__code__.co_argcount]


def takes_result(finish: FunctionType) -> bool:
    """Whether the rest is a function of the result; otherwise it has `inner()` where the call is."""
    return "inner" not in finish.__code__.co_names


def catches(finish: FunctionType | None) -> bool:
    """Whether the rest goes on behind an exception of the call."""
    return finish is not None and bool(decode(finish.__code__).handlers)


class Call:
    """A call in the making: where its instructions begin, where the last one of them is, which makes it.

    `around` is the handler of the program that is around it; it protects the call and what comes behind.
    """

    def __init__(self, out: Assembler, instrs: Sequence[Instr], around: Caught | None) -> None:
        self.out = out
        self.around = around
        self.begins = self.at = -1
        self._instrs = instrs

    def write(self, caught: Caught | None = None) -> None:
        """Write it, under this handler if there is one."""
        *loading, last = self._instrs
        self.begins = len(self.out)
        self.out.caught = caught
        self.out.put_all(loading)
        self.out.caught = caught or self.around
        self.at = self.out.put(last.op, last.arg)


def write_rest(call: Call, finish: FunctionType | None, instr: Instr, rename: Callable[[str], str], depth: int) -> None:
    """Write the call and what finishes the instruction, on a stack of this depth."""
    if finish is None:
        call.write()
    else:
        inline(call, finish, instr, rename, depth)
    call.out.caught = call.around
    call.out.put_all(given(instr))


def inline(call: Call, finish: FunctionType, instr: Instr, rename: Callable[[str], str], depth: int) -> None:
    """The body of the function behind the call, or with the call in the place of `inner()`."""
    source, out = decode(finish.__code__), call.out
    known = {**vars(builtins), **finish.__globals__}
    loads = [known[str(each.arg)] if each.op == "LOAD_GLOBAL" else None for each in source.instrs]
    place = -1 if takes_result(finish) else loads.index(inner)
    of_call = set() if place < 0 else {place - NULL_FIRST, place - NULL_FIRST + 1, place - NULL_FIRST + 2}
    for index, each in enumerate(source.instrs):
        handler = source.handler_at(index)
        caught = None if handler is None else (("rest", handler.target), handler.depth + depth, handler.lasti)
        out.mark(("rest", index))
        out.caught = caught or (call.around if call.at >= 0 else None)
        match each.op:
            case "RESUME" if place < 0:
                call.write(caught)
                out.put("STORE_FAST", rename(finish.__code__.co_varnames[0]))
            case "RESUME":
                pass
            case _ if index in of_call:
                if index == place:
                    call.write(caught)
            case "LOAD_GLOBAL":
                if loads[index] is not EXHAUSTED:
                    out.put("LOAD_CONST", instr.arg if each.arg == "ARGUMENT" else loads[index])
            case "RETURN_VALUE" if loads[index - 1] is EXHAUSTED:
                out.put("POP_TOP")
                out.put("JUMP", to=instr.target)
            case "RETURN_VALUE":
                out.put("JUMP", to=("rest", len(source.instrs)))
            case op if OPCODES[op].argument == ("variable",):
                out.put(op, rename(str(each.arg)))
            case op:
                out.put(op, each.arg, None if each.target is None else ("rest", each.target))
    out.mark(("rest", len(source.instrs)))


def given(instr: Instr) -> list[Instr]:
    """What is done with the value of the rest, so that the stack is as behind the instruction."""
    match OPCODES[instr.op].replaced(instr.arg)[1]:
        case _ if instr.op == "UNPACK_SEQUENCE":
            return [instr]
        case _ if instr.op == "CONTAINS_OP" and instr.arg:
            return [Instr("UNARY_NOT")]
        case []:
            return [Instr("POP_TOP")]
        case ["callable", "self"]:
            return [Instr("PUSH_NULL"), *[Instr("SWAP", 2)] * NULL_FIRST]
        case [_]:
            return []
        case several:
            return [Instr("UNPACK_SEQUENCE", len(several))]
