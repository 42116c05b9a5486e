"""Class bodies as functions: a resume function has fast locals, so its class body has its namespace in one of them.

LOAD_NAME a                 namespace['a'], or where that raises KeyError the global a
STORE_NAME a                namespace['a'] = ...
DELETE_NAME a               del namespace['a'], or where that fails NameError
"""

from __future__ import annotations

from functools import partial
from inspect import CO_NEWLOCALS, CO_OPTIMIZED

from onegraph.base.dataclass import dataclass
from onegraph.capture.bytecode import FREE_MARK, NULL_FIRST, Bytecode, free_names
from onegraph.capture.bytecode.assembler import Assembler, Caught, caught_at
from onegraph.capture.bytecode.flow import stack_depths
from onegraph.capture.bytecode.frame import NAMESPACE
from onegraph.capture.bytecode.instruction import Instr, derived


@dataclass(frozen=True, slots=True)
class Body:
    """The bytecode of a class body as that of a function.

    `moved` says where the instructions of the original are in it: of several, where the one is that may call a method.
    """

    bytecode: Bytecode
    moved: tuple[int, ...]


@derived
def as_function(bytecode: Bytecode) -> Body | None:
    """The class body as a function; None where two variables of one name cannot be told apart."""
    if any(name.endswith(FREE_MARK) for name in free_names(bytecode.code)):
        return None
    out, depths = Assembler(), stack_depths(bytecode)
    moved = []
    for index, instr in enumerate(bytecode.instrs):
        out.mark(index)
        out.position = instr.position
        out.caught = caught_at(bytecode, index)
        moved.append(write(out, bytecode, index, depths[index] or 0))
    code = bytecode.code
    return Body(out.finish(code.replace(co_flags=code.co_flags | CO_OPTIMIZED | CO_NEWLOCALS)), tuple(moved))


def write(out: Assembler, bytecode: Bytecode, index: int, depth: int) -> int:
    """Write what an instruction does, on a stack of this depth; where the part of it is that may call a method."""
    instr = bytecode.instrs[index]
    following = bytecode.instrs[index + 1].op if index + 1 < len(bytecode.instrs) else ""
    match instr.op:
        case "STORE_NAME":
            return subscript(out, instr, "STORE_SUBSCR")
        case "LOAD_NAME":
            return load(out, instr, Instr("LOAD_GLOBAL", instr.arg), depth)
        case "DELETE_NAME":
            return delete(out, instr, depth)
        case "LOAD_LOCALS" if following.startswith("LOAD_FROM_DICT"):
            return out.put("NOP")
        case "LOAD_LOCALS":
            return out.put("LOAD_FAST", NAMESPACE)
        case "LOAD_FROM_DICT_OR_DEREF":
            return load(out, instr, Instr("LOAD_DEREF", instr.arg), depth - 1)
        case "LOAD_FROM_DICT_OR_GLOBALS":
            return load(out, instr, Instr("LOAD_GLOBAL", instr.arg), depth - 1)
        case "SETUP_ANNOTATIONS":
            at = load(out, Instr(instr.op, "__annotations__"), Instr("BUILD_MAP", 0), depth)
            subscript(out, Instr(instr.op, "__annotations__"), "STORE_SUBSCR")
            return at
        case _:
            return out.copy(bytecode, index)


def subscript(out: Assembler, instr: Instr, op: str, caught: Caught | None = None) -> int:
    """Get, set or delete the item of the namespace that has the instruction's name."""
    out.put("LOAD_FAST", NAMESPACE)
    out.put("LOAD_CONST", instr.arg)
    return out.put(op, caught=caught)


def load(out: Assembler, instr: Instr, otherwise: Instr, depth: int) -> int:
    """The item of the namespace, or what the instruction `otherwise` gives."""
    missing, other, cleanup, end = object(), object(), object(), object()
    at = subscript(out, instr, "BINARY_SUBSCR", (missing, depth, False))
    out.put("JUMP", to=end)
    out.mark(missing)
    out.put("PUSH_EXC_INFO")
    out.put("LOAD_CONST", KeyError)
    out.put("CHECK_EXC_MATCH")
    out.put("POP_JUMP_IF_FALSE", to=other)
    out.put("POP_TOP")
    out.put("POP_EXCEPT")
    out.put(otherwise.op, otherwise.arg)
    out.put("JUMP", to=end)
    out.mark(other)
    out.put("RERAISE", 0, caught=(cleanup, depth + 1, True))
    out.mark(cleanup)
    out.put("COPY", 3)
    out.put("POP_EXCEPT")
    out.put("RERAISE", 1)
    out.mark(end)
    return at


def delete(out: Assembler, instr: Instr, depth: int) -> int:
    """Delete the item of the namespace."""
    missing, end = object(), object()
    at = subscript(out, instr, "DELETE_SUBSCR", (missing, depth, False))
    out.put("JUMP", to=end)
    out.mark(missing)
    out.put("PUSH_EXC_INFO")
    out.put("POP_TOP")
    out.put("POP_EXCEPT")
    error = partial(NameError, f"name '{instr.arg}' is not defined", name=instr.arg)
    for each in (Instr("LOAD_CONST", error), Instr("PUSH_NULL"))[:: -1 if NULL_FIRST else 1]:
        out.put(each.op, each.arg)
    out.put("CALL", 0)
    out.put("RAISE_VARARGS", 1)
    out.mark(end)
    return at
