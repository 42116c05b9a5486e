"""Tracebacks of the interpreted program: entries of its own lines in the place of the interpreter's frames."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from types import CodeType, FrameType, FunctionType, TracebackType
from typing import Any

from onegraph.base.dataclass import dataclass
from onegraph.capture.bytecode import LIVE_LOCALS, NULL_FIRST, Bytecode, Instr, encode
from onegraph.capture.bytecode.frame import Frame
from onegraph.capture.bytecode.instruction import Position, derived
from onegraph.capture.pyobject.native_members import TRACEBACK_OF

_GENERATOR = 0x20 | 3
_VARIADIC = 0x04 | 0x08 | 3
#: Where the code of the interpreter is. (It may run with the globals of the program.)
_INTERPRETER = __file__.rpartition("interp")[0]
LASTI = 2  # any instruction of a stand-in has its position
_MARK = "stand-in for an interpreted frame"


class Unkept:
    """What stands for a variable of an interpreted frame: its value may be one of the trace."""

    def __repr__(self) -> str:
        return "<not kept>"


_UNKEPT = Unkept()


@derived
def _stand_in(code: CodeType, file: str, position: Position | None) -> CodeType:
    """A generator's code with the names of `code`, all at one position: its frame stands for the interpreted one.

    Code objects of different files may be equal, so `file` tells them apart.
    """
    ops = [("RETURN_GENERATOR", None), ("POP_TOP", None), ("RESUME", 0), ("LOAD_CONST", None), ("RETURN_VALUE", None)]
    instrs = tuple(Instr(op, arg, None, -1, position) for op, arg in ops)
    return encode(
        Bytecode(code, instrs, ()),
        co_argcount=0, co_posonlyargcount=0, co_kwonlyargcount=0, co_flags=_GENERATOR, co_varnames=code.co_varnames,
        co_cellvars=(), co_freevars=(), co_consts=(None, _MARK), co_names=(), co_filename=file,
    )  # fmt: skip


@derived
def speaking(code: CodeType, file: str, position: Position | None) -> CodeType:
    """Code with the names of `code` that calls its first argument with the others, all at one position."""
    ops = [("RESUME", 0), *([("PUSH_NULL", None), ("LOAD_FAST", "call")][:: 1 if NULL_FIRST else -1])]
    ops += [("LOAD_FAST", "args"), ("LOAD_FAST", "named"), ("CALL_FUNCTION_EX", True), ("RETURN_VALUE", None)]
    instrs = tuple(Instr(op, arg, None, -1, position) for op, arg in ops)
    return encode(
        Bytecode(code, instrs, ()),
        co_argcount=1, co_posonlyargcount=1, co_kwonlyargcount=0, co_flags=_VARIADIC, co_cellvars=(), co_freevars=(),
        co_varnames=("call", "args", "named"), co_consts=(None,), co_names=(), co_filename=file,
    )  # fmt: skip


def frame_object(frame: Frame) -> FrameType:
    """A frame object that stands for the interpreted frame at the instruction that runs."""
    code = frame.bytecode.code
    bound = tuple([name for name in code.co_varnames if name in frame.locals or name in frame.cells])
    return StandIn(code, frame.position, frame.globals, bound).frame()


@dataclass(frozen=True, slots=True)
class StandIn:
    """What a frame object is made of that stands for an interpreted frame; `bound` are its variables with a value."""

    code: CodeType
    position: Position | None
    namespace: dict[str, Any]
    bound: tuple[str, ...]

    def frame(self) -> FrameType:
        function = FunctionType(_stand_in(self.code, self.code.co_filename, self.position), self.namespace)
        made: FrameType = function().gi_frame  # of a suspended generator: it refers to no frame of the interpreter
        if LIVE_LOCALS:  # Python suggests names that are bound
            for name in self.bound:
                made.f_locals[name] = _UNKEPT
        return made


def stands_for(frame: FrameType, codes: Iterable[CodeType]) -> StandIn | None:
    """What a frame object that stands for an interpreted one was made of, whose code is one of these."""
    made = frame.f_code
    facts = made.co_filename, made.co_qualname, made.co_varnames
    code = next((each for each in codes if (each.co_filename, each.co_qualname, each.co_varnames) == facts), None)
    if code is None or not is_stand_in(made):
        return None
    line, end, first, last = list(made.co_positions())[LASTI]
    position = None if line is None else (line, end, first, last)
    return StandIn(code, position, frame.f_globals, tuple(frame.f_locals) if LIVE_LOCALS else ())


def note_frame(raised: BaseException, frame: Frame, again: bool) -> bool:
    """Rewrite the traceback of an exception that leaves an instruction of `frame`; tell if it came from an inner frame.

    Entries of the interpreter itself are left out. With `again` the frame has its entry already.
    """
    kept: list[TracebackType] = []
    entry = TRACEBACK_OF(raised)
    while entry is not None and not is_stand_in(entry.tb_frame.f_code):  # what is behind one is in order already
        if not entry.tb_frame.f_code.co_filename.startswith(_INTERPRETER):
            kept.append(entry)
        entry = entry.tb_next
    inner = first = entry
    for entry in reversed(kept):
        entry.tb_next = first
        first = entry
    if not again:
        position = frame.position
        line = position[0] if position else frame.bytecode.code.co_firstlineno
        first = TracebackType(first, frame_object(frame), LASTI, line)
    TRACEBACK_OF.set(raised, first)
    return inner is not None


def is_stand_in(code: CodeType) -> bool:
    """Whether a traceback's code object stands for an interpreted frame."""
    return len(code.co_consts) == 2 and code.co_consts[1] is _MARK


def stand_ins(entry: TracebackType | None) -> tuple[FrameType, ...]:
    """The frames of a traceback that stand for interpreted ones: the others hold values of the trace."""
    frames = []
    while entry is not None:
        if is_stand_in(entry.tb_frame.f_code):
            frames.append(entry.tb_frame)
        entry = entry.tb_next
    return tuple(frames)


def pass_through(frames: Sequence[FrameType], raised: BaseException) -> BaseException:
    """The exception, with entries of the frames that it leaves, outermost first, before those of its traceback."""
    for frame in reversed(frames):
        TRACEBACK_OF.set(raised, TracebackType(TRACEBACK_OF(raised), frame, LASTI, frame.f_lineno))
    return raised
