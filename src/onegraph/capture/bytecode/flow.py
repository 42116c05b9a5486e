"""Control and data flow over normal form: successors, stack depth and contents, live and bound names."""

from __future__ import annotations

from inspect import CO_VARARGS, CO_VARKEYWORDS

from onegraph.capture.bytecode.instruction import Bytecode, Handler, Instr, derived
from onegraph.capture.bytecode.opcode import KINDS
from onegraph.capture.bytecode.ops import OPCODES


def stack_effect(instr: Instr, jump: bool = False) -> int:
    """By how much the instruction changes the depth of the stack."""
    takes, gives = OPCODES[instr.op].slots(instr.arg, jump)
    return len(gives) - len(takes)


def falls_through(instr: Instr) -> bool:
    """Whether the next instruction may follow."""
    return "ends" not in OPCODES[instr.op].marks


@derived
def live_names(bytecode: Bytecode) -> list[frozenset[str]]:
    """For each instruction, the fast locals that may be read at or behind it before they are written."""
    instrs = bytecode.instrs
    handlers = [bytecode.handler_at(index) for index in range(len(instrs))]
    live: list[frozenset[str]] = [frozenset()] * (len(instrs) + 1)
    changed = True
    while changed:
        changed = False
        for index in range(len(instrs) - 1, -1, -1):
            instr, handler = instrs[index], handlers[index]
            now = live[index + 1] if falls_through(instr) else frozenset()
            if instr.target is not None:
                now |= live[instr.target]
            row = OPCODES[instr.op]
            if row.writes:
                now -= {instr.arg}
            if "reads" in row.marks:
                now |= {instr.arg}
            if handler is not None:
                now |= live[handler.target]
            if now != live[index]:
                live[index], changed = now, True
    return live


@derived
def handled_slots(bytecode: Bytecode) -> list[frozenset[int]]:
    """For each instruction, the stack slots that hold the exception handled before the one handled now."""
    found = slot_kinds(bytecode)
    return [frozenset(slot for slot, kind in enumerate(kinds or ()) if kind == "handled") for kinds in found]


def stack_depths(bytecode: Bytecode) -> list[int | None]:
    """Stack depth before each instruction; None where control never comes."""
    instrs = bytecode.instrs
    depths: list[int | None] = [None] * len(instrs)
    work = [(0, 0)] if instrs else []
    handlers = list(bytecode.handlers)
    while work or handlers:
        while work:
            index, depth = work.pop()
            while index < len(instrs) and depths[index] is None:
                depths[index] = depth
                instr = instrs[index]
                if instr.target is not None:
                    work.append((instr.target, depth + stack_effect(instr, jump=True)))
                if not falls_through(instr):
                    break
                depth += stack_effect(instr)
                index += 1
        entered = [h for h in handlers if any(depth is not None for depth in depths[h.start : h.end])]
        if not entered:
            break
        work = [(h.target, h.depth + h.lasti + 1) for h in entered]
        handlers = [h for h in handlers if h not in entered]
    return depths


def stack_size(bytecode: Bytecode) -> int:
    """The greatest depth, with room for what the native spelling of one instruction adds."""
    size = 0
    for instr, depth in zip(bytecode.instrs, stack_depths(bytecode), strict=True):
        if depth is not None:
            size = max(size, depth, depth + stack_effect(instr))
    return size + 1


@derived
def bound_names(bytecode: Bytecode) -> list[frozenset[str]]:
    """For each instruction, the fast locals that are bound on every way to it."""
    code, instrs = bytecode.code, bytecode.instrs
    count = code.co_argcount + code.co_kwonlyargcount
    count += bool(code.co_flags & CO_VARARGS) + bool(code.co_flags & CO_VARKEYWORDS)
    found: list[frozenset[str] | None] = [None] * len(instrs)
    work = [(0, frozenset(code.co_varnames[:count]))] if instrs else []
    while work:
        index, names = work.pop()
        while index < len(instrs):
            before = found[index]
            names = names if before is None else names & before
            if names == before:
                break
            found[index] = names
            instr, handler = instrs[index], bytecode.handler_at(index)
            if handler is not None:
                work.append((handler.target, names))
            marks = OPCODES[instr.op].marks
            if "unbinds" in marks:
                names -= {str(instr.arg)}
            elif "binds" in marks:
                names |= {str(instr.arg)}
            if instr.target is not None:
                work.append((instr.target, names))
            if not falls_through(instr):
                break
            index += 1
    return [names or frozenset() for names in found]


def slot_kinds(bytecode: Bytecode) -> list[tuple[str, ...] | None]:
    """For each instruction that control comes to, what the slots of the stack hold.

    "value", "null", "handled" (the exception handled before), "lasti" (an instruction to blame), and "unknown" for what
    may be a value or NULL.
    """
    found: list[tuple[str, ...] | None] = [None] * len(bytecode.instrs)
    work: list[tuple[int, tuple[str, ...]]] = [(0, ())] if bytecode.instrs else []
    while work:
        index, kinds = work.pop()
        while index < len(found) and found[index] is None:
            found[index] = kinds
            instr, handler = bytecode.instrs[index], bytecode.handler_at(index)
            if handler is not None:
                work.append((handler.target, (*kinds[: handler.depth], *["lasti"] * handler.lasti, "value")))
            if instr.target is not None:
                work.append((instr.target, kinds_behind(instr, kinds, jump=True)))
            if not falls_through(instr):
                break
            kinds = kinds_behind(instr, kinds)
            index += 1
    return found


def kinds_behind(instr: Instr, kinds: tuple[str, ...], jump: bool = False) -> tuple[str, ...]:
    """What the slots of the stack hold behind an instruction."""
    takes, gives = OPCODES[instr.op].slots(instr.arg, jump)
    below = len(kinds) - len(takes)
    known = dict(zip(takes, kinds[below:], strict=True))
    return (*kinds[:below], *(known.get(name) or KINDS.get(name, "value") for name in gives))


@derived
def raising(bytecode: Bytecode) -> list[bool]:
    """For each instruction, whether every way from it ends in an exception that its frame does not catch."""
    return ways_to_raise(bytecode, is_caught=False)


@derived
def throwing(bytecode: Bytecode) -> list[bool]:
    """For each instruction, whether every way from it comes to an exception, which its frame may catch."""
    return ways_to_raise(bytecode, is_caught=True)


def ways_to_raise(bytecode: Bytecode, is_caught: bool) -> list[bool]:
    """For each instruction, whether every way from it comes to an exception; `is_caught` if its frame may catch it."""
    instrs = bytecode.instrs
    handlers = [bytecode.handler_at(index) for index in range(len(instrs))]
    found = [False] * (len(instrs) + 1)
    changed = True
    while changed:
        changed = False
        for index in range(len(instrs) - 1, -1, -1):
            instr, handler = instrs[index], handlers[index]
            ways = [found[index + 1]] if falls_through(instr) else []
            ways += [] if instr.target is None else [found[instr.target]]
            if instr.op in ("RAISE_VARARGS", "RERAISE"):
                ways = [is_caught or handler is None or found[handler.target] or leaves_block(bytecode, handler)]
            if not found[index] and ways and all(ways):
                found[index] = changed = True
    return found


def leaves_block(bytecode: Bytecode, handler: Handler) -> bool:
    """Whether the handler is that of a `with`: it asks the manager, and few managers swallow an exception."""
    return any(instr.op == "WITH_EXCEPT_START" for instr in bytecode.instrs[handler.target : handler.target + 2])
