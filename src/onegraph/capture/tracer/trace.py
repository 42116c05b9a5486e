"""One trace: the world, the recorder and the tracer of one attempt to run a frame."""

from __future__ import annotations

import contextlib
import inspect
import os.path
import traceback
from dataclasses import replace
from functools import partial
from types import CellType, CodeType, FunctionType
from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist
from torch.nn.parameter import is_lazy
from torch.overrides import TorchFunctionMode

from onegraph import _C
from onegraph.base.context import Context
from onegraph.base.events import GraphBroken, Location
from onegraph.base.late import late_module
from onegraph.capture.breaks import FUNCTION_TRANSFORM, RAISED, TENSOR_LAYOUT, TENSOR_SUBCLASS, GraphBreak
from onegraph.capture.breaks.reason import Unready
from onegraph.capture.bytecode import decode, free_names
from onegraph.capture.bytecode.frame import Frame
from onegraph.capture.calls.libraries import is_library
from onegraph.capture.directives.handlers import is_strict
from onegraph.capture.directives.optimizers import runs_optimizer
from onegraph.capture.graph.record import GraphInput, Recorder
from onegraph.capture.graph.wrapper_tensors import wrapped
from onegraph.capture.guards.recompiling import value_at
from onegraph.capture.guards.source import Arg, Const, FreeCell, Item, Seen, Source, Through, placeholder_name
from onegraph.capture.heap.admission import admit_object
from onegraph.capture.heap.subclass_tensors import PLAIN_TENSORS, WrappedAlike, as_plain, is_transparent
from onegraph.capture.heap.world import World
from onegraph.capture.policy.numpy import arrays, scalars
from onegraph.capture.policy.numpy import random_numbers as numpy_random
from onegraph.capture.policy.python import (
    builtins,
    calculations,
    classes,
    copies,
    formatting,
    imports,
    iteration,
    library,
    operations,
    pickles,
    random_numbers,
)
from onegraph.capture.policy.python.messages import check_logged, message_rows
from onegraph.capture.policy.torch import (
    checkpoints,
    contexts,
    control_flow,
    custom_functions,
    flexible_attention,
    gradients,
    hooks,
    module,
    overrides,
    questions,
    randomness,
    tensors,
    transforms,
)
from onegraph.capture.policy.torch.contexts import device_left, leave_open_contexts
from onegraph.capture.policy.torch.questions import put_back
from onegraph.capture.pyobject.exact_types import isinstance
from onegraph.capture.pyobject.layout import instance_dict
from onegraph.capture.pyobject.native_members import TRACEBACK_OF
from onegraph.capture.residual import generators
from onegraph.capture.residual.iterators import OUTSIDE_ITERATORS, admit_iterator
from onegraph.capture.residual.rebuild import Rebuild
from onegraph.capture.resume.resumed import resumed_by
from onegraph.capture.resume.unread import Unread
from onegraph.capture.symbolic.arithmetic import Arithmetic
from onegraph.capture.symbolic.changing import carried, carrier, is_counter, is_variable, owner_of
from onegraph.capture.symbolic.random_draws import RandomDraws
from onegraph.capture.symbolic.shape_policy import AsExpected, ShapePolicy
from onegraph.capture.symbolic.shapes import Symbols
from onegraph.capture.tracer import equality
from onegraph.capture.tracer.checks import refusal_of_any
from onegraph.capture.tracer.fingerprints import Fingerprints
from onegraph.capture.tracer.foreign import captures_scalars
from onegraph.capture.tracer.report import broken_event, location, message_of
from onegraph.capture.tracer.tracer import Tracer
from onegraph.torchlib.fake import UNSUPPORTED_ERRORS, FakeMode, FakeTensor
from onegraph.torchlib.fake_memory import forget_fakes
from onegraph.torchlib.private import (
    DisableTorchFunction,
    has_names,
    is_functorch_wrapped_tensor,
    mode_flags,
    set_grad_enabled,
    set_mode_flags,
    without_transforms,
)
from onegraph.torchlib.shapes import LARGEST, Computed, Float
from onegraph.torchlib.state import GlobalState, surely, tracing_suspended
from onegraph.torchlib.wrappers import Wrapping, is_wrapper_class

if TYPE_CHECKING:
    from onegraph.capture.policy.distributed import prepare
else:
    prepare = late_module("onegraph.capture.policy.distributed").prepare

POLICIES = (
    arrays,
    builtins,
    calculations,
    checkpoints,
    classes,
    contexts,
    copies,
    control_flow,
    custom_functions,
    equality,
    flexible_attention,
    formatting,
    gradients,
    generators,
    hooks,
    imports,
    iteration,
    library,
    module,
    numpy_random,
    operations,
    overrides,
    pickles,
    questions,
    random_numbers,
    randomness,
    scalars,
    tensors,
    transforms,
)


class Trace:
    """Runs one frame in the shadow world. Use `run` once, then read the results; `close` in any case."""

    def __init__(
        self,
        function: FunctionType,
        code: CodeType,
        values: tuple[Any, ...],
        cx: Context,
        shapes: ShapePolicy,
        fullgraph: bool,
    ) -> None:
        self.function = function
        self.code = code
        self.values = values
        self.cx = cx
        self.shapes = shapes
        self.fake = FakeMode()
        self.fingerprints = Fingerprints() if cx.config.check_unchanged else None
        observe = self.fingerprints.note if self.fingerprints else None
        self.world = World(self._admit, self._admit_atom, self.locate, is_library, self.spend, observe)
        self.world.captures_arrays = cx.config.trace_numpy
        self.symbols = Symbols(self.fake.sizes, self.world.guard, shapes.shared)
        self.recorder = Recorder(self.fake, self.locate, self._lift, self.symbols.node)
        self.tracer = Tracer(self.world, self.recorder, Arithmetic(self.symbols.numbers), cx.config, fullgraph)
        asked_for = cx.config.capture_scalar_outputs or captures_scalars()
        self.recorder.takes_numbers = lambda: asked_for or runs_optimizer(self.tracer)
        self.recorder.number_in = self.number_in
        self.recorder.once_warned = partial(questions.answer, torch.is_warn_always_enabled, self.tracer, (), {})
        self.recorder.current_device = partial(questions.current_device, self.tracer)
        self.tracer.random = RandomDraws(self.world, self.recorder, self.symbols)
        self.recorder.sizes_made = self.symbols.scalars.sizes_made
        self.recorder.copied.step = self.tracer.step
        self.symbols.scalars.can_check = self.may_depend_on_data
        self.fake.sizes.data.are_wanted = self.may_depend_on_data
        self.tracer.makes_checks = shapes.history.makes_checks
        self.tracer.own_rows |= message_rows(cx.config)
        if dist.is_available() and dist.is_initialized():
            prepare()
        self.settings = dict(self.tracer.settings)
        self.state = _C.GlobalState()
        self.tracer.on_unhandled = partial(setattr, self.state, "unhandled", True)
        self.root: Frame | None = None
        self._modes = contextlib.ExitStack()
        self._fakes_kept = False

    # ---- running -----------------------------------------------------------------------------------------------------

    def run(self, stop: tuple[int, int] | None = None) -> Any:
        """Interpret the frame to its return value; raises `Stopped` at `stop`: (serial number of a frame, step)."""
        self.tracer.stop = stop
        frame = self.root = self._start()
        self._modes.callback(surely, partial(questions.end, self.tracer), GlobalState.snapshot().restore)
        flags = mode_flags()
        self._modes.enter_context(self.fake)
        set_mode_flags(flags)
        # What the program has entered may be above or below the recorder: the stack is put back.
        TorchFunctionMode.__enter__(self.recorder)
        self._modes.callback(contexts.leave_inference, self.tracer)  # which puts back what was seen within these modes
        return self.tracer.run_frame(frame)

    def pause(self) -> None:
        """Leave the tracing modes, in the process state of the frame's begin: what follows runs for real, and there."""
        self._modes.close()

    def keep_fakes(self) -> None:
        """The fakes outlive the trace: the values of the graph's nodes are among them."""
        self._fakes_kept = True

    def close(self) -> None:
        self._modes.close()
        self.tracer.abandon()
        tracer = self.tracer
        tracer.effects.clear()
        tracer.preparations.clear()
        tracer.cached_results.clear()
        self.tracer.type_lookup.forget()
        self.tracer.lost = self.tracer.outside = self.tracer.unhandled = None
        self.world.forget()
        self.recorder.forget()
        if not self._fakes_kept:
            forget_fakes(self.fake)
        self.fingerprints = None
        self.values = ()
        self.root = None
        del self.function  # its cells hold values of the program

    def _start(self) -> Frame:
        """The root frame with its arguments admitted."""
        code = self.code
        count = code.co_argcount + code.co_kwonlyargcount
        count += bool(code.co_flags & inspect.CO_VARARGS) + bool(code.co_flags & inspect.CO_VARKEYWORDS)
        sources: dict[str, Source] = {name: Arg(index, name) for index, name in enumerate(code.co_varnames[:count])}
        given = dict(zip(sources, self.values, strict=False))
        arguments: dict[str, Any] = {}
        if resumed_by(code) is None:
            arguments.update((name, self.world.admit(given[name], source)) for name, source in sources.items())
        else:
            arguments.update((name, Unread(given[name], source)) for name, source in sources.items())
        cells: dict[str, CellType] = {}
        closure = zip(free_names(code), code.co_freevars, self.function.__closure__ or (), strict=True)
        for index, (slot, name, cell) in enumerate(closure):
            cells[slot] = self.world.admit(cell, FreeCell(index, name))
        self.world.adopt(
            self.function, self.function, Const(id(self.function), self.function.__qualname__, self.function)
        )
        return self.tracer.make_frame(decode(code), self.function, arguments, cells)

    # ---- what the world and the recorder ask -------------------------------------------------------------------------

    def locate(self) -> Location | None:
        """The innermost line of user code that is being traced."""
        for frame in reversed(self.tracer.frames):
            if not is_library(frame.globals.get("__name__") or ""):
                return location(frame)
        return None

    def spend(self, steps: int) -> None:
        """Count the facts and values of the trace."""
        self.tracer.budget.spend(steps)

    def raised_at(self, raised: BaseException) -> str:
        """Where the program raised the exception, as text."""
        steps = user_steps(raised)
        return f" at {steps[-1].filename}:{steps[-1].lineno}" if steps else ""

    def unhandled_stops(self) -> tuple[tuple[int, int], ...]:
        """Where the exception that ends the trace is raised: (number of a frame, step), from the innermost frame on.

        Nothing if there is no operation before it.
        """
        unhandled = self.tracer.unhandled
        if (
            unhandled is None
            or self.tracer.was_too_deep
            or all(n.op == "placeholder" for n in self.recorder.graph.nodes)
        ):
            return ()
        level = 0 if self.tracer.settings["nested_graph_breaks"] is False else unhandled.resumed
        return tuple((frame.serial, steps) for frame, steps in unhandled.frames[level::-1])

    def raised_event(self, raised: BaseException) -> GraphBroken:
        """What the user is told if the program raises this only while it is traced."""
        steps = user_steps(raised)
        stack = tuple(Location(step.filename, step.lineno or 0, step.name) for step in steps)
        broken = GraphBreak(RAISED, error=f"{type(raised).__name__}: {message_of(raised)}")
        return replace(self.broken_event(broken), user_stack=stack)

    def broken_event(self, broken: GraphBreak) -> GraphBroken:
        """What a graph break of this trace tells the user."""
        operations = sum(node.op != "placeholder" for node in self.recorder.graph.nodes)
        return broken_event(self.cx.frame, broken, self.root, operations, self.tracer.type_of)

    def _admit(self, world: World, real: Any, source: Source, guarded: bool) -> Any:
        if isinstance(real, torch.Tensor):
            with DisableTorchFunction():  # else the recorder would take our own looking at it for the program's
                with without_transforms() if self.tracer.open_levels else contextlib.nullcontext():
                    return self._admit_tensor(real, source, guarded)
        if type(real) in OUTSIDE_ITERATORS:
            return admit_iterator(self.tracer, real, source)
        return admit_object(world, real, source, guarded)

    def _admit_atom(self, world: World, real: Any, source: Source, guarded: bool) -> Any:
        kind = type(real)
        number = guarded and kind in (int, float) and not self.tracer.late.active
        if number and self.shapes.is_changing_number(source, real, self._owner(source)):
            world.guard(source, "type", kind)
            in_loop = is_counter(source) or resumed_by(self.code) is not None and is_variable(source)
            numbers = self.symbols.numbers
            index = kind is int and 0 <= real < LARGEST
            return numbers.of(source, real, in_loop) if index else numbers.given(source, real, in_loop)
        if guarded:
            world.guard(source, "is" if real is None or isinstance(real, bool) else "equal", real)
        return real

    def _owner(self, source: Source | Computed) -> Any:
        """The object whose attribute is read, if there is one."""
        owner = None if isinstance(source, Computed) else owner_of(source)
        return None if owner is None else value_at(owner, self.function, self.values)

    def is_trained(self, given: GraphInput) -> bool:
        """Whether an input is a parameter that steps of training change: it gets gradients, and its module is in train
        mode. A compiler may take another one for a constant, which it looks at in each call."""
        value = given.example
        if not isinstance(value, torch.nn.Parameter) or not value.requires_grad:
            return False
        owner = self._owner(given.source)
        return not isinstance(owner, torch.nn.Module) or bool((instance_dict(owner) or {}).get("training", True))

    def _admit_tensor(self, real: torch.Tensor, source: Source, guarded: bool) -> Any:
        if is_lazy(real):
            raise Unready("it is the first call of a lazy module, which gives its parameters their sizes")
        if isinstance(real, FakeTensor):
            raise GraphBreak(TENSOR_SUBCLASS, name=type(real).__qualname__)
        if type(real) not in PLAIN_TENSORS:
            return self._admit_subclass(real, source, guarded)
        if is_functorch_wrapped_tensor(real):  # in code that runs without being looked at
            raise GraphBreak(FUNCTION_TRANSFORM, name="a function of torch.func")
        if real.is_nested:
            raise GraphBreak(TENSOR_LAYOUT, error="it is nested")
        if has_names(real):
            raise GraphBreak(TENSOR_LAYOUT, error="its dimensions have names")
        dims = self.shapes.symbolic_dims(source, real) if guarded else ()
        symbolic = self.symbols.of_input(source, real, dims)
        try:
            fake = self.fake.fakeify(real, symbolic)
        except UNSUPPORTED_ERRORS as error:
            raise GraphBreak(TENSOR_LAYOUT, error=error) from None
        self.world.adopt(real, fake, source)
        if guarded and symbolic:
            sizes = [None if dim in symbolic else size for dim, size in enumerate(real.shape)]
            strides = self.symbols.strides_hold(source, tuple(fake.stride()))
            self.world.guard(source, "tensor", _C.TensorSpec(real, sizes, strides))
        elif guarded:
            self.world.guard(source, "tensor", _C.TensorSpec(real))
        self.recorder.add_input(fake, placeholder_name(source), source, real)
        return fake

    def _admit_subclass(self, real: torch.Tensor, source: Source, guarded: bool) -> torch.Tensor:
        """A handle for the plain tensor with its elements, which is an input of the graph."""
        if is_wrapper_class(type(real)):
            return self._admit_wrapper(real, source, guarded)
        if not is_transparent(type(real)):
            raise GraphBreak(TENSOR_SUBCLASS, name=type(real).__qualname__)
        elements = self.world.admit(self.world.keep(as_plain(real)), Through(source, as_plain), guarded)
        handle = self.recorder.handles.make(elements, type(real))
        if guarded:
            self.world.guard(source, "type", type(real))
        self.world.adopt(real, handle, source)
        self.world.attributes_record(handle, real, source, guarded)
        return handle

    def _admit_wrapper(self, real: torch.Tensor, source: Source, guarded: bool) -> torch.Tensor:
        """A wrapper of fakes: the parts of the real one are inputs of the graph."""
        with tracing_suspended():
            wrapping = Wrapping.of(real)
            parts = self.world.keep(wrapping.parts_of(real))
        if guarded:
            self.world.guard(source, "type", type(real))
            self.world.guard(source, "check", WrappedAlike(wrapping))
        place = Through(source, wrapping.parts_of)
        fakes = tuple(self.world.admit(part, Item(place, index), guarded) for index, part in enumerate(parts))
        if self.recorder.handles.among(fakes):
            raise GraphBreak(TENSOR_SUBCLASS, name=f"{type(real).__qualname__}, which holds one of another")
        made = wrapped(self.recorder, wrapping, fakes)
        self.world.adopt(real, made, source)
        return made

    def _lift(self, real: torch.Tensor) -> Any:
        """A real tensor inside of native code: a constant of a library."""
        return self.world.admit(real, Const(id(real), "a constant tensor", real), guarded=False)

    # ---- results -----------------------------------------------------------------------------------------------------

    def symbol_text(self, rebuild: Rebuild, value: Any) -> str:
        """The residual code's expression for a symbolic number."""
        return self.symbols.text(rebuild, value)

    def input_text(self, rebuild: Rebuild, given: GraphInput) -> str:
        """The residual code's expression for an input of the graph."""
        if isinstance(given.source, Computed):
            carry = carrier() if isinstance(given.source, Float) else carried
            return f"{rebuild.const(carry)}({self.symbols.text(rebuild, given.source)})"
        return rebuild.source(given.source)

    def effects(self) -> list[tuple[Any, tuple[Any, ...], dict[str, Any]]]:
        """The calls that the compiled program makes behind its graph: messages, and the state that it leaves."""
        check_logged(self.tracer)
        transforms.refuse_open_level(self.tracer)
        inside = torch.is_grad_enabled()
        opened = leave_open_contexts(self.tracer)
        if any(context.opened is not None for context in self.tracer.open_contexts):
            opened.append((set_grad_enabled, (inside,), {}))  # inference mode sets it where it is entered, too
        grad = torch.is_grad_enabled()
        changed = grad != self.state.values["grad_mode"]
        state: list[Any] = [(set_grad_enabled, (grad,), {})] if changed else []
        for name, value in self.tracer.settings.items():
            if value is not self.settings[name]:
                state.append((_C.exchange_setting, (name, value), {}))
        return [*self.tracer.effects, *state, *put_back(self.tracer), *device_left(self.tracer), *opened]

    def number_in(self, tensor: torch.Tensor) -> Any:
        """The symbolic number in a tensor of one element, or None."""
        stays = self.recorder.takes_numbers()
        return self.symbols.scalars.of(self.recorder, tensor, runs_optimizer(self.tracer), stays)

    def may_depend_on_data(self) -> bool:
        """Whether operators may make sizes that only the data say, and take integers out of tensors for sizes."""
        wanted = self.shapes.history.makes_sizes or is_strict(self.tracer)
        return wanted and not self.tracer.open_levels and refusal_of_any(self.tracer) is None

    def guard_expectation(self) -> None:
        """Compile without such sizes when they have often been unexpected, unless the program wants one graph."""
        history = self.shapes.history
        history.sizes_made = True
        if history.makes_sizes:
            self.world.guard(Const(id(history), "sizes", history), "check", AsExpected())

    def seen(self) -> Seen:
        """What it has looked at without a guard."""
        world = self.world
        places = ((each, world.origin.get(id(each)) or world.found_at.get(id(each))) for each in self.tracer.entered)
        return Seen(tuple(places), tuple(world.unguarded.items()), world.unkept, world.told_order)

    def guard_leniency(self) -> None:
        """The trace ends with a graph break that is no error because of what is said outside of the frame."""
        if self.tracer.settings["error_on_graph_break"] is self.settings["error_on_graph_break"]:
            self.state.lenient = True

    def check_unchanged(self) -> None:
        """With the debug switch on, prove that tracing changed nothing real."""
        if self.fingerprints is not None:
            self.fingerprints.verify()


def user_steps(raised: BaseException) -> list[traceback.FrameSummary]:
    """The traceback of an exception of the program, without the frames of the tracer."""
    own = os.path.dirname(os.path.dirname(__file__))
    return [step for step in traceback.extract_tb(TRACEBACK_OF(raised)) if not step.filename.startswith(own)]
