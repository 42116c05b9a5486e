"""Control and data flow over normal form: successors, stack depth and contents, live and bound names."""

from __future__ import annotations

from collections.abc import Callable
from inspect import CO_VARARGS, CO_VARKEYWORDS

from onegraph.capture.bytecode.instruction import Bytecode, Instr, derived

_JUMPS = frozenset({"JUMP", "JUMP_NO_INTERRUPT"})
_LEAVES = frozenset({"RETURN_VALUE", "RAISE_VARARGS", "RERAISE"})

_FIXED = {
    -3: "STORE_SUBSCR",
    -2: """STORE_ATTR DELETE_SUBSCR END_ASYNC_FOR LOAD_SUPER_ATTR MAP_ADD MATCH_CLASS""",
    -1: """POP_TOP POP_JUMP_IF_TRUE POP_JUMP_IF_FALSE POP_JUMP_IF_NONE POP_JUMP_IF_NOT_NONE STORE_FAST
    STORE_FAST_MAYBE_NULL STORE_NAME STORE_GLOBAL STORE_DEREF DELETE_ATTR BINARY_SUBSCR BINARY_OP COMPARE_OP IS_OP
    CONTAINS_OP IMPORT_NAME LIST_APPEND LIST_EXTEND SET_ADD SET_UPDATE DICT_UPDATE DICT_MERGE FORMAT_WITH_SPEC
    CALL_INTRINSIC_2 RETURN_VALUE POP_EXCEPT RERAISE END_SEND CLEANUP_THROW SET_FUNCTION_ATTRIBUTE LOAD_SUPER_METHOD""",
    0: """NOP RESUME SWAP COPY_FREE_VARS MAKE_CELL DELETE_FAST DELETE_NAME DELETE_GLOBAL DELETE_DEREF SETUP_ANNOTATIONS
    LOAD_FROM_DICT_OR_DEREF LOAD_FROM_DICT_OR_GLOBALS LOAD_ATTR UNARY_NEGATIVE UNARY_INVERT UNARY_NOT TO_BOOL
    CONVERT_VALUE FORMAT_SIMPLE CALL_INTRINSIC_1 MAKE_FUNCTION JUMP JUMP_NO_INTERRUPT GET_ITER CHECK_EXC_MATCH
    CHECK_EG_MATCH YIELD_VALUE GET_YIELD_FROM_ITER SEND GET_AWAITABLE GET_AITER""",
    1: """COPY PUSH_NULL LOAD_CONST LOAD_FAST LOAD_FAST_CHECK LOAD_FAST_AND_CLEAR LOAD_CLOSURE LOAD_DEREF LOAD_GLOBAL
    LOAD_NAME LOAD_LOCALS LOAD_BUILD_CLASS LOAD_ASSERTION_ERROR IMPORT_FROM LOAD_METHOD GET_LEN MATCH_MAPPING
    MATCH_SEQUENCE MATCH_KEYS FOR_ITER PUSH_EXC_INFO BEFORE_WITH BEFORE_ASYNC_WITH WITH_EXCEPT_START RETURN_GENERATOR
    GET_ANEXT""",
}  # fmt: skip

_EFFECTS: dict[str, int] = {op: effect for effect, ops in _FIXED.items() for op in ops.split()}

_BY_ARGUMENT: dict[str, Callable[..., int]] = {
    **dict.fromkeys(("BUILD_TUPLE", "BUILD_LIST", "BUILD_SET", "BUILD_STRING", "BUILD_SLICE"), lambda n: 1 - n),
    "BUILD_MAP": lambda n: 1 - 2 * n,
    "BUILD_CONST_KEY_MAP": lambda n: -n,
    "UNPACK_SEQUENCE": lambda n: n - 1,
    "UNPACK_EX": lambda n: sum(n),
    "CALL": lambda n: -1 - n,
    "CALL_KW": lambda n: -1 - n[0],
    "CALL_FUNCTION_EX": lambda keywords: -2 - keywords,
    "RAISE_VARARGS": lambda n: -n,
}


def stack_effect(instr: Instr, jump: bool = False) -> int:
    """By how much the instruction changes the depth of the stack."""
    if jump and instr.op == "FOR_ITER":
        return -1
    effect = _EFFECTS.get(instr.op)
    return _BY_ARGUMENT[instr.op](instr.arg) if effect is None else effect


def falls_through(instr: Instr) -> bool:
    """Whether the next instruction may follow."""
    return instr.op not in _LEAVES and instr.op not in _JUMPS


#: Instructions behind which control does not go on.
TERMINATORS = _LEAVES | _JUMPS

_READS = frozenset({"LOAD_FAST", "LOAD_FAST_CHECK", "LOAD_FAST_AND_CLEAR", "LOAD_CLOSURE", "DELETE_FAST"})
_WRITES = frozenset({"STORE_FAST", "STORE_FAST_MAYBE_NULL", "DELETE_FAST"})


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
            if instr.op in _WRITES:
                now -= {instr.arg}
            if instr.op in _READS:
                now |= {instr.arg}
            if handler is not None:
                now |= live[handler.target]
            if now != live[index]:
                live[index], changed = now, True
    return live


@derived
def handled_slots(bytecode: Bytecode) -> list[frozenset[int]]:
    """For each instruction, the stack slots that hold the exception handled before the one handled now."""
    depths = stack_depths(bytecode)
    found: list[frozenset[int] | None] = [None] * len(bytecode.instrs)
    work: list[tuple[int, frozenset[int]]] = [(0, frozenset())] if bytecode.instrs else []
    while work:
        index, slots = work.pop()
        while index < len(found) and found[index] is None:
            found[index] = slots
            instr, depth, handler = bytecode.instrs[index], depths[index], bytecode.handler_at(index)
            if handler is not None:
                work.append((handler.target, frozenset(slot for slot in slots if slot < handler.depth)))
            if depth is not None and instr.op == "PUSH_EXC_INFO":
                slots |= {depth - 1}
            elif depth is not None and instr.op == "POP_EXCEPT":
                slots -= {depth - 1}
            elif depth is not None and instr.op == "SWAP":  # below a value that a handler returns
                places = {depth - 1: depth - instr.arg, depth - instr.arg: depth - 1}
                slots = frozenset(places.get(slot, slot) for slot in slots)
            if instr.target is not None:
                work.append((instr.target, slots))
            if not falls_through(instr):
                break
            index += 1
    return [slots or frozenset() for slots in found]


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
            if instr.op in ("DELETE_FAST", "LOAD_FAST_AND_CLEAR", "STORE_FAST_MAYBE_NULL"):
                names -= {str(instr.arg)}
            elif instr.op == "STORE_FAST":
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
    depth = len(kinds) + stack_effect(instr, jump)
    match instr.op:
        case "PUSH_NULL":
            return (*kinds, "null")
        case "PUSH_EXC_INFO":
            return (*kinds[:-1], "handled", "value")
        case "LOAD_METHOD" | "LOAD_SUPER_METHOD":
            return (*kinds[: depth - 2], "unknown", "unknown")
        case "LOAD_FAST_AND_CLEAR" | "LOAD_CLOSURE":
            return (*kinds, "unknown")
        case "COPY":
            return (*kinds, kinds[-int(str(instr.arg))])
        case "SWAP":
            other = len(kinds) - int(str(instr.arg))
            return (*kinds[:other], kinds[-1], *kinds[other + 1 : -1], kinds[other])
        case "CALL" | "CALL_KW" | "CALL_FUNCTION_EX":
            return (*kinds[: depth - 1], "value")
        case _:
            return (*kinds[:depth], *["value"] * (depth - len(kinds)))
