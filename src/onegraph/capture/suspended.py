"""Suspended generators that run code of the program when they are dropped: in a `finally`, an `except`, a `with`.

One that a trace makes is dropped in the trace, and its code is interpreted. What nobody can say is when one would be
dropped whose last reference is in a traceback, or in the caller: there the trace breaks.
"""

from __future__ import annotations

import builtins
import gc
from collections.abc import Callable, Iterable, Iterator
from types import BuiltinFunctionType, CodeType, FrameType, FunctionType, GeneratorType, ModuleType
from typing import Any

import torch

from onegraph import _C
from onegraph.capture.bytecode import Bytecode, decode
from onegraph.capture.bytecode.instruction import derived
from onegraph.capture.finishing import taken_by
from onegraph.capture.interp.frame import Frame
from onegraph.capture.interp.machine import Machine
from onegraph.capture.interp.tracebacks import is_stand_in
from onegraph.capture.kinds import isinstance
from onegraph.capture.namespaces import is_of_module
from onegraph.capture.shadows import ATOMS
from onegraph.capture.unread import Unread

#: How deep in containers and objects a generator is looked for, in how many of them, and in how many frames that an
#: exception has left.
DEPTH, MOST, FRAMES = 5, 1000, 200
#: The code of the generators that a trace makes.
INTERPRETED = Machine._drive.__code__
#: Types of values that hold no generator, or too much to look at.
_CLOSED = (torch.Tensor, type, ModuleType, BuiltinFunctionType, CodeType, *ATOMS)


def runs_code(*values: Any) -> bool:
    """Whether a value is, or holds, a generator that runs code of the program when it is dropped."""
    seen: set[int] = set()
    return any(next(waiting_in(value, seen), None) is not None for value in values)


def is_generator(value: Any) -> bool:
    """Whether the value, read or not, is a generator."""
    return type(value.value if type(value) is Unread else value) is GeneratorType


def waiting_in(
    value: Any,
    seen: set[int] | None = None,
    later: bool = False,
    is_watched: Callable[[Any], bool] = lambda _: False,
) -> Iterator[Any]:
    """The generators in a value that run code of the program when they are dropped, except in what was `seen`.

    With `later` also those that wait where they run none, and can come to where they do; and all objects that are
    watched.
    """
    seen = set() if seen is None else seen
    most = len(seen) + MOST
    level: Iterable[Any] = (value,)
    for _ in range(DEPTH):
        held: list[Any] = []
        for each in level:
            if len(seen) > most:
                return
            part = each.value if type(each) is Unread else each
            if issubclass(type(part), _CLOSED) or id(part) in seen:
                continue
            seen.add(id(part))
            if type(part) is dict and is_of_module(part):
                continue
            if is_watched(part):
                yield part
            if type(part) is FunctionType:
                held += (part.__closure__, part.__defaults__, part.__kwdefaults__)
            elif type(part) is not GeneratorType:
                held += held_by_traceback(part) if isinstance(part, BaseException) else gc.get_referents(part)
            elif part.gi_frame is not None:
                inside, waits = contents(part, later)
                held += inside
                if waits:
                    yield part
        level = held


def contents(generator: GeneratorType[Any, Any, Any], later: bool) -> tuple[Iterable[Any], bool]:
    """What a generator holds, and whether it waits in a `try`. One from outside may do so at the next call."""
    if generator.gi_code is INTERPRETED:
        frame = next((each for each in gc.get_referents(generator) if isinstance(each, Frame)), None)
        if frame is None:  # it runs: its frame is one of those of the trace
            return (), False
        waits = waits_protected(frame.bytecode) if later else is_protected(frame.bytecode, frame.ip)
        return held_by(frame), waits and (later or generator.gi_suspended)
    return gc.get_referents(generator), waits_protected(decode(generator.gi_code))


def held_by_traceback(raised: BaseException) -> Iterator[Any]:
    """The variables of the frames that an exception has left, and what it is chained to.

    (To read `f_locals` of a frame keeps its variables alive.)
    """
    entry = raised.__traceback__
    frames: list[FrameType] = []
    while entry is not None and len(frames) < FRAMES:
        frames.append(entry.tb_frame)
        entry = entry.tb_next
    yield from held_by_objects(frames)
    yield from (raised.__context__, raised.__cause__, *raised.args)


def held_by_objects(frames: list[FrameType]) -> Iterator[Any]:
    """What frame objects hold, with those that run in their place or in that of the frames that they stand for."""
    seen: set[int] = set()
    todo: list[Any] = frames
    while todo:
        fresh = {id(each): each for each in todo if id(each) not in seen}
        seen |= fresh.keys()
        rests = [each for each in fresh.values() if type(each) is not FrameType]  # with a list of frames, and a cell
        own = [each for each in fresh.values() if type(each) is FrameType]
        stand_ins = [each for each in own if is_stand_in(each.f_code)]
        held = gc.get_referents(*(each for each in own if not is_stand_in(each.f_code)))
        yield from (part for part in held if type(part) is not _C.Rest)
        todo = [part for part in held if type(part) is _C.Rest] + gc.get_referents(*rests)
        todo += (part for part in gc.get_referents(*stand_ins) if type(part) is FrameType)


def held_by(frame: Frame) -> list[Any]:
    """The values of a frame's variables and stack."""
    return [*dict.values(frame.locals), *frame.stack]


def operands_of(frame: Frame) -> list[Any]:
    """What a frame's call instruction has taken, which the frame that it calls has in its variables."""
    instr = frame.bytecode.instrs[frame.ip]
    return frame.stack[-taken_by(instr) :] if instr.op in ("CALL", "CALL_KW", "CALL_FUNCTION_EX") else []


def is_protected(bytecode: Bytecode, at: int) -> bool:
    """Whether a GeneratorExit that is raised at an instruction runs code of the program."""
    handler = bytecode.handler_at(at)
    while handler is not None:
        target = bytecode.instrs[handler.target]
        if target.op == "CALL_INTRINSIC_1" and target.arg == "STOPITERATION_ERROR":
            return False
        again = handler.target if target.op == "CLEANUP_THROW" else raised_again(bytecode, handler.target)
        if again is None:
            return True
        handler = bytecode.handler_at(again)
    return False


def raised_again(bytecode: Bytecode, at: int) -> int | None:
    """Where the handler at an index raises a GeneratorExit again, if its clauses name only other builtin exceptions."""
    instrs = bytecode.instrs
    if [instr.op for instr in instrs[at : at + 3]] == ["COPY", "POP_EXCEPT", "RERAISE"]:  # the end of another handler
        return at + 2
    if instrs[at].op != "PUSH_EXC_INFO":
        return None
    at += 1
    while instrs[at].op != "RERAISE":
        first = at
        while instrs[at].op == "LOAD_GLOBAL" and is_builtin_error(instrs[at].arg):
            at += 1
        at += instrs[at].op == "BUILD_TUPLE"
        jump = instrs[at + 1].target
        if at == first or instrs[at].op != "CHECK_EXC_MATCH" or jump is None:
            return None
        at = jump
    return at


def is_builtin_error(name: object) -> bool:
    """Whether this is the name of an exception that a GeneratorExit is not. (Nobody gives them other meanings.)"""
    found = getattr(builtins, str(name), None)
    return isinstance(found, type) and issubclass(found, Exception)


@derived
def waits_protected(bytecode: Bytecode) -> bool:
    """Whether the code of a generator yields in a `try` or a `with`."""
    return any(instr.op == "YIELD_VALUE" and is_protected(bytecode, at) for at, instr in enumerate(bytecode.instrs))
