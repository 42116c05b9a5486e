"""Resume functions: a frame's own bytecode behind a prologue that puts its stack and its handled exceptions back.

A break inside of a resume function is one of the function that it resumes: its resume functions are made from the
original bytecode. Each is made once for the place and the shape of the stack, so that a loop with a break in its body
comes back to code that is compiled already.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace
from inspect import CO_VARARGS, CO_VARKEYWORDS
from types import CellType, CodeType, FunctionType
from typing import Any, assert_never

from onegraph import _C
from onegraph.base.dataclass import dataclass
from onegraph.capture.bytecode import (
    FREE_MARK,
    NULL_FIRST,
    Bytecode,
    Instr,
    encode,
    forget,
    forget_dead_code,
    remember,
)
from onegraph.capture.bytecode.assembler import Assembler, caught_at
from onegraph.capture.bytecode.decode import COUNTED_LOCAL
from onegraph.capture.bytecode.frame import Frame
from onegraph.capture.bytecode.instruction import forget_derived
from onegraph.capture.heap.type_rules import Rebuilding
from onegraph.capture.pyobject.exact_types import isinstance
from onegraph.capture.resume.class_bodies import as_function
from onegraph.capture.resume.instruction_rest import Call, argument_names, given, write_rest
from onegraph.capture.resume.resumed import RESUMED, InnerCall, Jump, Resumed, Shape, Suspended, Way


@dataclass(frozen=True, slots=True)
class Slots:
    """A frame's stack as a resume function rebuilds it: kinds of the slots, and the values of those that have one."""

    kinds: tuple[str, ...]  # "value", "null", "handled", "lasti"
    numbers: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ResumeFunction:
    """A function to be made behind the break: its code, and the cells that it closes over."""

    code: CodeType
    namespace: dict[str, Any]
    cells: tuple[CellType, ...]


#: How many functions are kept to be used again: each holds the globals of its module.
FUNCTIONS = 1 << 12
#: How many are known before the dead ones among them are looked for; then twice as many as were found to live.
LIMIT = 256
_limit = [LIMIT]
#: What resumes what is known for as long as somebody can run it: compiled code, and frames that are traced.
_made: dict[tuple[Bytecode, Shape], Resumed] = {}
_functions: dict[tuple[int, int], FunctionType] = {}  # of code without free variables, by code and globals


#: How many references the tables themselves hold to what nobody else does, with those of the count that is taken.
_CODE, _MADE, _RESUMED = COUNTED_LOCAL + 1, COUNTED_LOCAL + 2, COUNTED_LOCAL + 2


def forget_dead() -> None:
    """Forget the resume functions that nobody can call any more: all that is known of them is known here."""
    forget_derived()
    _functions.clear()
    for key in list(_made):
        resumed = _made[key]
        made, code = resumed.made, resumed.made.code
        counts = sys.getrefcount(code), sys.getrefcount(made), sys.getrefcount(resumed)
        if counts == (_CODE, _MADE, _RESUMED):
            _made.pop(key, None)
            RESUMED.pop(id(code), None)
            forget(made)
    forget_dead_code()


def resuming(bytecode: Bytecode) -> Resumed | None:
    """What this bytecode resumes, if it is that of a resume function."""
    resumed = RESUMED.get(id(bytecode.code))
    return resumed if resumed is not None and resumed.made is bytecode else None


def original_place(frame: Frame) -> tuple[Bytecode, int]:
    """The bytecode that a frame runs or resumes, and the index of the running instruction in it."""
    body = as_function(frame.bytecode) if frame.namespace is not None else None
    if body is not None:
        return body.bytecode, body.moved[frame.ip]
    return original(frame.bytecode, frame.ip)


def original(bytecode: Bytecode, index: int) -> tuple[Bytecode, int]:
    resumed = resuming(bytecode)
    if resumed is None:
        return bytecode, index
    if index >= resumed.shift:
        return original(resumed.bytecode, index - resumed.shift)
    assert isinstance(resumed.way, InnerCall), "nothing else in a prologue can break"
    if resumed.way.finish is None and not given(resumed.bytecode.instrs[resumed.way.at]):
        return resumed.bytecode, resumed.way.at
    return bytecode, index  # in the middle of an instruction


def in_prologue(frame: Frame) -> bool:
    """Whether a resume function is still putting the stack of its frame back."""
    resumed = resuming(frame.bytecode)
    if resumed is None:
        return False
    return frame.ip < (resumed.call if isinstance(resumed.way, InnerCall) else resumed.shift)


def at_inner_call(frame: Frame) -> Resumed | None:
    """What a frame resumes, if it is that of a resume function which calls that of the frame it had called."""
    resumed = resuming(frame.bytecode)
    is_call = resumed is not None and isinstance(resumed.way, InnerCall) and frame.ip == resumed.call
    return resumed if is_call else None


def resume_function(bytecode: Bytecode, frame: Frame, shape: Shape) -> ResumeFunction:
    """The resume function of this shape for a frame of this bytecode."""
    cells = tuple(frame.cells[name] for name in shape.cells)
    return ResumeFunction(resume_code(bytecode, shape), frame.globals, cells)


def resume_code(bytecode: Bytecode, shape: Shape) -> CodeType:
    """The code of the resume function of this shape."""
    key = bytecode, shape
    found = _made.get(key)
    if found is None:
        if len(_made) >= _limit[0]:
            forget_dead()
            _limit[0] = max(LIMIT, 2 * len(_made))
        found = _made[key] = build(*key)
        RESUMED[id(found.made.code)] = found
    return found.made.code


def build(bytecode: Bytecode, shape: Shape) -> Resumed:
    """The bytecode behind a prologue."""
    way, taken, out = shape.way, bytecode.code.co_varnames, Assembler()
    turn = next(f"_{n}" for n in range(len(taken) + 1) if not any(name.endswith(f"_{n}") for name in taken))
    stack_names = [f"stack{index}{turn}" for index, kind in enumerate(shape.kinds) if kind == "value"]
    exception_names = [f"handled{index}{turn}" for index in range(shape.handled)]
    on_stack = [*stack_names[-1:], *stack_names[:-1]] if shape.top_first else stack_names
    results = [f"result{index}{turn}" for index in range(shape.first)]
    inner = inner_arguments(way, turn) if isinstance(way, InnerCall) else []
    needed = [f"rest_{name}{turn}" for name in finish_arguments(way)]
    receiver = [] if shape.receiver is None else [shape.receiver if shape.receiver in taken else f"self{turn}"]
    parameters = [*receiver, *results, *on_stack, *exception_names, *shape.names, *needed, *inner]
    own = tuple(name for name in shape.cells if name in bytecode.code.co_cellvars and name not in receiver)
    at, target = place(bytecode, way)
    out.position = bytecode.instrs[at].position
    if shape.cells:
        out.put("COPY_FREE_VARS", len(shape.cells))
    for name in own:  # what an empty cell raises tells those of the function from those around it
        out.put("LOAD_CLOSURE", name + FREE_MARK)
        out.put("STORE_FAST_MAYBE_NULL", name)
    if isinstance(way, Suspended):
        out.put_all([Instr("RETURN_GENERATOR"), Instr("POP_TOP")])
    out.put("RESUME", 0)
    out.put_all([*rebuild_stack(shape.kinds, stack_names, exception_names), *release([*stack_names, *exception_names])])
    inner_call = None
    match way:
        case InnerCall():
            inner_call = Call(out, calling(way, inner, results), caught_at(bytecode, at))
            write_rest(inner_call, way.finish, bytecode.instrs[at], lambda name: f"rest_{name}{turn}", len(shape.kinds))
        case Suspended(at, True):
            out.put("LOAD_CONST", None)
            out.copy(bytecode, at)
            out.copy(bytecode, at + 1)
    out.caught = None
    out.put("JUMP", to=target)
    for index in range(len(bytecode.instrs)):
        out.mark(index)  # what sets up a frame is left out: the prologue has done it
        out.copy(bytecode, index, "NOP" if sets_up(bytecode, index) else None)
    made, shift = out.finish(bytecode.code), out.labels[0]
    local = dict.fromkeys(str(i.arg) for i in made.instrs[:shift] if i.op == "STORE_FAST")
    others = [name for name in (*taken, *local) if name not in parameters and name not in shape.cells]
    run = made
    if inner_call is not None and isinstance(way, InnerCall) and not way.raising:
        run = Bytecode(made.code, handing_over(made.instrs, inner_call.begins, inner_call.at), made.handlers)
    code = encode(
        run,
        co_argcount=len(parameters),
        co_posonlyargcount=0,
        co_kwonlyargcount=0,
        co_flags=bytecode.code.co_flags & ~(CO_VARARGS | CO_VARKEYWORDS),
        co_varnames=(*parameters, *others),
        co_cellvars=own,
        co_freevars=shape.cells,
    )
    made = remember(Bytecode(code, made.instrs, made.handlers))
    return Resumed(made, bytecode, shift, shape, 0 if inner_call is None else inner_call.at, tuple(needed))


def sets_up(bytecode: Bytecode, index: int) -> bool:
    """Whether an instruction sets up the frame. An inlined comprehension makes cells where it has saved their names."""
    instrs = bytecode.instrs
    saved = index > 0 and instrs[index - 1].op == "LOAD_FAST_AND_CLEAR"
    return instrs[index].op == "COPY_FREE_VARS" or instrs[index].op == "MAKE_CELL" and not saved


def calling(way: InnerCall, inner: Sequence[str], results: Sequence[str]) -> list[Instr]:
    """The inner call, or that it has raised; the instructions that do nothing are for `handing_over`."""
    if way.raising:
        return [Instr("LOAD_FAST", results[0]), *release(results), Instr("RERAISE", 0)]
    arguments = [*inner[1 : 1 + way.leading], *results, *inner[1 + way.leading :]]
    *loading, last = call(Instr("LOAD_FAST", inner[0]), arguments)
    return [Instr("NOP"), *loading, *release([*inner, *results]), Instr("NOP"), last]


def place(bytecode: Bytecode, way: Way) -> tuple[int, int]:
    """The instruction that the prologue stands for, and the one that comes behind it."""
    match way:
        case Jump(target):
            return target, target
        case InnerCall(at=at):
            return at, at + 1
        case Suspended(at, started):
            return at, at + 2 if started else at + 1
        case _:
            assert_never(way)


def finish_arguments(way: Way) -> tuple[str, ...]:
    """The names of what is needed to finish the instruction behind the inner call."""
    return argument_names(way.finish) if isinstance(way, InnerCall) else ()


def inner_arguments(way: InnerCall, turn: str) -> list[str]:
    """The variables that hold the inner function and its arguments beside the results."""
    if way.raising:
        return []
    return [f"call{turn}", *(f"inner{index}{turn}" for index in range(way.leading + way.count))]


def rebuild_stack(kinds: Sequence[str], values: Sequence[str], exceptions: Sequence[str]) -> list[Instr]:
    """Instructions that put the slots on the stack, the values and exceptions being in variables."""
    out: list[Instr] = []
    waiting, handled = iter(values), iter(exceptions)
    for kind in kinds:
        match kind:
            case "null":
                out.append(Instr("PUSH_NULL"))
            case "lasti":
                out.append(Instr("LOAD_CONST", 0))
            case "handled":
                out += [Instr("LOAD_FAST", next(handled)), Instr("PUSH_EXC_INFO"), Instr("POP_TOP")]
            case _:
                out.append(Instr("LOAD_FAST", next(waiting)))
    return out


def release(names: Sequence[str]) -> list[Instr]:
    """Let go of what the variables hold: what the stack drops dies at once."""
    return [each for name in names for each in (Instr("LOAD_CONST", None), Instr("STORE_FAST", name))]


def call_with(function: Any, names: Sequence[str]) -> list[Instr]:
    """Call a function that is known now with arguments in variables."""
    return call(Instr("LOAD_CONST", function), names)


def call(function: Instr, names: Sequence[str]) -> list[Instr]:
    """Call what the instruction loads with arguments in variables."""
    return [*callable_pair(function), *(Instr("LOAD_FAST", name) for name in names), Instr("CALL", len(names))]


def handing_over(instrs: Sequence[Instr], loaded: int, called: int) -> tuple[Instr, ...]:
    """The inner call as CPython runs it, where it is not traced: what is called has its arguments to itself."""
    out = list(instrs)
    inner = next(instr for instr in instrs[loaded:] if instr.op == "LOAD_FAST")
    of_call = [*callable_pair(Instr("LOAD_CONST", _C.hand_over)), inner]
    out[loaded : loaded + 3] = [replace(instr, position=inner.position) for instr in of_call]
    out[called - 1] = replace(out[called - 1], op="BUILD_LIST", arg=int(str(out[called].arg)) + 1)
    out[called] = replace(out[called], arg=1)
    return tuple(out)


def callable_pair(function: Instr) -> list[Instr]:
    """Put what the instruction loads on the stack, to be called with what comes on top of it."""
    pair = [function, Instr("PUSH_NULL")]
    return pair[::-1] if NULL_FIRST else pair


def function_of(code: CodeType, namespace: dict[str, Any]) -> FunctionType:
    """The one resume function of this code, which has no free variables, and these globals."""
    key = id(code), id(namespace)
    found = _functions.get(key)
    if found is None or found.__code__ is not code or found.__globals__ is not namespace:
        if len(_functions) >= FUNCTIONS:
            _functions.clear()
        found = _functions[key] = FunctionType(code, namespace, code.co_name)
    return found


def write_resume_function(rebuild: Rebuilding, made: ResumeFunction) -> str:
    """The expression of a resume function; one without free variables is a constant."""
    if not made.cells:
        return rebuild.const(function_of(made.code, made.namespace))
    cells = "".join(f"{rebuild.value(cell)}, " for cell in made.cells)
    parts = f"{rebuild.const(made.code)}, {rebuild.const(made.namespace)}, {made.code.co_name!r}, None, ({cells})"
    return rebuild.assign(f"{rebuild.const(FunctionType)}({parts})")
