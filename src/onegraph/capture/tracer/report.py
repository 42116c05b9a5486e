"""What a graph break tells the user: where in the program it is, which values are involved, and what it costs."""

from __future__ import annotations

import builtins
from collections.abc import Callable, Sequence
from typing import Any

import torch

from onegraph.base import events as ev
from onegraph.base.events import Location
from onegraph.base.text import plural
from onegraph.capture.breaks import GraphBreak
from onegraph.capture.bytecode.frame import NULL, Frame
from onegraph.capture.bytecode.ops import OPCODES
from onegraph.capture.calls.libraries import is_library
from onegraph.capture.interp.rests import CALLED
from onegraph.capture.pyobject.contents import ATOMS
from onegraph.capture.pyobject.exact_types import isinstance
from onegraph.capture.pyobject.native_members import ARGUMENTS_OF
from onegraph.capture.pyobject.value_text import written_atom
from onegraph.capture.resume.instruction_rest import taken_by
from onegraph.torchlib.private import DisableTorchFunction
from onegraph.torchlib.wrappers import is_ragged

_MANY = 5
_LONG = 40


def location(frame: Frame) -> Location:
    """The expression that a frame is at."""
    code = frame.bytecode.code
    instruction = frame.bytecode.instrs[min(frame.ip, len(frame.bytecode.instrs) - 1)]
    line, end_line, column, end_column = instruction.position or (None, None, None, None)
    if line is None:
        return Location.of_code(code)
    span = None if end_line is None or column is None or end_column is None else (column, end_line, end_column)
    return Location(code.co_filename, line, code.co_name, span)


def users(frames: Sequence[Frame]) -> tuple[Frame, ...]:
    """The frames that are not a library's; all of them if there are no others."""
    return tuple(f for f in frames if not is_library(f.globals.get("__name__") or "")) or tuple(frames)


#: type(value) as the program sees it.
TypeOf = Callable[[Any], type]


def broken_event(
    frame: Location | None, broken: GraphBreak, root: Frame | None, operations: int, type_of: TypeOf
) -> ev.GraphBroken:
    """The event of a graph break. What is found when the function has ended is at the place where it returns."""
    reason = broken.reason
    stack = users(broken.frames or (() if root is None else (root,)))
    first = () if frame is None else (frame,)
    return ev.GraphBroken(
        frame,
        reason.code,
        broken.summary,
        reason.explanation,
        reason.hints,
        tuple(location(each) for each in stack) or first,
        values_of(stack[-1], type_of) if broken.frames else (),
        cost(broken, operations),
    )


def cost(broken: GraphBreak, operations: int) -> str:
    """What becomes of the graphs, as far as is known where the break is found."""
    if broken.born is not None:
        return "the graph ends at an earlier step; what follows is another graph"
    if not broken.frames:
        return "the whole call runs eagerly"
    if broken.reason.whole_frame:
        return f"the function runs eagerly; the graph before it has {plural(operations, 'operation')}"
    if not operations:
        return "no operation comes before it; what follows is a graph of its own"
    return f"the graph ends here with {plural(operations, 'operation')}; what follows is another graph"


# ---- values ----------------------------------------------------------------------------------------------------------


def values_of(frame: Frame, type_of: TypeOf) -> tuple[str, ...]:
    """What the running instruction looks at, in words."""
    texts = [shown(value, type_of) for value in operands(frame)]
    return (*texts[:_MANY], f"{len(texts) - _MANY} more") if len(texts) > _MANY else tuple(texts)


def operands(frame: Frame) -> list[Any]:
    """The values that the running instruction looks at; of a call, the tensor whose method it is, and the arguments."""
    instr = frame.bytecode.instrs[frame.ip]
    stack = frame.stack
    if instr.op in CALLED.finish:
        count = taken_by(instr)
        function, *values = (value for value in stack[len(stack) - count :] if value is not NULL)
        if instr.op == "CALL_FUNCTION_EX":
            values = [item for value in values for item in unpacked(value)]
        owner = getattr(function, "__self__", None) if isinstance(function, _BOUND) else None
        enters = owner is not None and function.__name__ == "__enter__"  # a `with` of Python 3.14 calls it
        return [owner, *values] if isinstance(owner, torch.Tensor) or enters else values
    count = OPCODES[instr.op].looks_at(instr.arg) or 0
    return [value for value in stack[max(len(stack) - count, 0) :] if value is not NULL]


def unpacked(value: Any) -> list[Any]:
    """What stands behind `*` or `**` in a call, without drawing from an iterator."""
    if isinstance(value, dict):
        return list(dict.values(value))
    return list(value) if type(value) in (list, tuple) else [value]


_BOUND: tuple[type, ...] = (type([].append), type(location.__get__(0)), type("".__str__))


def message_of(raised: BaseException) -> str:
    """The text of an exception, as far as no code of the program has to run for it."""
    return ", ".join(str(item) for item in ARGUMENTS_OF(raised) if type(item) in ATOMS)


def shown(value: Any, type_of: TypeOf) -> str:
    """A value in few words; no code of the program runs for it."""
    if isinstance(value, torch.Tensor):
        return shown_tensor(value)
    if type(value) in ATOMS:
        text = written_atom(value)
        return f"{type(value).__name__} {text if len(text) <= _LONG else text[: _LONG - 3] + '...'}"
    name = type_of(value).__qualname__
    if type(value) in (list, tuple, dict, set, frozenset):
        return f"{name} of length {type(value).__len__(value)}"
    if isinstance(value, type) or name == "function":
        return f"{name} {value.__qualname__}"
    return name


def of_data(size: Any) -> bool:
    """Whether only the data say what the size is."""
    return isinstance(size, torch.SymInt) and not is_ragged(size) and size.node.sizes.data.are_in(size.node.value)


def shown_tensor(value: torch.Tensor) -> str:
    """Element type and shape, and the place if it is not the memory of the cpu."""
    with DisableTorchFunction():
        kind = "parameter" if builtins.isinstance(value, torch.nn.Parameter) else "tensor"
        place = "" if value.device.type == "cpu" else f" on {value.device}"
        numbers = ["?" if of_data(size) else str(size) for size in value.shape]
        sizes = ", ".join(numbers) + ("," if value.dim() == 1 else "")
        return f"{str(value.dtype).removeprefix('torch.')} {kind} of shape ({sizes}){place}"
