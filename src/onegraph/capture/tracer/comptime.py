"""What `onegraph.comptime` does in a trace, and the context that its functions are given.

What comes before a graph break is traced a second time: the function of `comptime` runs again then, and its context
prints nothing.
"""

from __future__ import annotations

import builtins
import time
from collections.abc import Callable
from functools import partial
from types import CellType, FunctionType
from typing import Any, TextIO

import torch

from onegraph import _C
from onegraph.base.comptime import comptime
from onegraph.base.errors import CompileError
from onegraph.base.events import Location
from onegraph.capture.bytecode.frame import NULL, Abort, Frame
from onegraph.capture.calls.tracing import Tracing
from onegraph.capture.directives import function_marks as marks
from onegraph.capture.directives.handlers import break_graph
from onegraph.capture.guards.source import Arg, written
from onegraph.capture.interp.defects import Defect
from onegraph.capture.interp.functions import Mark
from onegraph.capture.interp.rests import Rest
from onegraph.capture.pyobject.contents import ATOMS, DELETED, UNFILLED, cell_value
from onegraph.capture.pyobject.exact_types import isinstance
from onegraph.capture.resume.unread import Unread
from onegraph.capture.symbolic.arithmetic import SYMBOLIC
from onegraph.capture.tracer.report import location, shown
from onegraph.torchlib.graph_text import nodes_text, type_text
from onegraph.torchlib.state import untraced


class ComptimeVar:
    """What a trace knows of a value of the program."""

    def __init__(self, tracer: Tracing, value: Any) -> None:
        self._tracer, self._value = tracer, value

    def __repr__(self) -> str:
        if isinstance(self._value, SYMBOLIC):
            return f"symbol {self._value.node}"
        if isinstance(self._value, torch.Tensor):
            return type_text(self._value)
        return shown(self._value, self._tracer.type_of)

    def as_fake(self) -> Any:
        """The fake tensor, or the symbolic number. Do not write to it.

        Raises:
            TypeError: for a value that is neither.
        """
        if not isinstance(self._value, torch.Tensor | SYMBOLIC):
            raise TypeError(f"{self!r} is no tensor and no symbol")
        return self._value

    def is_proxy(self) -> bool:
        """Whether a node of the graph makes it."""
        return self._node() is not None

    def as_proxy(self) -> torch.fx.Node:
        """The node of the graph that makes it.

        Raises:
            TypeError: where there is none.
        """
        node = self._node()
        if node is None:
            raise TypeError(f"{self!r} is no value of the graph")
        return node

    def _node(self) -> torch.fx.Node | None:
        nodes = self._tracer.recorder.graph.nodes
        return next((node for node in nodes if node.meta.get("example_value") is self._value), None)

    def size(self, dim: int | None = None) -> Any:
        """The sizes of a tensor, or one of them. What a symbolic one is asked for is guarded, its text too."""
        shape = self.as_fake().shape
        return shape if dim is None else shape[dim]

    def python_type(self) -> type:
        """Its type, as the program sees it."""
        return self._tracer.type_of(self._value)

    def is_python_constant(self) -> bool:
        """Whether it is a number, a text or another value that the compiled version is made for."""
        return type(self._value) in ATOMS

    def as_python_constant(self) -> Any:
        """The value.

        Raises:
            TypeError: for one that is no constant.
        """
        if not self.is_python_constant():
            raise TypeError(f"{self!r} is no constant")
        return self._value

    def is_dynamic(self) -> bool:
        """Whether it is a number that may be another in the next call."""
        return isinstance(self._value, SYMBOLIC) and not self._value.node.is_constant()

    def force_static(self) -> None:
        """Make another version for each value of this number.

        Raises:
            TypeError: for what is no number.
        """
        if isinstance(self._value, SYMBOLIC):
            self._tracer.numbers.concrete(self._value, "comptime.force_static")
        else:
            self.as_python_constant()


class ComptimeContext:
    """What a trace knows where `comptime` stands. `stacklevel` counts frames outwards, `file` is standard output."""

    def __init__(self, tracer: Tracing, level: int, silent: bool) -> None:
        self._tracer, self._level, self._silent = tracer, level, silent

    def _frame(self, stacklevel: int = 0) -> Frame:
        if stacklevel < 0 or stacklevel > self._level:
            raise ValueError(f"there are {self._level + 1} frames, got stacklevel={stacklevel}")
        return self._tracer.frames[self._level - stacklevel]

    def _say(self, text: str, file: TextIO | None) -> None:
        if not self._silent:
            print(text, file=file)

    def parent(self) -> ComptimeContext:
        """The same in the frame that has called this one."""
        self._frame(1)
        return ComptimeContext(self._tracer, self._level - 1, self._silent)

    def get_local(self, name: str, *, stacklevel: int = 0) -> ComptimeVar:
        """A variable.

        Raises:
            KeyError: where there is none of this name.
        """
        frame = self._frame(stacklevel)
        value = self._tracer.world.contents(frame.cells[name]) if name in frame.cells else frame.locals[name]
        return ComptimeVar(self._tracer, value)

    def graph(self) -> torch.fx.Graph:
        """The graph so far. Do not write to it."""
        found: torch.fx.Graph = self._tracer.recorder.graph
        return found

    def graph_break(self, msg: str = "") -> None:
        """Break the graph here."""
        break_graph(self._tracer, None, None, (msg,), {})

    def assert_static(self, val: ComptimeVar) -> None:
        """Raises:
        AssertionError: for a number that may be another in the next call.
        """
        if val.is_dynamic():
            raise AssertionError(f"expected a constant, got {val!r}")

    def print(self, val: Any, *, file: TextIO | None = None) -> None:
        """Print what is known of a value."""
        self._say(repr(val), file)

    def print_graph(self, *, verbose: bool = True, file: TextIO | None = None) -> None:
        """Print the graph so far. `verbose` is accepted for torch's sake."""
        self._say(nodes_text(self.graph()), file)

    def print_guards(self, *, file: TextIO | None = None) -> None:
        """Print the guards so far, a line each."""
        self._say("\n".join(map(str, self._tracer.world.guards)), file)

    def print_locals(self, *, file: TextIO | None = None, stacklevel: int = 0) -> None:
        """Print the variables of the function, and what is known of them."""
        frame = self._frame(stacklevel)
        held = dict(frame.locals.items()) | {name: cell_value(cell) for name, cell in frame.cells.items()}
        for name, value in held.items():
            if value is DELETED or written(Arg(0, name)) != name:  # a variable of ours, behind a graph break
                continue
            if value is UNFILLED or type(value) is Unread:
                self._say(f"{name}: not read yet", file)
            else:
                var = self.get_local(name, stacklevel=stacklevel)
                self._say(f"{name}: {var!r}", file)

    def print_value_stack(self, *, file: TextIO | None = None, stacklevel: int = 0) -> None:
        """Print the values of the expression that is being computed, innermost last."""
        for value in self._frame(stacklevel).stack:
            if value is not NULL:
                self._say(f"- {ComptimeVar(self._tracer, value)!r}", file)

    def print_disas(self, *, file: TextIO | None = None, stacklevel: int = 0) -> None:
        """Print the instructions of the function; an arrow is at the one that runs."""
        frame = self._frame(stacklevel)
        for index, instruction in enumerate(frame.bytecode.instrs):
            self._say(f"{'-->' if index == frame.ip else '   '} {instruction}", file)

    def print_bt(self, *, file: TextIO | None = None, stacklevel: int = 0) -> None:
        """Print where the program is, from the outermost function that is traced to this one."""
        for level in range(self._level - stacklevel, -1, -1):
            for line in location(self._frame(self._level - level)).traceback_lines():
                self._say(line, file)

    def sleep(self, sec: float) -> None:
        """Wait for a number of seconds."""
        time.sleep(sec)


def debug(ctx: ComptimeContext) -> None:
    if not ctx._silent:
        builtins.breakpoint()


Act = Callable[..., Any]
#: What each function does, given the context and its own arguments as variables of the trace.
ACTS: dict[str, Act] = {
    "print": lambda ctx, e: ctx.print(e),
    "print_graph": lambda ctx: ctx.print_graph(),
    "print_guards": lambda ctx: ctx.print_guards(),
    "print_locals": lambda ctx, stacklevel=0: ctx.print_locals(stacklevel=constant(stacklevel)),
    "print_value_stack": lambda ctx, stacklevel=0: ctx.print_value_stack(stacklevel=constant(stacklevel)),
    "print_value_stack_and_return": lambda ctx, e, stacklevel=0: ctx.print_value_stack(stacklevel=constant(stacklevel)),
    "print_disas": lambda ctx, stacklevel=0: ctx.print_disas(stacklevel=constant(stacklevel)),
    "print_bt": lambda ctx, stacklevel=0: ctx.print_bt(stacklevel=constant(stacklevel)),
    "assert_static": lambda ctx, val: ctx.assert_static(val),
    "force_static": lambda ctx, val: val.force_static(),
    "breakpoint": debug,
    "sleep": lambda ctx, sec: ctx.sleep(constant(sec)),
}


def constant(value: Any) -> Any:
    return value.as_python_constant() if type(value) is ComptimeVar else value


def act(tracer: Any, function: Act, *args: Any, **kwargs: Any) -> None:
    """Call something of the program in the midst of a trace. Its error is not one that the program would handle.

    Raises:
        Defect: which the compilation leaves as the error that is its cause.
    """
    tracer.world.unkept = "comptime, which runs while the frame is traced"
    ctx = ComptimeContext(tracer, len(tracer.frames) - 1, tracer.stop is not None)
    looking = _C.looking(False)
    try:
        with untraced():
            function(ctx, *args, **kwargs)
    except Abort:
        raise
    except Exception as error:
        where: Location = location(tracer.frames[-1])
        failed = CompileError("comptime", f"{type(error).__name__}: {error}", where)
        failed.__cause__ = error
        raise Defect from failed
    finally:
        _C.looking(looking)


def call_while_tracing(
    tracer: Tracing, rest: Rest | None, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> None:
    """`comptime(fn)`"""
    given = args[0] if args else kwargs["fn"]
    act(tracer, over_variables(tracer, given) if id(given) in tracer.world.made_functions else given)


def over_variables(tracer: Tracing, function: FunctionType) -> FunctionType:
    """A function that the trace has made, whose free variables are what a function that runs for real can look at."""
    cells = tuple(over(tracer, cell) for cell in function.__closure__ or ())
    made = FunctionType(function.__code__, function.__globals__, function.__name__, function.__defaults__, cells)
    made.__kwdefaults__ = function.__kwdefaults__
    return made


def over(tracer: Tracing, cell: CellType) -> CellType:
    return cell if cell_value(cell) is DELETED else CellType(outwards(tracer, tracer.world.contents(cell)))


def outwards(tracer: Tracing, value: Any) -> Any:
    """An object of the program itself; of what is a tensor, a symbol or made in the trace, what is known."""
    if type(value) in ATOMS or isinstance(value, type | FunctionType):
        return value
    is_known = isinstance(value, torch.Tensor | SYMBOLIC) or not tracer.world.is_outside(value)
    return ComptimeVar(tracer, value) if is_known else tracer.world.real(value)


def call_ready_made(
    name: str, tracer: Tracing, rest: Rest | None, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    """`comptime.NAME(...)`"""
    given = [ComptimeVar(tracer, value) for value in args]
    named = {key: ComptimeVar(tracer, value) for key, value in kwargs.items()}
    act(tracer, ACTS[name], *given, **named)
    return (args[0] if args else kwargs["e"]) if name == "print_value_stack_and_return" else None


#: What calls mean while tracing; torch's functions of these names mean the same.
MARKS_OF: dict[str, Mark] = {"graph_break": break_graph}
MARKS_OF |= {name: partial(call_ready_made, name) for name in ACTS}

marks.mark(comptime, call_while_tracing)
for _name, _mark in MARKS_OF.items():
    marks.mark(getattr(comptime, _name), _mark)
