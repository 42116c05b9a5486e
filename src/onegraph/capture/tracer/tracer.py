"""The tracer: the interpreter's machine over the shadow world.

Python semantics come from `Machine`. This class says what is different while tracing: values that come from outside
are admitted, attributes and items are read through the lazy shadows, the truth of a tensor is a graph break, and a
native function runs only if the policy knows it.
"""

from __future__ import annotations

import functools
import operator
import sys
import types
from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeVar

import torch

from onegraph import _C
from onegraph.base.config import Config
from onegraph.base.dataclass import dataclass
from onegraph.capture.breaks import FINALIZER, OPAQUE_OBJECT, SCRIPTED, TENSOR_MEMORY, TEXT_DECIDES, GraphBreak
from onegraph.capture.breaks.hints import refuse_outside_class, refused_native
from onegraph.capture.bytecode import decode
from onegraph.capture.bytecode.frame import NULL, Frame
from onegraph.capture.calls.libraries import is_library
from onegraph.capture.calls.registry import (
    MODULES,
    access_of_method,
    fill_late_rows,
    refusal_of,
    runs_natively,
    runs_programs,
)
from onegraph.capture.directives.handlers import call_region, find_disabled, is_strict, keep_identity, run_eagerly
from onegraph.capture.directives.skipped_code import is_machinery
from onegraph.capture.graph.record import Recorder
from onegraph.capture.guards.process_facts import AbstractAnswers, NoGlobalHooks
from onegraph.capture.guards.source import NOWHERE, Through
from onegraph.capture.heap.native_calls import (
    NATIVE_FUNCTIONS,
    SCRIPTED_TYPES,
    bound_to,
    depth_of,
    is_buffer,
    is_torch,
    keeps_texts,
    receiver_of,
    refuse_calls,
    refuse_tensor_like,
    run_among,
    taken,
    takes_symbols,
)
from onegraph.capture.heap.tensor_texts import holds_marked, refuse_marked, with_real_types
from onegraph.capture.heap.type_rules import rule_of
from onegraph.capture.heap.world import World
from onegraph.capture.interp.functions import NOTHING_KNOWN, Row, row_of
from onegraph.capture.interp.lookup import find_in_class, is_python
from onegraph.capture.interp.rests import LENGTH, Rest
from onegraph.capture.policy.numpy.arrays import FUNCTIONS_OF_ARRAYS, call_unknown
from onegraph.capture.policy.python.iteration import StandIn
from onegraph.capture.policy.torch.overrides import made_wrapper, overridden, taken_over
from onegraph.capture.pyobject.contents import ATOMS, members_of
from onegraph.capture.pyobject.exact_types import defined, defines, isinstance, plain
from onegraph.capture.pyobject.layout import behind_proxy, native_method
from onegraph.capture.pyobject.native_iterators import UNREDUCED
from onegraph.capture.pyobject.native_members import ARGS_OF, ARGUMENTS_OF, CONTEXT_OF, FUNC_OF, KEYWORDS_OF
from onegraph.capture.resume.continuation import deepest
from onegraph.capture.symbolic.arithmetic import NUMBERS, SYMBOLIC, Arithmetic
from onegraph.capture.tracer.budget import Budget
from onegraph.capture.tracer.caches import call_cached
from onegraph.capture.tracer.checks import checked_number, checked_truth
from onegraph.capture.tracer.containers import Containers
from onegraph.capture.tracer.foreign import SETTINGS, foreign_class_mark, foreign_polyfill, foreign_row, foreign_rows
from onegraph.capture.tracer.frames import Frames
from onegraph.capture.tracer.reentry import Reentry
from onegraph.torchlib.arrays.array import Array
from onegraph.torchlib.wrappers import is_wrapper_class

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Unhandled:
    """An exception that has left the frame at `level`; `frames` were running, each at this step, when it was raised.

    The last of these from which the program can go on by its own is that at `resumed`.
    """

    raised: BaseException
    level: int
    frames: tuple[tuple[Frame, int], ...]
    resumed: int


def handled_now(_: None) -> BaseException | None:
    """What is being handled where the code of a frame runs."""
    return sys.exception()


class Tracer(Frames, Containers):
    """Interprets one frame and all that it calls; tensor operations go to the recorder."""

    def __init__(self, world: World, recorder: Recorder, numbers: Arithmetic, config: Config, fullgraph: bool) -> None:
        super().__init__(config.loop_limit)
        self.world = world
        strict = functools.partial(is_strict, self)
        self.budget = Budget(config.trace_limit, lambda: len(recorder.graph.nodes), strict, self.refuse_length)
        self.recorder = recorder
        self.numbers = numbers
        self.no_global_hooks = NoGlobalHooks()
        self.abstract_answers = AbstractAnswers()
        #: What the compiled program calls before its graph, and behind it: messages (warnings, logging).
        self.preparations: list[tuple[Any, tuple[Any, ...], dict[str, Any]]] = []
        self.effects: list[tuple[Any, tuple[Any, ...], dict[str, Any]]] = []
        #: What functions with a cache have given for objects that the program has made.
        self.cached_results: dict[Any, Any] = {}
        self.open_contexts: list[Any] = []
        self.settings_of_torch: dict[Any, Any] = {}  # those that the program has changed: what they were before
        self.told_of_torch: set[Any] = set()  # what the program was told of settings, which is guarded
        #: The random numbers that the program draws, see `onegraph.capture.symbolic.random_draws`.
        self.random: Any = None
        #: The default device that the program has chosen, see `policy.torch.contexts`.
        self.chosen_device: Any = None
        self.open_levels: dict[int, torch.fx.Node] = {}
        #: The step that has opened dual numbers outside of a transform, while they are open.
        self.dual_step: tuple[int, int] | None = None
        #: What the program has said of graph breaks, see `onegraph.capture.directives.hatches`.
        self.settings = {name: setting() for name, setting in SETTINGS.items()}
        self.fullgraph = fullgraph
        #: What holds of functions for this trace only.
        self.own_rows = foreign_rows()
        #: Tensors in messages, and how often they had been written to then.
        self.logged: list[tuple[Any, int | None]] = []
        #: What was being handled when the traced frame started.
        self.outside = sys.exception()
        #: Called where it matters that this was nothing.
        self.on_unhandled: Callable[[], None] = lambda: None
        #: Whether the program has come to its limit of recursion: at the next call it may be elsewhere.
        self.was_too_deep = False
        #: Where the exception that no frame has handled yet was raised.
        self.unhandled: Unhandled | None = None
        self._reentry = Reentry(self)
        world.natively = self.natively
        recorder.override = functools.partial(overridden, self)

    # ---- exceptions --------------------------------------------------------------------------------------------------

    def on_raise(self, frame: Frame, raised: BaseException) -> None:
        """What native code says of the types of tensors and numbers is true of the real ones."""
        given = ARGUMENTS_OF(raised)
        ARGUMENTS_OF.set(raised, tuple(with_real_types(item) if type(item) is str else item for item in given))
        self.was_too_deep = self.was_too_deep or isinstance(raised, RecursionError)
        self._note_unhandled(raised)
        super().on_raise(frame, raised)

    def _note_unhandled(self, raised: BaseException) -> None:
        """Remember where an exception was raised while it leaves frame after frame."""
        level, known = len(self.frames) - 1, self.unhandled
        if known is None or known.raised is not raised or known.level != level + 1:
            steps = tuple((each, each.steps) for each in self.frames)
            self.unhandled = Unhandled(raised, level, steps, deepest(self.frames))
        else:
            self.unhandled = replace(known, level=level)

    def handled_outside(self) -> BaseException | None:
        if self.outside is None:
            self.on_unhandled()
            return None
        handled: BaseException = self.world.admit(self.outside, Through(NOWHERE, handled_now))
        return handled

    def _context(self, raised: BaseException | None = None) -> BaseException | None:
        """Python has chained what native code raises here to the real exception that is handled around the trace."""
        link = raised
        while self.outside is not None and link is not None:
            if CONTEXT_OF(link) is self.outside:
                CONTEXT_OF.set(link, None)
            link = CONTEXT_OF(link)
        return self.handled_exception()

    # ---- truth and types ---------------------------------------------------------------------------------------------

    def truth(self, obj: Any) -> bool:
        if isinstance(obj, torch.Tensor):
            return checked_truth(self, obj)
        if isinstance(obj, Array):
            return checked_truth(self, obj.tensor)
        if isinstance(obj, torch.SymBool | torch.SymInt):
            return checked_number(self, obj.node.truth(), obj.node.sizes)
        self.world.length_matters(obj)
        if self.type_lookup(type(obj), "__bool__") is not NULL or self.type_lookup(type(obj), "__len__") is not NULL:
            self.world.refuse_opaque(obj)
        return super().truth(obj)

    def length(self, obj: Any, rest: Rest = LENGTH) -> Any:
        if isinstance(obj, torch.Tensor):
            return obj.shape[0] if obj.dim() else len(obj)
        refuse_marked(obj)
        self.world.length_matters(obj)
        method = self.type_lookup(type(obj), "__len__")
        if is_python(method):
            result = self.call_special(method, obj, rest=rest)
            known = isinstance(result, torch.SymInt) or type(result) is int and 0 <= result <= sys.maxsize
            return result if known else taken(len, "__len__", type(obj), result)
        self.world.refuse_opaque(obj)
        return len(obj)

    def is_op(self, a: Any, b: Any) -> bool:
        """Identity, which is guarded for two objects from outside."""
        a, b = self.numbers.truth_value(a), self.numbers.truth_value(b)
        if a is not b and isinstance(a, NUMBERS) and isinstance(b, NUMBERS):
            a, b = self.numbers.concrete(a, "operator is"), self.numbers.concrete(b, "operator is")
        return a is b if type(a) in ATOMS or type(b) in ATOMS else self.world.identity_matters(a, b)

    def read_attribute(self, obj: Any, name: str) -> Any:
        if isinstance(obj, SYMBOLIC):
            return self.type_of(obj) if name == "__class__" else self._number_attribute(obj, name)
        return super().read_attribute(obj, name)

    def _number_attribute(self, obj: Any, name: str) -> Any:
        """An attribute of a symbolic number; methods with a policy, and parts, are those of a symbol."""
        found = vars(self.type_of(obj)).get(name) if self.numbers.is_symbolic(obj) else None
        if found is not None and row_of(found).handler is not None:
            return types.MethodType(found, obj)
        if isinstance(found, types.GetSetDescriptorType):
            return self.numbers.computed(found.__get__, obj)
        return getattr(self.numbers.concrete(obj, f"attribute {name}"), name)

    # ---- calls -------------------------------------------------------------------------------------------------------

    def call(self, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any], rest: Rest | None = None) -> Any:
        """A frame that the call enters can resume behind a break, if it is known what follows."""
        row = self.row_of(function)
        if (row.mark or row.handler) and (self.recorder.modes or self.recorder.handles):
            if (taken := taken_over(self, function, args, kwargs)) is not NotImplemented:
                return taken
        if row.mark is not None:
            if not row.by_name:
                keep_identity(self, function)
            return row.mark(self, rest, function, args, kwargs)
        real = self.world.real_of.get(id(function))
        if real is not None and (mark := row_of(real).mark) is not None:  # a callable object, whose shadow is called
            self.world.guard(self.world.origin[id(function)], "is", real)
            return mark(self, rest, real, args, kwargs)
        if row.handler is not None:
            return row.handler(self, args, kwargs, rest) if row.passes_rest else row.handler(self, args, kwargs)
        if row.refuse is not None:
            row.refuse()
        if row.substitute is not None:
            return row.substitute(self, args, kwargs)
        match plain(function):
            case types.FunctionType():
                if runs_natively(function) and not runs_programs(function, args, kwargs):
                    return self.run_torch(function, args, kwargs)
                if args and isinstance(args[0], StandIn) and is_machinery(function.__module__):
                    return function(*args, **kwargs)  # what is native to the program
                return self.interpret(function, args, kwargs, rest)
            case types.MethodType():
                return self.call(function.__func__, (function.__self__, *args), kwargs, rest)
            case functools.partial() if defined(type(function), "__call__") is functools.partial.__call__:
                self.world.realize(function)
                named = {**KEYWORDS_OF(function), **kwargs}
                return self.call(FUNC_OF(function), (*ARGS_OF(function), *args), named, rest)
            case type():
                if is_wrapper_class(function):
                    return made_wrapper(self, function, args, kwargs)
                if fill_late_rows(function):
                    return self.call(function, args, kwargs, rest)
                self._refuse_making(function)
                return self.call_type(function, args, kwargs, rest)
        if isinstance(function, NATIVE_FUNCTIONS):
            return self.call_native(function, args, kwargs)
        return self.call_object(rest, function, args, kwargs)

    def row_of(self, function: Any) -> Row:
        """What is known of a function; what torch's compiler knows of it counts where the program has said nothing."""
        row = row_of(function)
        if self.own_rows and row.mark is None:
            row = self.own_rows.get(id(function), row)
        if row is not NOTHING_KNOWN or type(function) is not types.FunctionType:
            return row
        if (refuse := refusal_of(function)) is None:
            return foreign_row(function)
        return row_of(function) if fill_late_rows(function) else Row(refuse=refuse)

    def _refuse_making(self, cls: type) -> None:
        """Break the graph where an instance would do something for real, when it is dropped or asked."""
        if defines(cls, "__del__") and not is_buffer(cls) or issubclass(cls, torch.Generator):
            refuse_outside_class(cls, is_library)
            raise GraphBreak(FINALIZER, what=f"a {cls.__qualname__}")
        if self.world.is_stateful(cls) or issubclass(cls, types.ModuleType):
            raise GraphBreak(OPAQUE_OBJECT, name=cls.__qualname__, what=f"a {cls.__qualname__}")

    def run_torch(self, function: types.FunctionType, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Call a Python function of torch; one that wraps a function of the table is that function."""
        wrapped = getattr(function, "__wrapped__", None)
        if row_of(wrapped).handler is not None or row_of(wrapped).refuse is not None:
            return self.call(wrapped, args, kwargs)
        self.recorder.running += 1
        try:
            return self.run_native(function, args, kwargs)
        finally:
            self.recorder.running -= 1

    def call_object(self, rest: Rest | None, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """An instance whose class has `__call__`, or a native callable object."""
        if isinstance(function, _C.Region):
            return call_region(self, rest, function, function.__wrapped__, args, kwargs)
        if isinstance(function, _C.disabled):
            return run_eagerly(self, rest, function, args, kwargs)
        if isinstance(function, functools._lru_cache_wrapper):
            return call_cached(self, function, args, kwargs)
        if isinstance(function, operator.attrgetter) and len(args) == 1 and not kwargs:
            names = function.__reduce__()[1]
            if len(names) == 1 and "." not in names[0]:
                return self.call(getattr, (args[0], names[0]), {}, rest)
            if self.world.is_pinned(args[0]):
                raise refused_native(function, "operator", "attrgetter")
        inline = getattr(type(function), "__onegraph_inline__", None)
        if inline is not None:
            return call_region(self, rest, type(function), inline, (function, *args), kwargs)
        mark = foreign_class_mark(type(function))
        if mark is not None:
            return mark(self, rest, function, args, kwargs)
        if isinstance(function, FUNCTIONS_OF_ARRAYS):
            return call_unknown(self, function, args, kwargs)
        found = find_in_class(type(function), "__call__")
        if found is None:
            raise TypeError(f"'{type(function).__name__}' object is not callable")
        method = found.value
        if find_disabled(method) is not None:
            return run_eagerly(self, rest, find_disabled(method), args, kwargs)
        interpreted = isinstance(method, types.FunctionType) and not runs_natively(method)
        if interpreted or isinstance(method, staticmethod | classmethod):
            return self.call(self.bound(found, function), args, kwargs, rest)
        if isinstance(function, SCRIPTED_TYPES):
            raise GraphBreak(SCRIPTED, name=getattr(function, "name", type(function).__name__))
        if is_library(type(function).__module__ or ""):
            if not is_torch(type(function)):
                self.world.refuse_opaque(function)
            self.world.realize_deep(function, opaque=True)
            return self.run_native(function, args, kwargs)
        if isinstance(method, types.FunctionType):
            return self.call(method, (function, *args), kwargs)
        if fill_late_rows(function):
            return self.call(function, args, kwargs, rest)
        raise refused_native(function, type(function).__module__, type(function).__qualname__)

    def is_made_cache(self, function: Any) -> bool:
        """Whether the trace has made this function with a cache: then the results in it are the trace's."""
        return id(function) in self.world.births

    def is_constant(self, value: Any) -> bool:
        """Whether the value is an immutable object from outside, known by identity."""
        return isinstance(value, type | torch.dtype | torch.device) and not self.was_made(value)

    def call_native(self, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """A function written in C: run if the policy knows it or its module, else a break."""
        receiver = receiver_of(function)
        if receiver is None:
            owner = getattr(function, "__objclass__", None)
            if owner is not None:
                return self._call_method_of(owner, function, args, kwargs)
            module = getattr(function, "__module__", None) or ""
            for value in args if module in MODULES and MODULES[module].writes else ():
                self.world.touch(value)
            if module in MODULES or module.partition(".")[0] == "torch" or row_of(function).depth is not None:
                return self.run_native(function, args, kwargs)
            polyfill = foreign_polyfill(function)
            if polyfill is not None:
                return self.call(polyfill, args, kwargs)
            if fill_late_rows(function):
                return self.call(function, args, kwargs)
            raise refused_native(function, module, getattr(function, "__name__", str(function)))
        if function.__name__ == "__call__" and type(receiver) in (types.MethodWrapperType, types.BuiltinFunctionType):
            return self.call(receiver, args, kwargs)
        if type(receiver) is types.MappingProxyType:
            return self.call(self.getattr(behind_proxy(receiver), function.__name__), args, kwargs)
        mark = row_of(defined(type(receiver), function.__name__)).mark
        if mark is not None:
            return mark(self, None, function, args, kwargs)
        access = access_of_method(function.__name__)
        handler = self._method_handler(receiver, function)
        if handler is not None:
            if self.recorder.modes or self.recorder.handles:
                method = defined(type(receiver), function.__name__)
                if (taken := taken_over(self, method, (receiver, *args), kwargs)) is not NotImplemented:
                    return taken
            if access.writes:
                self.world.touch(receiver)
            return handler(self, (receiver, *args), kwargs)
        if isinstance(receiver, type):
            if function.__name__ == "__new__" and args and isinstance(args[0], type):
                self._refuse_making(args[0])
            return self.run_native(function, args, kwargs)
        self.world.refuse_opaque(receiver)
        if access.writes:
            self.world.touch(receiver)
        if access.looks_up and args and isinstance(receiver, dict | set | frozenset):
            self.world.settled(args[0])
        if access.compares == "items" and args and rule_of(type(receiver)).compares_members:
            for member in self.world.realize(receiver):
                self.world.told_apart(args[0], member)
        elif access.compares == "receiver" and args:
            self.world.told_apart(receiver, args[0])
        self.realize_for(function, receiver)
        return self.run_native(function, args, kwargs)

    def _call_method_of(self, owner: type, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """An unbound native method called with its receiver as first argument."""
        if owner is object and args and isinstance(args[0], torch.Tensor):  # it would tell of the fake
            raise GraphBreak(TENSOR_MEMORY, what=f"object.{function.__name__}")
        if args:
            self.world.refuse_opaque(args[0])
            if access_of_method(function.__name__).writes:
                self.world.touch(args[0])
            if not isinstance(args[0], torch.Tensor):
                self.realize_for(function, args[0])
        return self.run_native(function, args, kwargs)

    def _method_handler(self, receiver: Any, function: Any) -> Any:
        owner = getattr(function, "__objclass__", type(receiver))
        descriptor = defined(owner, function.__name__)
        if descriptor is None and isinstance(receiver, type):
            descriptor = defined(receiver, function.__name__)
        if isinstance(descriptor, types.FunctionType | classmethod):  # of a subclass, which asks that of its base
            descriptor = native_method(receiver, function)
        row = row_of(descriptor)
        if row.refuse is not None:
            row.refuse()
        return row.handler

    def run_native(self, function: Callable[..., T], args: tuple[Any, ...], kwargs: dict[str, Any]) -> T:
        """Call a native function on shadows, filled as far as it will look."""
        depth = depth_of(function)
        if depth != "identity":
            refuse_calls(function, (*args, *kwargs.values()), self.world.refuse_opaque)
        if not keeps_texts(function):
            refuse_marked(bound_to(function), *args, *kwargs.values())
            if depth == "deep" and self.recorder.texts and holds_marked((args, kwargs)):
                raise GraphBreak(TEXT_DECIDES)
        for value in (*args, *kwargs.values()):
            if type(value) in ATOMS or isinstance(value, torch.Tensor):
                continue
            if depth != "identity":
                self.world.refuse_opaque(value)
            if depth == "deep":
                self.world.realize_deep(value, opaque=is_torch(function))
            elif depth != "identity":
                self.world.realize(value)
            for pair in members_of(value) if depth == "pairs" and isinstance(value, list | tuple) else ():
                self.world.realize(pair)
        if not takes_symbols(function):
            args, kwargs = self.numbers.concrete_deep(args, "value"), self.numbers.concrete_deep(kwargs, "value")
        if is_torch(function) or isinstance(function, types.FunctionType):
            refuse_tensor_like((args, kwargs))
            return function(*args, **kwargs)
        made: Any = run_among(self.frames[-1].globals, _C.trace_hook(self._reentry), function, args, kwargs)
        self.world.note_hashed(made, bound_to(function))
        if type(made) is str:
            made = self.world.with_addresses(made)
        elif isinstance(made, type) and (isinstance(function, type) or getattr(function, "__name__", "") == "__new__"):
            self.world.made_classes[id(made)] = made
        for each in made if type(made) is tuple else (made,):  # `tee` makes several
            if isinstance(each, UNREDUCED):
                self.note_birth(each)
        result: T = made
        return result

    def natively(self, function: Callable[..., T], *args: Any) -> T:
        if all(row_of(type(value)).quiet or isinstance(value, torch.Tensor) for value in args):
            return function(*args)
        with _C.trace_hook(self._reentry):
            return function(*args)

    def call_native_or_method(self, kind: type, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        method = self.type_lookup(type(args[0]), name) if len(args) == 1 and not kwargs else NULL
        if is_python(method):
            result = self.call_special(method, args[0])
            return result if self.type_of(result) is kind else taken(kind, name, type(args[0]), result)
        return self.run_native(kind, args, kwargs)

    def call_type_natively(self, cls: type, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        disabled = find_disabled(defined(cls, "__init__"))
        if disabled is not None:
            run_eagerly(self, None, disabled, args, kwargs)
        refuse_outside_class(cls, is_library)
        return self.note_birth(self.run_native(cls, args, kwargs))

    def interpret(self, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any], rest: Rest | None = None) -> Any:
        """Interpret a Python function although the table has a handler for it."""
        frame = self.make_frame(decode(function.__code__), function, self.bind(function, args, kwargs))
        frame.rest = rest
        return self.run_frame(frame)
