"""The rest of an instruction as bytecode, to be put in the place of the instruction in a resume function."""

from __future__ import annotations

import builtins
from collections.abc import Callable, Sequence
from types import FunctionType

from onegraph.capture.bytecode import NULL_FIRST, Handler, Instr, decode
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


def finished(
    finish: FunctionType | None, call: Sequence[Instr], instr: Instr, rename: Callable[[str], str]
) -> tuple[list[Instr], list[Handler]]:
    """Instructions that make the call and finish the instruction, and the handlers among them.

    Targets and handlers count from the first of them. A jump that leaves them, at the end of a loop, has the negative
    of its target, less one.
    """
    code, handlers = (list(call), []) if finish is None else inlined(finish, call, instr, rename)
    return [*code, *given(instr)], handlers


def inlined(
    finish: FunctionType, call: Sequence[Instr], instr: Instr, rename: Callable[[str], str]
) -> tuple[list[Instr], list[Handler]]:
    """The body of the function behind the call, or with the call in the place of `inner()`."""
    source = decode(finish.__code__)
    known = {**vars(builtins), **finish.__globals__}
    loads = [known[str(each.arg)] if each.op == "LOAD_GLOBAL" else None for each in source.instrs]
    place = -1 if takes_result(finish) else loads.index(inner)
    of_call = set() if place < 0 else {place - NULL_FIRST, place - NULL_FIRST + 1, place - NULL_FIRST + 2}
    pieces: list[list[Instr]] = []
    for index, each in enumerate(source.instrs):
        match each.op:
            case "RESUME" if place < 0:
                piece = [*call, Instr("STORE_FAST", rename(finish.__code__.co_varnames[0]))]
            case "RESUME":
                piece = []
            case _ if index in of_call:
                piece = list(call) if index == place else []
            case "LOAD_GLOBAL":
                value = instr.arg if each.arg == "ARGUMENT" else loads[index]
                piece = [] if value is EXHAUSTED else [Instr("LOAD_CONST", value)]
            case "RETURN_VALUE" if loads[index - 1] is EXHAUSTED:
                assert instr.target is not None
                piece = [Instr("POP_TOP"), Instr("JUMP", target=-instr.target - 1)]
            case "RETURN_VALUE":
                piece = [Instr("JUMP", target=len(source.instrs))]
            case op if OPCODES[op].argument == ("variable",):
                piece = [Instr(op, rename(str(each.arg)))]
            case op:
                piece = [Instr(op, each.arg, each.target)]
        pieces.append(piece)
    starts = [0]
    for piece in pieces:
        starts.append(starts[-1] + len(piece))
    code = [moved(each, starts) for piece in pieces for each in piece]
    handlers = [Handler(starts[h.start], starts[h.end], starts[h.target], h.depth, h.lasti) for h in source.handlers]
    return code, handlers


def moved(instr: Instr, starts: Sequence[int]) -> Instr:
    if instr.target is None or instr.target < 0:
        return instr
    return Instr(instr.op, instr.arg, starts[instr.target])


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
