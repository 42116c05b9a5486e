"""Frames over the shadow world: their names, their closures, the functions and generators that they make."""

from __future__ import annotations

import types
from typing import Any, NoReturn

import torch

from onegraph.capture.breaks import LONG_LOOP, LONG_TRACE, RAISED, GraphBreak
from onegraph.capture.breaks.hints import refused_object
from onegraph.capture.bytecode import Bytecode, free_names
from onegraph.capture.bytecode.frame import Abort, Frame
from onegraph.capture.directives.handlers import is_strict
from onegraph.capture.directives.skipped_code import is_machinery
from onegraph.capture.graph.late_guards import LateReads
from onegraph.capture.graph.operators import Operators
from onegraph.capture.guards.source import Attr, Const, Item, Source
from onegraph.capture.interp.defects import Defect
from onegraph.capture.policy.python.iteration import StandIn
from onegraph.capture.pyobject.contents import ATOMS, UNFILLED
from onegraph.capture.pyobject.exact_types import isinstance
from onegraph.capture.resume.continuation import deepest
from onegraph.capture.resume.resumed import resumed_by
from onegraph.capture.resume.unread import LazyLocals, lazy_program
from onegraph.capture.tracer.budget import INTERVAL, Budget
from onegraph.capture.tracer.long_loops import TURNS, LongLoops, goes_over_container


class Frames(Operators):
    """The part of the tracer that makes frames, counts their steps, and binds their names."""

    budget: Budget
    settings: dict[str, bool | None]
    fullgraph: bool

    def __init__(self, loop_limit: int) -> None:
        super().__init__()
        self.long_loops = LongLoops(loop_limit)
        #: The serial number of the frame, and the step of it, at which the trace ends.
        self.stop: tuple[int, int] | None = None
        #: How many checks of data the graph makes, and whether it is to make any, see `onegraph.capture.tracer.checks`.
        self.checks = 0
        self.makes_checks = True
        #: Whether the graph checks an answer that data have given before.
        self.expects = False
        #: The frames that have called `all` or `any`, and the answer of each element that a check wants.
        self.joins: list[tuple[Frame, bool | None]] = []
        #: What is read while the backward pass of a custom function is traced.
        self.late = LateReads()
        #: The functions whose code is followed, each once.
        self.entered: dict[types.FunctionType, None] = {}
        self._frame_count = 0
        self._lazy_programs: dict[Bytecode, Any] = {}

    # ---- names -------------------------------------------------------------------------------------------------------

    def load_global(self, frame: Frame, name: str) -> Any:
        try:
            return self.world.read_global(frame.globals, frame.builtins, name)
        except KeyError:
            missing = NameError(f"name '{name}' is not defined", name=name)
        raise missing

    def store_global(self, frame: Frame, name: str, value: Any) -> None:
        self.world.write_global(frame.globals, name, value)

    def delete_global(self, frame: Frame, name: str) -> None:
        try:
            return self.world.delete_global(frame.globals, name)
        except KeyError:
            missing = NameError(f"name '{name}' is not defined", name=name)
        raise missing

    def load_cell(self, frame: Frame, cell: types.CellType, name: str) -> Any:
        value = super().load_cell(frame, cell, name)
        if value is UNFILLED or (self.late.active and id(cell) in self.world.records):
            return self.world.contents(cell)
        return value

    def store_cell(self, frame: Frame, cell: types.CellType, name: str, value: Any) -> None:
        self.world.touch(cell)
        super().store_cell(frame, cell, name, value)

    def delete_cell(self, frame: Frame, cell: types.CellType, name: str) -> None:
        self.world.touch(cell)
        super().delete_cell(frame, cell, name)

    def next_in_loop(self, iterator: Any) -> Any:
        """The next item. A loop behind a break draws in Python: its body settles into a few compiled pieces."""
        frame = self.frames[-1]
        if isinstance(iterator, StandIn) and self.world.is_outside(iterator) and resumed_by(frame.bytecode.code):
            raise refused_object(self.world.real(iterator))
        return self.next(iterator)

    def make_frame(
        self,
        bytecode: Bytecode,
        function: types.FunctionType,
        local_values: dict[str, Any],
        cells: dict[str, types.CellType] | None = None,
    ) -> Frame:
        """A frame whose closure, if it came from outside, is used through shadows."""
        if is_machinery(dict.get(function.__globals__, "__name__")):
            raise Defect from AssertionError(f"the tracer was about to trace {function.__qualname__} of its own")
        if cells is None and function.__closure__ and id(function) not in self.world.made_functions:
            closure = Attr(self.source_of(function), "__closure__")
            guarded = self.is_guarded_function(function)
            names = free_names(bytecode.code)
            cells = {
                name: self.world.admit(cell, Item(closure, index), guarded)
                for index, (name, cell) in enumerate(zip(names, function.__closure__, strict=True))
            }
        if id(function) in self.world.unpinned and id(function) in self.world.origin:
            self.world.guard(Attr(self.world.origin[id(function)], "__globals__"), "is", function.__globals__)
        self.entered[function] = None
        resumed = resumed_by(bytecode.code)
        if resumed is not None:
            local_values = LazyLocals(local_values, self.world.admit)
        frame = super().make_frame(bytecode, function, local_values, cells)
        if resumed is not None:
            if bytecode not in self._lazy_programs:
                self._lazy_programs[bytecode] = lazy_program(bytecode)
            frame.program = self._lazy_programs[bytecode]
        frame.serial = self._frame_count
        self._frame_count += 1
        if self.stop is not None and self.stop[0] == frame.serial:
            frame.stop_at = self.stop[1]
        return frame

    def on_drop(self, frame: Frame, raised: BaseException) -> bool:
        if not isinstance(raised, Abort | GeneratorExit | StopIteration):
            self.lost = GraphBreak(RAISED, error=f"{type(raised).__name__}, in a generator that nothing holds,")
        return super().on_drop(frame, raised)

    def on_frame_enter(self, frame: Frame) -> None:
        super().on_frame_enter(frame)
        frame.began = self.budget.spent

    def on_frame_exit(self, frame: Frame) -> None:
        self.budget.spent += frame.steps - frame.counted
        frame.counted = frame.steps

    def on_pause(self, frame: Frame) -> int:
        following = super().on_pause(frame)
        taken, frame.counted = frame.steps - frame.counted, frame.steps
        self.budget.spend(taken)
        return min(following, frame.steps + INTERVAL)

    def on_turn(self, frame: Frame, head: int, steps: int) -> None:
        operations = len(self.recorder.graph.nodes)
        first = self.long_loops.end_of_first_turn(frame, head, steps, operations)
        if first is None or is_strict(self):
            return
        deepest_end = deepest(self.frames) if self.settings["nested_graph_breaks"] is not False else 0
        if deepest_end + 1 < len(self.frames):
            return
        if torch.is_grad_enabled() and self.recorder.has_recorded_input():
            return  # a node of autograd for each turn costs more than the turn
        if frame.bytecode.instrs[head].op == "FOR_ITER" and goes_over_container(self.type_of, frame.stack[-1]):
            return
        broken = GraphBreak(LONG_LOOP, turns=TURNS, operations=operations)
        broken.frames, broken.born = tuple(self.frames), (frame.serial, first)
        raise broken

    def refuse_length(self, what: str, steps: int) -> NoReturn:
        """Break the graph in front of the innermost call that most of these steps belong to: it runs on its own."""
        broken = GraphBreak(LONG_TRACE, what=what)
        since = self.budget.spent - steps // 2
        level = max((level for level, frame in enumerate(self.frames) if frame.began <= since), default=0)
        broken.frames = tuple(self.frames[: level + 1])
        raise broken

    def make_generator(self, frame: Frame) -> Any:
        made = super().make_generator(frame)
        self.world.generators[id(made)] = frame
        return made

    def defaults(self, function: types.FunctionType) -> tuple[tuple[Any, ...] | None, dict[str, Any] | None]:
        positional, named = super().defaults(function)
        if id(function) in self.world.made_functions or not (positional or named):
            return positional, named
        source, guarded = self.source_of(function), self.is_guarded_function(function)
        return (
            self.world.admit(positional, Attr(source, "__defaults__"), guarded),
            self.world.realize(self.world.admit(named, Attr(source, "__kwdefaults__"), guarded)),
        )

    def source_of(self, function: types.FunctionType) -> Source:
        """Where a function is found; one that native code has handed out is known by its identity."""
        known = self.world.origin.get(id(function))
        return known or Const(id(function), function.__qualname__, self.world.keep(function))

    def make_function(self, frame: Frame, code: types.CodeType, attributes: dict[str, Any]) -> types.FunctionType:
        made = super().make_function(frame, code, attributes)
        self.world.made_functions[id(made)] = made
        return made

    def note_new_class(self, cls: type) -> None:
        """A class that native code is making right now, and shows to what is in it."""
        if id(cls) not in self.world.shadow_of:
            self.world.made_classes[id(self.world.keep(cls))] = cls

    def note_birth(self, made: Any) -> Any:
        """Remember where a native object was made: what cannot be made again is made there for real."""
        if self.frames and type(made) not in ATOMS and not isinstance(made, torch.Tensor):
            self.world.births.setdefault(id(self.world.keep(made)), self.step())
        return made

    def step(self) -> tuple[int, int]:
        """The running step from which the program can go on by its own: the serial number of its frame, and its own."""
        frame = self.frames[deepest(self.frames)]
        return frame.serial, frame.steps
