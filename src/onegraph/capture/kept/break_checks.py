"""What an entry may say of how the program goes on behind a graph break: only frames with one need this."""

from __future__ import annotations

from typing import Any

from onegraph.capture.bytecode import Bytecode, decode
from onegraph.capture.bytecode.flow import slot_kinds, stack_effect
from onegraph.capture.kept.checks import MOST
from onegraph.capture.resume.continuation import Continuation, Handled
from onegraph.capture.resume.resumed import InnerCall, Jump, Shape, Suspended

#: What the slots of a stack hold, see `bytecode.flow.slot_kinds`.
SLOTS = frozenset({"value", "null", "handled", "lasti"})


def check_shape(bytecode: Bytecode, shape: Shape) -> None:
    """Raise ValueError unless a resume function of this shape goes on where the bytecode can, with the stack there."""
    way, count = shape.way, len(bytecode.instrs)
    match way:
        case Jump(target):
            require(0 <= target < count, "it goes on at no instruction")
            kinds = slot_kinds(bytecode)[target] or ()
            require(len(kinds) == len(shape.kinds), "the stack is another")
            fits = all(map(may_hold, kinds, shape.kinds))
            require(fits, "the stack is another")
        case InnerCall(leading, arguments, at):
            require(0 <= at < count and 0 <= leading <= MOST and 0 <= arguments <= MOST, "there is no such call")
        case Suspended(at):
            require(0 <= at < count - 1, "it waits at no instruction")
    exceptions = shape.kinds.count("handled")
    require(
        set(shape.kinds) <= SLOTS and shape.handled == exceptions and 0 <= shape.first <= MOST, "the stack is another"
    )


def may_hold(kind: str, given: str) -> bool:
    """Whether a slot of the stack may hold what it is given. An instruction to blame is a number, which is a value."""
    return kind in (given, "unknown") or (kind, given) == ("lasti", "value")


def check_continuation(continuation: Any) -> None:
    """Raise ValueError unless the breaking instruction is one of the code that it is in, and all values are there."""
    require(type(continuation) is Continuation, "there is no continuation")
    instruction, values = continuation.instruction, range(len(continuation.values))
    same = (each for each in decode(continuation.code).instrs if each.op == instruction.op)
    require(any(each.arg == instruction.arg or each.op == "RERAISE" for each in same), "there is no such instruction")
    require(instruction.op != "RERAISE" or instruction.arg == 0, "there is no such instruction")
    numbers = [slot.value if isinstance(slot, Handled) else slot for slot in continuation.stack if slot is not None]
    for way in (continuation.following, continuation.jumping, continuation.raising):
        numbers += () if way is None else (way.function, *way.leading, *way.values)
    require(all(number in values for number in numbers), "a value is not there")
    depth = len(continuation.stack)
    require(
        depth >= -stack_effect(instruction) and 0 <= continuation.depth_when_raising <= depth, "the stack is another"
    )
    require(0 <= continuation.opened <= MOST, "there are no such frames")


def require(condition: bool, what: str) -> None:
    if not condition:
        raise ValueError(f"what follows a graph break: {what}")
